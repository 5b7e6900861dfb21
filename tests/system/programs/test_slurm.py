"""Sweeps on the nodes of a real Slurm, reached by srun."""

from pathlib import Path

import pytest

from results.store import read_records
from tests.support.hosts import slurm
from tests.support.hosts.cluster_sweeps import FAKE
from tests.support.paths import ROOT
from tests.support.programs.commands import FAB

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(slurm.missing()), reason=slurm.missing() or "none"),
]
VIA = "srun --overlap -N1 -n1 -w {host}"


def test_a_batch_script_sweeps_over_its_nodes_and_reports(tmp_path: Path) -> None:
    sweep, script = tmp_path / "it's a sweep.toml", tmp_path / "job.sbatch"
    sweep.write_text(FAKE)
    words = ["bench.sbatch", str(sweep), "--devices-per-node", "1", "--run", str(tmp_path / "run")]
    command = f'"$@" >{script} && sbatch --wait --output={tmp_path}/out {script}'
    done = slurm.run(tmp_path / "lab", ["sh", "-c", command, "sh", str(FAB), *words], ROOT)
    assert done.returncode == 0, done.stderr + (tmp_path / "out").read_text()
    records = read_records(tmp_path / "run")
    assert {record.status for record in records} == {"ok"}
    assert {rank.host for record in records for rank in record.ranks} == {"n1", "n2"}
    assert (tmp_path / "run" / "report" / "index.html").is_file()


def test_a_step_that_slurm_does_not_allow_is_one_line_for_all_hosts(tmp_path: Path) -> None:
    words = ["--hosts", "n1:1,n2:1", "--via", VIA.replace("-N1", "--jobid 77 -N1")]
    done = slurm.run(tmp_path / "lab", [str(FAB), "hosts.check", *words], ROOT)
    assert done.returncode == 3, done.stderr
    (line,) = [one for one in done.stdout.splitlines() if "srun" in one]
    assert line.startswith("n1, n2: 'srun' ended with exit code 1 before a shell started on the ")
    assert "Invalid job id" in line


def test_a_node_that_is_down_is_named(tmp_path: Path) -> None:
    check = [str(FAB), "hosts.check", "--devices-per-node", "1", "--via", VIA]
    down = f'kill $(cat {tmp_path}/lab/n2/pid) && exec "$@"'
    words = ["salloc", "--nodes=2", "sh", "-c", down, "sh", *check]
    done = slurm.run(tmp_path / "lab", words, ROOT)
    assert done.returncode == 3, done.stderr
    (line,) = [one for one in done.stdout.splitlines() if one.startswith("n2: ")]
    assert "'srun' ended with exit code " in line or "'srun' did not start" in line
    assert "1 of 2 hosts are ready" in done.stdout
