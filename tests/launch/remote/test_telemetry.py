"""Joules come from the kernel and nvidia-smi; without them there is a reason."""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from launch.remote.telemetry import Gpus, Power, Rapl, oom_kills, used, watts, zones
from tests.support.hosts.host_reports import smi
from tests.support.programs.jobs import measured, trial

# Two processors with memory; psys contains all, core is a part of its package.
NAMES = {
    "intel-rapl:0": "package-0",
    "intel-rapl:0:0": "core",
    "intel-rapl:0:1": "dram",
    "intel-rapl:1": "package-1",
    "intel-rapl:1:0": "dram",
    "intel-rapl:2": "psys",
}
COUNTED = ("intel-rapl:0", "intel-rapl:0:1", "intel-rapl:1", "intel-rapl:1:0")


def tree(folder: Path, names: dict[str, str] = NAMES, reach: int = 10**9) -> Path:
    (folder / "intel-rapl").mkdir(parents=True)
    (folder / "intel-rapl" / "enabled").write_text("1\n")
    for zone, name in names.items():
        (folder / zone).mkdir()
        (folder / zone / "name").write_text(f"{name}\n")
        (folder / zone / "max_energy_range_uj").write_text(f"{reach}\n")
        count(folder, zone, 0)
    return folder


def count(folder: Path, zone: str, microjoules: int) -> None:
    (folder / zone / "energy_uj").write_text(f"{microjoules}\n")


def test_packages_and_memory_are_added_up_and_nothing_twice(tmp_path: Path) -> None:
    rapl = Rapl(tree(tmp_path))
    assert [zone.name for zone in zones(tmp_path)] == list(COUNTED)
    assert rapl.read() == 0.0
    for zone in NAMES:
        count(tmp_path, zone, 2_500_000)
    assert rapl.read() == pytest.approx(4 * 2.5)
    assert rapl.read() == pytest.approx(4 * 2.5)


def test_a_counter_that_passes_its_range_goes_on(tmp_path: Path) -> None:
    rapl = Rapl(tree(tmp_path, {"intel-rapl:0": "package-0"}, reach=262_143_000_000))
    for microjoules in (262_142_000_000, 500_000_000, 700_000_000):
        count(tmp_path, "intel-rapl:0", microjoules)
        told = rapl.read()
    assert told == pytest.approx(1.0 + 500.0 + 200.0)
    zone = Path("z")
    assert used({zone: 90}, {zone: 20}, {zone: 100}) == 30


def test_a_machine_without_counters_says_so(tmp_path: Path) -> None:
    assert Rapl(tmp_path / "none").read() == "no RAPL counters; common on VMs"
    assert Rapl(tree(tmp_path, {})).read() == "no RAPL counters; common on VMs"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Return a folder that every user can read."""
    with tempfile.TemporaryDirectory(prefix="mxscale-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Run as another user than root, who can read everything."""
    was = os.geteuid()
    if was == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(was)


def test_what_may_not_be_read_says_so(open_folder: Path) -> None:
    (tree(open_folder) / "intel-rapl:1" / "energy_uj").chmod(0)
    with as_nobody():
        told = Rapl(open_folder).read()
    assert told == "only root can read the RAPL counters (permission denied)"


def test_one_package_that_tells_nothing_leaves_no_sum_of_the_others(tmp_path: Path) -> None:
    rapl = Rapl(tree(tmp_path))
    rapl.read()
    count(tmp_path, "intel-rapl:0", 5)
    (tmp_path / "intel-rapl:1" / "energy_uj").write_text("\n")
    assert str(rapl.read()).startswith("RAPL cannot be read: ")
    (tmp_path / "intel-rapl:1" / "energy_uj").unlink()
    assert "No such file" in str(rapl.read())
    count(tmp_path, "intel-rapl:1", 1_000_000)
    assert rapl.read() == pytest.approx(1.000005)


def test_a_counter_that_never_answers_holds_nobody_up(tmp_path: Path) -> None:
    (tree(tmp_path) / "intel-rapl:1" / "energy_uj").unlink()
    os.mkfifo(tmp_path / "intel-rapl:1" / "energy_uj")
    assert str(Rapl(tmp_path).read()).startswith("RAPL cannot be read: ")


def test_kills_for_lack_of_memory_are_counted_if_the_kernel_counts_them(tmp_path: Path) -> None:
    vmstat = tmp_path / "vmstat"
    assert oom_kills(vmstat, tmp_path) is None
    vmstat.write_text("nr_free_pages 12\noom_kill 3\n")
    assert oom_kills(vmstat, tmp_path) == 3
    (tmp_path / "memory.events").write_text("oom 5\noom_kill 2\noom_group_kill 9\n")
    assert oom_kills(vmstat, tmp_path) == 5


def test_watts_of_all_gpus_are_told_or_none() -> None:
    assert watts(["0, 97, 310.50", "1, [N/A], 40.25"]) == pytest.approx(350.75)
    assert watts(["0, 97, 310.50", "1, 0, [N/A]"]) is None
    assert watts(["0, 97, 310.50", "1, 0, [Not Supported]"]) is None
    assert watts(["0, 97"]) is None
    assert watts(["0, 97, nan"]) is None
    assert watts([]) is None


def test_watts_told_now_and_then_become_joules_by_trapezia() -> None:
    power = Power()
    power.add(10.0, 100.0)
    assert power.joules(10.0) == 0.0
    assert power.joules(12.0) == pytest.approx(200.0)
    power.add(15.0, 300.0)
    power.add(15.0, 300.0)
    assert power.joules(15.0) == pytest.approx(1000.0)
    power.add(20.0, 300.0)
    assert power.joules(21.0) == pytest.approx(1000.0 + 1500.0 + 300.0)


