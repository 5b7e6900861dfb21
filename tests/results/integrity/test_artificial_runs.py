"""Runs that benchmarks write are whole: their logs give their records."""

from argparse import Namespace
from pathlib import Path

import pytest

from bench.sweep import load_sweep
from benchmarks.scale.__main__ import lines_of
from benchmarks.scale.costs import WANTED, Cost, table
from benchmarks.scale.runs import families, one_family, write_run, write_unfinished
from launch.setup import local_setup
from launch.sweep import points
from results.integrity.digest import covered_files
from results.integrity.rederive import rederive_run
from results.run import load
from results.store import Store


def test_the_events_of_an_artificial_run_give_its_records(tmp_path: Path) -> None:
    write_run(tmp_path, families(3, ranks=2), windows=4, logs=True)
    run, result = rederive_run(tmp_path)
    assert run is not None
    assert (result.wrong, result.unchecked, result.ranks) == ([], [], 6)
    assert len(covered_files(tmp_path)) == 1 + 3 * (2 + 3 * 2)


def test_points_of_many_ranks_stay_within_the_devices_of_a_job() -> None:
    assert {one.layout.devices for one in families(100, ranks=1024)} == {1024, 2048, 4096, 8192}


def test_points_of_one_family_share_a_baseline(tmp_path: Path) -> None:
    write_run(tmp_path, one_family(6, ranks=1), windows=4)
    rows = load(tmp_path).rows
    assert [row.trial.layout.devices for row in rows] == [1, 1, 2, 2, 3, 3]
    assert all(row.device for row in rows)


def test_an_unfinished_run_lacks_the_last_point_of_its_sweep(tmp_path: Path) -> None:
    write_run(tmp_path / "whole", families(10, ranks=1), windows=4)
    what = load_sweep(str(write_unfinished(tmp_path / "part", tmp_path / "whole")))
    wanted = {identity for _, identity in points(what, local_setup(what))}
    store = Store(tmp_path / "part")
    (left,) = wanted - store.done()
    store.close()
    assert (len(wanted), left.name) == (11, "alexnet local x1")


def test_identities_of_repeats_need_no_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path / "whole", families(10, ranks=1), windows=4)
    what = load_sweep(str(write_unfinished(tmp_path / "part", tmp_path / "whole")))
    monkeypatch.setattr("launch.job.plan.Process", None)  # half a million take a minute
    assert len(points(what, local_setup(what))) == 11


def test_the_table_has_growth_exponents() -> None:
    names = [("digest, 256 ranks, logs", 10), ("digest, 256 ranks, logs", 1000), ("fab --list", 0)]
    costs = [Cost(seconds=0.1), Cost(seconds=10.0, mebibytes=3.2), Cost(seconds=0.2)]
    assert table(names, costs).splitlines()[2:] == [
        "| digest, 256 ranks, logs | 10 | 0.100 |  |  |  |  |",
        "| digest, 256 ranks, logs | 1000 | 10.0 | 1.0 | 3 |  | 15 s, 20 MB |",
        "| fab --list |  | 0.200 |  |  |  | 1.5 times fab --version |",
    ]


def test_each_wanted_cost_belongs_to_a_line_of_the_benchmark(tmp_path: Path) -> None:
    sizes = {"points": [3000], "ranked": [100, 1000], "ranks": 256, "most_ranks": 1024}
    found = lines_of(tmp_path, Namespace(**sizes, windows=100))
    assert set(WANTED) <= {(name, size) for name, size, _ in found}
