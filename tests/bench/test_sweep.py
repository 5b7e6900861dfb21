"""Sweep files become trials, or one error line with the fix."""

import itertools
import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import SpecError
from bench.settings.product import series
from bench.sweep import load_sweep, spread, within

pytestmark = pytest.mark.pythons

POINT = "batch_per_device = 8\n[[points]]\nnetwork = 'alexnet'\n"


def sweep_file(folder: Path, text: str) -> str:
    path = folder / "mine.toml"
    path.write_text(text)
    return str(path)


def test_the_published_study_has_27_points_up_to_256_gpus() -> None:
    trials = load_sweep("seed").trials
    assert len(trials) == 27
    batches = {(trial.label, trial.training.batch_per_device) for trial in trials}
    assert batches == {("alexnet", 512), ("inception-v3", 32), ("resnet-152", 32)}
    assert {trial.layout.devices for trial in trials} == {1, 2, 4, 8, 16, 32, 64, 128, 256}
    largest = max(trials, key=lambda trial: (trial.layout.devices, trial.training.batch_per_device))
    assert (largest.hosts, largest.workers, largest.worker_batch) == (16, 16, 8192)
    assert {trial.layout.kvstore for trial in trials if trial.hosts > 1} == {"dist_device_sync"}


def test_the_demo_covers_every_mode_and_both_kinds_of_store() -> None:
    trials = load_sweep("demo").trials
    assert {trial.mode for trial in trials} == {"test-io", "real", "synthetic"}
    synthetic = [trial for trial in trials if trial.mode == "synthetic"]
    points = {(trial.layout.kvstore, trial.layout.devices) for trial in synthetic}
    assert points == {("local", 1), ("local", 2), ("dist_sync", 1), ("dist_sync", 2)}
    assert {trial.label for trial in synthetic} == {"alexnet", "inception-v3", "resnet-152"}
    assert load_sweep("demo").repeats == 1


@given(st.integers(1, 64), st.integers(1, 4096))
def test_a_series_doubles_and_ends_with_its_end(first: int, more: int) -> None:
    last = first + more
    counts = series(f"{first}..{last}")
    assert counts[0] == first
    assert counts[-1] == last
    assert all(b == 2 * a for a, b in pairwise(counts[:-1]))
    assert counts == sorted(set(counts))