LINE = {
    "index": 0,
    "utilization.gpu": 97,
    "power.draw": 310.5,
    "temperature.gpu": 61,
    "clocks.sm": 1485,
    "clocks.max.sm": 1980,
}
BEAT = {"gpu": {"0": 0.97}, "gpu_temperature": {"0": 61.0}, "gpu_clock": {"0": 0.75}}


def beat_of(gpus: Gpus, now: float = 0.0) -> dict[str, Any]:
    """Return the heartbeat's fields after nvidia-smi has answered."""
    gpus.beat(now)
    assert gpus.use.query is not None
    gpus.use.query.wait(5)
    return gpus.beat(now + 1.0)


@pytest.mark.program
@pytest.mark.parametrize("none", ["[N/A]", "[Not Supported]", "", "nan", "inf", "-1", "1e999"])
@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("utilization.gpu", {"gpu"}),
        ("power.draw", set()),
        ("temperature.gpu", {"gpu_temperature"}),
        ("clocks.sm", {"gpu_clock"}),
        ("clocks.max.sm", {"gpu_clock"}),
    ],
)
def test_a_figure_that_a_gpu_lacks_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, lost: set[str], none: str
) -> None:
    line = ", ".join(map(str, (LINE | {name: none}).values()))
    smi(tmp_path, monkeypatch, f"echo '{line}'")
    found = beat_of(Gpus())
    assert found.pop("gpu_at") == 0.0
    assert found == {key: {} if key in lost else value for key, value in BEAT.items()}


@pytest.mark.program
@pytest.mark.parametrize(
    ("figures", "beat"),
    [
        ({}, BEAT),
        ({"clocks.sm": 2010}, BEAT | {"gpu_clock": {"0": 1.0}}),
        ({"clocks.max.sm": 0}, BEAT | {"gpu_clock": {}}),
        ({"utilization.gpu": 101}, BEAT | {"gpu": {}}),
        ({"temperature.gpu": 255}, BEAT | {"gpu_temperature": {}}),
    ],
)
def test_figures_out_of_range_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, figures: dict[str, Any], beat: dict[str, Any]
) -> None:
    line = ", ".join(map(str, (LINE | figures).values()))
    smi(tmp_path, monkeypatch, f"echo '{line}'")
    assert beat_of(Gpus()) == beat | {"gpu_at": 0.0}


@pytest.mark.program
def test_gpus_are_queried_every_two_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smi(tmp_path, monkeypatch, "echo '0, 97, 310.5, 61, 1485, 1980'")
    gpus = Gpus()
    assert [beat_of(gpus, now)["gpu_at"] for now in (0.0, 2.0, 4.0)] == [0.0, 2.0, 4.0]
    assert gpus.beat(5.9)["gpu_at"] == 4.0
    assert gpus.use.query is None


@pytest.mark.program
def test_a_slow_answer_is_awaited_for_five_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smi(tmp_path, monkeypatch, f"read line <{tmp_path}/go; echo '0, 97, 310.5, 61, 1485, 1980'")
    os.mkfifo(tmp_path / "go")
    gpus = Gpus()
    for now in (0.0, 2.0, 4.9):
        assert "gpu_at" not in gpus.beat(now)
    assert gpus.use.query is not None
    (tmp_path / "go").write_text("\n")
    gpus.use.query.wait(5)
    assert gpus.beat(4.95)["gpu_at"] == 0.0


def asked(gpus: Gpus, until: float) -> float | str:
    """Return the GPUs' energy after one beat per second."""
    told: float | str = ""
    for now in range(int(until) + 1):
        gpus.beat(float(now))
        deadline = time.monotonic() + 5
        while gpus.use.query and gpus.use.query.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        told = gpus.energy(float(now))
    return told


@pytest.mark.program
def test_gpus_use_what_their_power_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi(tmp_path, monkeypatch, "echo '0, 97, 310.00'; echo '1, 3, 90.00'")
    assert asked(Gpus(), 13.0) == pytest.approx(400.0 * 13)


@pytest.mark.program
def test_gpus_that_tell_no_power_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi(tmp_path, monkeypatch, "echo '0, 97, 310.00'; echo '1, 3, [N/A]'")
    assert asked(Gpus(), 3.0) == "nvidia-smi reports no power for a GPU"
    smi(tmp_path, monkeypatch, "exit 9")
    assert asked(Gpus(), 3.0) == "no answer from nvidia-smi"
    monkeypatch.setenv("PATH", "/nowhere")
    assert Gpus().energy(0.0) == "no nvidia-smi"


@pytest.mark.program
def test_an_old_answer_of_gpus_tells_nothing_of_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smi(tmp_path, monkeypatch, "echo '0, 97, 310.00'")
    gpus = Gpus()
    assert isinstance(asked(gpus, 3.0), float)
    assert gpus.energy(60.0) == "no answer from nvidia-smi"


@pytest.mark.program
def test_a_record_keeps_what_its_machine_told_at_both_ends(tmp_path: Path) -> None:
    (record,) = measured(
        tmp_path, trial(windows=8, fake_seconds=[0.4], env=["MXSCALE_REAL_TIME=1"])
    )
    ((begin, end),) = record.machines.values()
    assert set(begin["energy"]) == set(end["energy"]) == {"rapl"}
    assert type(begin["energy"]["rapl"]) is type(end["energy"]["rapl"])
    assert end["energy"]["rapl"]
