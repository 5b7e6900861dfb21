"""Points run in random order, kept by a resumed sweep; reports keep file order."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from invoke.context import Context

import fabfile as _fabfile
from launch.hosts import this_machine
from launch.sweep import PlannedRun, identity, run_order
from results.store import read_json, read_records
from tests.support.programs.commands import SWEEP, fab, sweep_file
from tests.support.programs.jobs import trial

fabfile: Any = _fabfile
FOUR = [trial(devices=devices) for devices in (1, 2, 4, 8)]
QUICK = SWEEP.replace("repeats = 1", "repeats = 2\nfake_seconds = [0.1]")
POINTS = "[[points]]\nkvstore = 'local'\ndevices = [1, 2, 3, 4]\n"


def asked(repeats: int) -> list[PlannedRun]:
    here = (this_machine(),)
    return [(one, identity(one, n, here, "")) for n in range(repeats) for one in FOUR]


def test_each_repeat_is_whole_before_the_next_and_has_an_order_of_its_own() -> None:
    wanted = asked(20)
    order = run_order(wanted, "run")
    assert [name.repeat for _, name in order] == [name.repeat for _, name in wanted]
    assert sorted(name.name for _, name in order) == sorted(name.name for _, name in wanted)
    by_repeat = [
        tuple(one.layout.devices for one, _ in order[at : at + 4]) for at in range(0, 80, 4)
    ]
    assert len(set(by_repeat)) > 8
    assert {counts[0] for counts in by_repeat} == {1, 2, 4, 8}
    assert run_order(wanted, "other") != order


def test_what_is_left_keeps_its_order() -> None:
    wanted = asked(3)
    left = [point for n, point in enumerate(wanted) if n % 3]
    order = run_order(wanted, "run")
    assert run_order(left, "run") == [point for point in order if point in left]


@pytest.mark.program
def test_a_sweep_is_measured_shuffled_and_reported_in_the_order_of_its_file(
    tmp_path: Path,
) -> None:
    path = sweep_file(tmp_path, QUICK + POINTS)
    folder = tmp_path / "run"
    done = fab("bench.sweep", path, "--run", str(folder))
    assert done.returncode == 0, done.stderr
    ran = [(record.identity.repeat, record.trial.layout.devices) for record in read_records(folder)]
    counts = [1, 2, 3, 4]
    assert sorted(ran) == [(repeat, count) for repeat in (0, 1) for count in counts] != ran
    assert [repeat for repeat, _ in ran] == [0] * 4 + [1] * 4
    environment: dict[str, Any] = read_json(folder, "environment.json", {})
    assert environment["order"] == [
        f"tiny local x{count}, repeat {repeat + 1}" for repeat, count in ran
    ]
    assert list(pd.read_csv(folder / "report" / "results.csv")["devices"]) == counts
    other = tmp_path / "other"
    fabfile.bench.bench_sweep.body(Context(), path, run=str(other), in_order=True, repeats="1")
    assert [record.trial.layout.devices for record in read_records(other)] == counts
