"""Batch scripts for Slurm, run by bash with a program in place of fab."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from invoke.context import Context
from invoke.exceptions import Exit

from launch.hosts import ROOT
from launch.job.batch_script import TEMPLATE, BatchJob, script_lines
from launch.remote.errors import LaunchError
from tasks.bench import bench_sbatch

ODD = ('it\'s $HOME `id` "x" ;rm -rf *.toml', "--via=srun -w {host}", "--run=a b\\", "-x", "ü&|<>")


def job(tree: str, name: str = "seed", **requests: str) -> BatchJob:
    return BatchJob(name=name, tree=tree, nodes=2, words=ODD, requests=requests)


def written(made: BatchJob, folder: Path) -> Path:
    path = folder / "job.sbatch"
    path.write_text("".join(f"{line}\n" for line in script_lines(made)))
    return path


def test_odd_names_reach_the_sweep_unchanged(tmp_path: Path) -> None:
    tree = tmp_path / "it's a $(tree)"
    (tree / ".venv" / "bin").mkdir(parents=True)
    program = tree / ".venv" / "bin" / "fab"
    code = "import json, os, sys; print(json.dumps([os.getcwd(), *sys.argv[1:]]))"
    program.write_text(f"#!{sys.executable}\n{code}\n")
    program.chmod(0o755)
    script = written(job(str(tree)), tmp_path)
    done = subprocess.run(["bash", script], capture_output=True, text=True, check=True, cwd="/")
    assert json.loads(done.stdout) == [str(tree), "bench.sweep", *ODD]
    program.unlink()
    tree.rename(tmp_path / "gone")
    done = subprocess.run(["bash", script], capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 1
    assert "No such file or directory" in done.stderr


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="needs shellcheck")
def test_shellcheck_finds_nothing_in_a_script(tmp_path: Path) -> None:
    script = written(job("/a b/it's", "x", time="4:00:00"), tmp_path)
    # The odd names have `$` and a final backslash in single quotes on purpose.
    done = subprocess.run(
        ["shellcheck", "--exclude=SC2016,SC1003", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_lines_of_sbatch_have_plain_values_only() -> None:
    lines = list(script_lines(job("/t", "a b\n#SBATCH --wrap=x;", time="1-00:00:00", account="")))
    asked = [line for line in lines if line.startswith("#SBATCH")]
    assert asked == [
        "#SBATCH --job-name=a-b-SBATCH---wrap-x",
        "#SBATCH --nodes=2",
        "#SBATCH --exclusive",
        "#SBATCH --mem=0",
        "#SBATCH --signal=B:TERM@60",
        "#SBATCH --time=1-00:00:00",
    ]
    for value in ("a b", "x\n#SBATCH --wrap=y", "-w", "$(id)", "'"):
        with pytest.raises(LaunchError, match="--partition: expected letters, digits and"):
            list(script_lines(job("/t", partition=value)))
    for value in ("banana", "1-2-3", "4:00:00:00", "-1", "٣"):
        with pytest.raises(LaunchError, match="--time: expected a time such as"):
            list(script_lines(job("/t", time=value)))
    with pytest.raises(LaunchError, match="script: expected plain words, got"):
        list(script_lines(job("/t\nexit 0")))


def test_the_task_prints_a_script_for_a_sweep(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    bench_sbatch.body(
        Context(), "seed", nodes="4", gpus_per_node="8", time="4:00:00", options="--repeats 5"
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("# Edit the lines of SBATCH")
    assert lines[2:4] == ["#SBATCH --job-name=seed", "#SBATCH --nodes=4"]
    assert lines[7:9] == ["#SBATCH --gpus-per-node=8", "#SBATCH --time=4:00:00"]
    assert lines[-2] == f"cd -- {ROOT} || exit 1"
    assert lines[-1] == (
        f"exec .venv/bin/fab bench.sweep seed '--via={TEMPLATE}' --tree={ROOT} "
        "--devices-per-node=8 --repeats 5"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "--devices-per-node: expected training devices of each node, got none. Give it, or"),
        ({"devices_per_node": "x"}, "--devices-per-node: expected a whole number"),
        ({"devices_per_node": "8", "options": "--repaets 5"}, "--options: .* did you mean '--rep"),
        ({"devices_per_node": "8", "options": "--repeats"}, "--options: .*needed value"),
        ({"devices_per_node": "8", "options": "; true"}, "--options: expected SWEEP, got also ';'"),
        ({"devices_per_node": "8", "options": "--via ssh"}, "--options: --via: the script reach"),
        ({"devices_per_node": "8", "options": "--hosts a"}, "--options: --hosts: the script rea"),
        ({"devices_per_node": "8", "options": "--hostfile=a"}, "--hostfile: .* Remove --hostfile"),
        ({"devices_per_node": "8", "options": "--tree /"}, "--options: expected --tree once, got"),
        ({"devices_per_node": "8", "options": "--repeats zwei"}, "--repeats: .* got 'zwei'"),
        ({"devices_per_node": "8", "options": "--progress=1m"}, "--progress: .* got '1m'"),
        ({"devices_per_node": "8", "options": "--log-budget 0"}, "--log-budget: .* got '0'"),
        ({"devices_per_node": "8", "options": "--port 70000"}, "--port: .* got '70000'"),
        ({"devices_per_node": "8", "options": "--retries -1"}, "--retries: .* got '-1'"),
        ({"devices_per_node": "8", "options": "--server-hosts=a"}, "--server-hosts: .* got 'a'"),
        ({"devices_per_node": "8", "options": "--point x9"}, "point: expected words of a point"),
        ({"devices_per_node": "8", "options": "--engine no"}, "unknown engine 'no'"),
        ({"devices_per_node": "8", "options": "--engine torch"}, "kvstore: expected one of none"),
        ({"devices_per_node": "8", "options": "--fault no"}, "expected POINT:ROLE:KIND"),
        ({"devices_per_node": "8", "options": "--speedup-baseline no"}, "'KVSTORE xN'"),
        ({"devices_per_node": "8", "options": "--server-hosts 2"}, "fewer than the 2 hosts"),
        ({"devices_per_node": "8", "options": "--ssh-config x"}, "--ssh-config: the script reach"),
        ({"devices_per_node": "8", "options": "--repeats 0"}, "--repeats: .* got '0'"),
        ({"nodes": "0"}, "--nodes: expected a whole number"),
        ({"devices_per_node": "8", "partition": "a b"}, "--partition: expected letters"),
        ({"devices_per_node": "8", "options": "--x 'a"}, "--options: its quotes do not match"),
        (
            {"devices_per_node": "8", "options": "-x HF_TOKEN=abc"},
            r"--options: expected no secret, got 'HF_TOKEN=\*\*\*'\. Give only its name",
        ),
    ],
)
def test_a_wrong_option_prints_no_script(
    options: dict[str, str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(Exit, match=message) as error:
        bench_sbatch.body(Context(), "seed", **options)
    assert error.value.code == 2
    assert capsys.readouterr().out == ""