def test_a_largest_count_that_is_no_power_of_two_is_a_tail() -> None:
    assert series("1..6") == [1, 2, 4, 6]
    assert series("1..1") == [1]
    assert series([3, 5]) == [3, 5]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (POINT.replace("alexnet", "alexnte"), "unknown network 'alexnte'; did you mean 'alexnet'?"),
        (
            POINT.replace("alexnet", "resnet-51"),
            "expected one of 18, 34, 50, 101, 152, 200, 269, 20, 32, 44, 56, 110, 164, got 51",
        ),
        (POINT + "kvstore = 'dist_snyc'", "did you mean 'dist_sync'?"),
        (POINT + "kvstores = ['local']", "unknown field 'kvstores'; did you mean 'kvstore'?"),
        (POINT + "batch_size = 8", "unknown field 'batch_size'; did you mean 'batch_per_device'?"),
        (POINT + "learning_rate = 1", "unknown field 'learning_rate'; did you mean 'lr'?"),
        (POINT + "mom = 0.5", "unknown field 'mom'; did you mean 'momentum'?"),
        (POINT + "xyz = 'red'", "unknown field 'xyz'; see docs/reference/sweep-file.md"),
        ("batch_size = 8\n" + POINT, "unknown field 'batch_size'"),
        (POINT.replace("8", "0"), "batch_per_device: expected 1 or more, got 0"),
        (POINT + "devices = '4..1'", "expected a series such as '1..256', got '4..1'"),
        (POINT + "devices = 'all'", "expected a series such as '1..256', got 'all'"),
        (POINT + "devices = []", "devices: expected whole numbers, got []"),
        (POINT + "windows = { vgg-16 = 3 }", "windows: expected an entry for network 'alexnet'"),
        (
            POINT + "windows = { vgg-16 = 3 }\nsteps_per_window = { vgg-16 = 2 }",
            "windows, steps_per_window: expected an entry for network 'alexnet', got none. Add it "
            "to the tables",
        ),
        (
            POINT + "env = { A = '1' }",
            "env: expected a list of texts, got a table. Write env = ['NA",
        ),
        (POINT + "[points.env]\nA = '1'\n", "env: expected a list of texts, got a table"),
        (POINT + "env = { vgg-16 = ['A=1'] }", "env: expected an entry for network 'alexnet'"),
        (POINT + "engine = 'spark'", "unknown engine 'spark'. Known: mxnet, torch, command, fake"),
        ("repeats = 0\n" + POINT, "repeats: expected a whole number, 1 or more, got 0"),
        ("batch_per_device = 8\n", "expected at least one [[points]] table, got none"),
        ("this is no TOML", "not a TOML file: "),
        ("repeats = " + "9" * 5000 + "\n" + POINT, "not a TOML file: "),
        ("x = " + "[" * 5000, "not a TOML file: "),
        ("engine = []\n" + POINT, "engine: expected at least one value, got an empty list"),
        (
            POINT.replace("'alexnet'", "[]"),
            "network: expected at least one value, got an empty list",
        ),
        (POINT.replace("alexnet", "resnet-\u00b2"), "unknown network 'resnet-\u00b2'"),
        (POINT + "devices = '\u00b2..4'", "expected a series such as '1..256'"),
        (
            POINT + "repeats = 2",
            "field 'repeats': expected the top of the file, got a [[points]] table",
        ),
    ],
)
def test_a_mistake_in_a_sweep_is_one_line_naming_the_file(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(SpecError) as caught:
        load_sweep(sweep_file(tmp_path, text))
    assert said in str(caught.value)
    assert re.search(r"mine\.toml(:\d+)?: ", str(caught.value))
    assert "\n" not in str(caught.value)


def test_a_sweep_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(SpecError, match="did you mean 'smoke'"):
        load_sweep("smokee")


def test_another_engine_can_be_asked_for() -> None:
    assert {trial.engine for trial in load_sweep("demo", engine="fake").trials} == {"fake"}


def test_points_that_two_tables_ask_for_are_measured_once(tmp_path: Path) -> None:
    text = POINT + "devices = [1]\n[[points]]\nnetwork = 'alexnet'\n"
    assert len(load_sweep(sweep_file(tmp_path, text)).trials) == 1


def test_a_host_has_as_many_devices_as_the_largest_point_unless_told() -> None:
    trials = load_sweep("smoke").trials
    assert {trial.layout.devices_per_host for trial in trials} == {2}


def test_points_without_a_host_size_share_the_largest(tmp_path: Path) -> None:
    text = POINT + "kvstore = 'dist_sync'\ndevices = [1, 2, 4]\n"
    trials = load_sweep(sweep_file(tmp_path, text)).trials
    assert {trial.layout.devices_per_host for trial in trials} == {4}


@given(st.integers(1, 300))
def test_counts_double_and_end_with_all(devices: int) -> None:
    counts = within(devices)
    assert (counts[0], counts[-1]) == (1, devices)
    assert counts == sorted(set(counts))
    assert all(after <= 2 * before for before, after in itertools.pairwise(counts))


def names(sweep: str, hosts: int, devices: int) -> list[str]:
    what = load_sweep(sweep, hosts=hosts, fields={"devices_per_host": devices})
    return [trial.name for trial in what.trials if "resnet" in trial.name or "tiny" in trial.name]


def test_the_study_goes_over_one_host_then_two_four_and_all() -> None:
    assert names("seed", 6, 8) == [
        *(f"resnet-152 device x{count}" for count in (1, 2, 4, 8)),
        *(f"resnet-152 dist_device_sync x{count}" for count in (8, 16, 32, 48)),
    ]


def test_a_distributed_store_that_begins_at_one_device_does_so_here_too() -> None:
    assert names("smoke", 3, 2) == [
        *(f"tiny local x{count}" for count in (1, 2)),
        *(f"tiny dist_sync x{count}" for count in (1, 2, 4, 6)),
    ]


def test_points_without_device_counts_stay_as_they_are() -> None:
    data = {"points": [{"kvstore": "local"}, {"kvstore": "local", "devices": [1, 2]}]}
    assert spread(data, 2, 4)["points"] == [
        {"kvstore": "local"},
        {"kvstore": "local", "devices": [1, 2, 4]},
    ]


def test_engines_choose_their_kvstore_for_each_count_of_a_cluster() -> None:
    data = {"engine": ["mxnet", "torch"], "points": [{"devices": [1, 2]}]}
    assert spread(data, 2, 2)["points"] == [
        {"engine": "mxnet", "kvstore": "local", "devices": [1, 2]},
        {"engine": "torch", "devices": [1, 2, 4]},
    ]
    data = {"engine": "torch", "points": [{"devices": 2, "devices_per_host": 1}]}
    assert spread(data, 2, 1)["points"][0]["devices"] == [1, 2]
    assert spread(data, 1, 1)["points"] == [
        {"kvstore": "none", "devices": [1], "devices_per_host": 1}
    ]


def test_options_about_servers_count_for_engines_that_have_some(tmp_path: Path) -> None:
    text = """
network = "tiny"
batch_per_device = 4
devices = 2

[[points]]
kvstore = "dist_sync"

[[points]]
comm = "allreduce"

[[points]]
engine = "torch"
"""
    path = sweep_file(tmp_path, text)
    trials = load_sweep(path, fields={"servers_per_host": 1}).trials
    assert [(one.engine, one.layout.servers_per_host) for one in trials] == [
        ("mxnet", 1),
        ("mxnet", 0),
        ("torch", 0),
    ]
    with pytest.raises(SpecError, match="kvstore 'allreduce' has no servers"):
        load_sweep(sweep_file(tmp_path, f"servers_per_host = 1{text}"))


def test_options_count_for_every_point() -> None:
    what = load_sweep("smoke", fields={"env": ["A=b"], "windows": 3})
    assert {(trial.layout.env, trial.measuring.windows) for trial in what.trials} == {(("A=b",), 3)}
