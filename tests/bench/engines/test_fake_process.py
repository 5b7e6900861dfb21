"""Windows of a simulation vary as its trial states, and identically each time."""

import math
import os
import socket
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from statistics import fmean, stdev

import pytest

from bench.engines.catalog import ENGINES
from bench.engines.fake import script
from bench.engines.fake_process import Noise, factors, shared_factors, window_seconds
from bench.trial import Trial
from tests.support.paths import ROOT
from tests.support.programs.jobs import measured, trial

_RUN = "from bench.engines.fake_process import run"
SOME = Noise(within=0.02, correlation=0.4, between=0.03)


def logs(seed: str, count: int = 400) -> list[float]:
    return [math.log(one) for one in factors(SOME, seed, count)]


def test_noise_has_the_spread_and_the_correlation_that_were_asked_for() -> None:
    many = [logs(f"s {n}") for n in range(300)]
    means = [fmean(one) for one in many]
    assert stdev(means) == pytest.approx(0.03, rel=0.12)
    inner = [[x - mean for x in one] for one, mean in zip(many, means, strict=True)]
    variance = fmean([x * x for one in inner for x in one])
    assert math.sqrt(variance) == pytest.approx(0.02, rel=0.05)
    follows = fmean([x * y for one in inner for x, y in pairwise(one)])
    assert follows / variance == pytest.approx(0.4, abs=0.03)
    assert fmean(means) == pytest.approx(0.0, abs=0.006)


def test_the_same_seed_scatters_alike_and_no_noise_is_none_at_all() -> None:
    assert factors(SOME, "a", 9) == factors(SOME, "a", 9) != factors(SOME, "b", 9)
    assert factors(Noise(), "a", 5) == shared_factors(Noise(), "a", 5, 3) == [1.0] * 5


def test_a_shared_window_is_that_of_the_slowest_rank() -> None:
    each = [factors(SOME, f"a {rank}", 6) for rank in range(3)]
    assert shared_factors(SOME, "a", 6, 3) == [max(one) for one in zip(*each, strict=True)]


def played(what: Trial, rank: int, monkeypatch: pytest.MonkeyPatch, repeat: int) -> list[float]:
    monkeypatch.setenv("MXSCALE_REPEAT", str(repeat))
    return window_seconds(script(what, "worker", rank), rank, what.workers)


def test_repeats_differ_and_ranks_share_their_step_unless_they_run_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    noisy = trial(fake_noise=0.02, fake_spread=0.01)
    first = played(noisy, 0, monkeypatch, 0)
    assert first == played(noisy, 1, monkeypatch, 0) != played(noisy, 0, monkeypatch, 1)
    alone = noisy.replace(kvstore="dist_async")
    assert played(alone, 0, monkeypatch, 0) != played(alone, 1, monkeypatch, 0)
    assert played(trial(), 0, monkeypatch, 0) == [0.9, 0.5, 0.4, 0.5]


@pytest.mark.program
def test_a_rehearsal_with_noise_comes_out_the_same_again(tmp_path: Path) -> None:
    what = trial(fake_noise=0.02, fake_spread=0.01)
    runs = [measured(tmp_path / name, what, repeats=2) for name in "ab"]
    seconds = [[[rank.seconds for rank in one.ranks] for one in records] for records in runs]
    assert seconds[0] == seconds[1]
    assert seconds[0][0] != seconds[0][1]
    assert seconds[0][0][0] == seconds[0][0][1]


@pytest.mark.program
def test_a_simulated_worker_alone_computes_nearly_all_the_time_and_waits_for_images(
    tmp_path: Path,
) -> None:
    alone = {"devices": 1, "kvstore": "local", "fake_seconds": [0.5], "windows": 9}
    reads = trial(mode="real", data_train=str(tmp_path), **alone)
    assert script(reads, "worker", 0)["reads"] is True
    assert "reads" not in script(trial(**alone), "worker", 0)
    (record,) = measured(tmp_path, trial(**alone))
    (rank,) = record.ranks
    assert rank.own_seconds == pytest.approx([0.95 * 0.5] * 3)
    assert rank.input_wait == (0.0,) * 10
    assert rank.run_delay == pytest.approx([0.005] * 10)


@pytest.mark.program
def test_a_connection_that_the_scheduler_closes_is_one_plain_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as scheduler:
        host, port = scheduler.getsockname()
        env = {"DMLC_PS_ROOT_URI": host, "DMLC_PS_ROOT_PORT": str(port), "DMLC_NUM_WORKER": "2"}
        with subprocess.Popen(
            [sys.executable, "-c", f"{_RUN}; run({{'faults': {{}}}})"],
            env=os.environ | env | {"DMLC_NUM_SERVER": "1", "DMLC_ROLE": "worker"},
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        ) as worker:
            scheduler.accept()[0].close()
            _, said = worker.communicate(timeout=20)
    assert worker.returncode == 1
    assert said == "the scheduler closed the connection before it sent a rank\n"


def test_a_process_without_noise_and_faults_imports_little() -> None:
    """Hundreds start at once; NumPy takes ten times as long as the rest."""
    alike = ENGINES["fake"].command(
        trial(windows=60, precision=0.02, fake_seconds=[0.5]), "worker", 0
    )
    slow = {"enum", "functools", "json", "numpy", "random", "re", "site", "socket", "typing"}
    program = f"{_RUN}; import os, sys; os._exit = lambda code: print(*{slow} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, *alike[:-1], f"{program}; {alike[-1]}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "\n"
    assert done.stderr.splitlines()[-1] == "rank 0 window 9"  # one of warm-up, nine counted


def test_windows_that_differ_have_the_packages_of_the_stopping_rule() -> None:
    flags = {
        ENGINES["fake"].command(trial(**varied), "worker", 0)[0] == "-S"
        for varied in ({"fake_seconds": [0.9, 0.5]}, {"fake_noise": 0.02}, {"fake_spread": 0.02})
    }
    assert flags == {False}
