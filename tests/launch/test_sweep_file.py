"""New sweep files: what fits the time and the hardware."""

import os
from pathlib import Path

import pytest
from invoke.context import Context

import tasks.plan
from bench.errors import SpecError
from bench.sweep import load_sweep, parse_sweep
from bench.trial import Trial
from launch.sweep_file import Hardware, fitting_text
from tasks.plan import bench_new, sweep_for_hosts
from tests.support.programs.commands import refusal

CORES = Hardware(device="cpu", devices=6, gib=64.0)


def made(
    minutes: int, *networks: str, found: Hardware = CORES, each: float = 60.0
) -> tuple[tuple[Trial, ...], int, list[str]]:
    """Return trials, repeats and limits of a new sweep whose runs take `each` seconds."""

    def seconds(text: str) -> float:
        what = parse_sweep(Path("new.toml"), text)
        return len(what.trials) * what.repeats * each

    text, limits = fitting_text("fab bench.new new", minutes, networks, found, seconds)
    what = parse_sweep(Path("new.toml"), text)
    assert seconds(text) <= minutes * 60
    return what.trials, what.repeats, limits


def test_with_time_enough_everything_is_in_the_sweep() -> None:
    trials, repeats, limits = made(600)
    assert {one.label for one in trials} == {"alexnet", "inception-v3", "resnet-152"}
    assert {one.layout.kvstore for one in trials} == {"local", "dist_sync"}
    assert sorted({one.layout.devices for one in trials}) == [1, 2, 4, 6]
    assert (repeats, limits) == (3, [])


def test_networks_go_first_then_counts_then_stores_then_repeats() -> None:
    assert made(60)[2] == ["no time for resnet-152"]
    assert made(30)[2] == ["no time for inception-v3, resnet-152"]
    trials, repeats, limits = made(20, "tiny")
    assert (len(trials), repeats) == (4, 3)
    assert limits == ["no time for device counts between 1 and 6"]
    trials, repeats, limits = made(5, "tiny")
    assert (len(trials), repeats, limits[1]) == (2, 2, "no time for dist_sync")
    trials, repeats, limits = made(3, "tiny")
    assert (len(trials), repeats) == (2, 1)
    assert limits[2].startswith("no time for 3 repeats, only 1: results will not be publish")


def test_networks_that_are_asked_for_all_stay_or_none_fits() -> None:
    trials, _, _ = made(9, "tiny", "resnet-18")
    assert {one.label for one in trials} == {"tiny", "resnet-18"}
    assert {one.measuring.steps_per_window for one in trials} == {1, 100}
    with pytest.raises(SpecError, match="--minutes: expected time for one run of each point"):
        made(1, "tiny")
    code, text = refusal(bench_new, "new", networks="resnet18")
    assert (code, text[:32]) == (2, "error: --networks: unknown netwo")


def test_memory_and_gpus_decide_on_networks_stores_and_batches() -> None:
    small = Hardware(device="cpu", devices=2, gib=3.0)
    trials, _, limits = made(600, found=small)
    assert {one.label for one in trials} == {"tiny"}
    assert limits[0].startswith("too little free memory for alexnet")
    trials, _, _ = made(600, found=Hardware(device="gpu", devices=4, gib=64.0))
    assert {one.layout.kvstore for one in trials} == {"device", "dist_device_sync"}
    assert {one.training.batch_per_device for one in trials} == {512, 32}


def test_a_new_file_is_written_once_and_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tasks.plan, "RUNS", tmp_path / "none")
    name = f"{tmp_path}/mine"
    bench_new.body(Context(), name, minutes="10", networks="tiny")
    file, line, *_, plan, sweep = capsys.readouterr().out.splitlines()
    assert file == f"{name}.toml"
    assert " processes, 0 measured, about " in line
    assert (plan, sweep) == (f"fab bench.plan {name}", f"fab bench.sweep {name}")
    before = Path(file).read_text()
    assert load_sweep(name) == load_sweep(file)  # with and without .toml
    code, text = refusal(bench_new, name)
    assert (code, "expected no such file" in text) == (2, True)
    assert Path(file).read_text() == before
    assert refusal(bench_new, "demo")[0] == 2
    assert refusal(bench_new, f"{tmp_path}/none/new")[0] == 2


def test_a_shipped_sweep_wins_over_a_file_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("smoke.toml").write_text('network = "alexnet"\nbatch_per_device = 1\n[[points]]\n')
    assert sweep_for_hosts((), "smoke", {}, "").trials[0].label == "tiny"
    note = "note: 'smoke' is the shipped sweep; for your file, type ./smoke.toml\n"
    assert capsys.readouterr().err == note
    assert sweep_for_hosts((), f".{os.sep}smoke", {}, "").trials[0].label == "alexnet"
    assert capsys.readouterr().err == ""
