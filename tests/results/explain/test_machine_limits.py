"""Limits of a machine: layouts of a sweep, figures of its parts, findings."""

from dataclasses import replace
from typing import Any

import pytest

from bench.trial import make
from plots.tables.doctor import finding_lines, part_lines
from results.explain.machine_limits import (
    Layouts,
    Limit,
    MachineFigures,
    MachineLimit,
    NetworkFigures,
    expected_half_width,
    findings,
    largest_batch,
    layouts,
    machine_figures,
    network_figures,
)
from results.scaling import scaling
from tests.support.runs.records import record

MIB = 1 << 20
MACHINE = MachineFigures(cores=8, free_memory=1000 * MIB, raw_mb_per_second=1000.0)


def use(**fields: Any) -> Layouts:
    """Return the use of a host by one worker of `tiny` with batch 10."""
    trial = make({"network": "tiny", "batch_per_device": 10})
    base = Layouts(
        trial=trial,
        name="tiny",
        batch=10,
        devices=1,
        workers=1,
        servers=0,
        distributed=False,
    )
    return replace(base, **fields)


def figures(layout: Layouts | None = None, **values: Any) -> NetworkFigures:
    """Return figures of a network that computes a step of 10 images in 1 s."""
    base: dict[str, Any] = {"images_per_second": 10.0, "memory": 110 * MIB, "idle_memory": 10 * MIB}
    return NetworkFigures(use=layout or use(), **base | values)


def limits(one: NetworkFigures, machine: MachineFigures = MACHINE) -> list[Limit]:
    return [found.limit for found in findings([one], machine, 0.02)]


def test_a_machine_with_enough_of_all_limits_nothing() -> None:
    machine = replace(MACHINE, input_images_per_second=11.0, half_width=0.01)
    assert findings([figures(exchange_seconds=0.01, mb_per_second=900.0)], machine, 0.02) == []
    (line,) = finding_lines([])
    assert line.startswith("limits: none found")


def test_workers_and_servers_need_a_core_each() -> None:
    assert limits(figures(use(workers=4, servers=4, devices=4))) == []
    assert limits(figures(use(workers=4, servers=5, devices=4))) == [Limit.CORES]
    assert limits(figures(use(devices=9))) == [Limit.CORES]


def test_an_input_pipeline_limits_if_all_devices_need_more() -> None:
    machine = replace(MACHINE, input_images_per_second=35.0)
    assert limits(figures(use(devices=3)), machine) == []
    (found,) = findings([figures(use(devices=4))], machine, 0.0)
    assert found.limit == Limit.INPUT
    assert found.figures == {"wanted": 40.0, "available": 35.0, "devices": 3}


@pytest.mark.parametrize(
    ("seconds", "moved", "expected"),
    [
        (0.08, 100.0, []),  # 0.08 / 1.08 is less than 8 %
        (0.09, 100.0, [Limit.SERVER]),
        (0.09, 740.0, [Limit.SERVER]),
        (0.09, 760.0, [Limit.LINK]),
    ],
)
def test_an_exchange_limits_from_8_percent_of_a_step(
    seconds: float, moved: float, expected: list[Limit]
) -> None:
    distributed = use(distributed=True, workers=2, servers=2, devices=2)
    one = figures(distributed, exchange_seconds=seconds, mb_per_second=moved)
    assert limits(one) == expected
    alone = figures(exchange_seconds=seconds, mb_per_second=moved)
    assert limits(alone) == []  # the sweep has no servers


def test_memory_limits_before_all_of_it_is_used() -> None:
    fits = figures(use(workers=7, servers=7, devices=7), exchange_seconds=0.0)
    assert limits(fits, replace(MACHINE, cores=14)) == []  # 840 of 850 MiB
    more = figures(use(workers=8, servers=8, devices=8), exchange_seconds=0.0)
    assert limits(more, replace(MACHINE, cores=16)) == [Limit.MEMORY]


def test_the_largest_batch_is_extrapolated_from_two_measurements() -> None:
    # 850 MiB less 10 of the idle worker, at 10 MiB per image
    assert largest_batch(figures(), MACHINE) == 84
    with_server = figures(use(workers=1, servers=1))
    assert largest_batch(with_server, MACHINE) == 83
    assert largest_batch(figures(idle_memory=None), MACHINE) is None
    assert largest_batch(figures(memory=10 * MIB), MACHINE) is None


def test_noise_limits_if_it_is_wider_than_the_wanted_precision() -> None:
    (found,) = findings([], replace(MACHINE, half_width=0.04), 0.02)
    assert (found.limit, found.figures["windows"]) == (Limit.NOISE, 40)
    assert "about 40 windows" in finding_lines([found])[1]
    assert findings([], replace(MACHINE, half_width=0.04), 0.0) == []
    (hopeless,) = findings([], replace(MACHINE, half_width=0.5), 0.02)
    assert finding_lines([hopeless])[1].endswith("Stop other programs")


def test_the_expected_half_width_is_that_of_ten_windows() -> None:
    block = [1.0, 1.02, 0.98, 1.01, 0.99, 1.0, 1.02, 0.98, 1.01, 0.99]
    found = expected_half_width(block * 10)
    assert found is not None
    assert 0.005 < found < 0.03
    assert expected_half_width(block[:9]) is None


def test_a_network_has_its_largest_use_of_a_host() -> None:
    base = {"network": "tiny", "batch_per_device": 4}
    job = {"kvstore": "dist_sync", "devices_per_host": 2}
    trials = [
        make(base | {"devices": 1}),
        make(base | job | {"devices": 4}),
        make({"mode": "test-io", "data_train": "x.rec", "batch_per_device": 4}),
    ]
    (one,) = layouts(trials)
    assert (one.name, one.batch, one.devices) == ("tiny", 4, 2)
    assert (one.workers, one.servers, one.distributed) == (2, 2, True)


def test_figures_come_from_the_points_of_a_network() -> None:
    alone = record([[2.0] * 6], network="tiny", batch_per_device=10)
    exchange = record(
        [[0.5] * 6] * 2,
        network="tiny",
        batch_per_device=1,
        mode="bandwidth",
        kvstore="dist_sync",
        devices=2,
        steps_per_window=5,
    )
    rows = scaling([alone, exchange])
    found = network_figures(use(), rows[0], rows[1])
    assert found.images_per_second == pytest.approx(5.0)
    assert found.step_seconds == pytest.approx(2.0)
    assert found.exchange_seconds == pytest.approx(0.1)  # a window of 0.5 s has 5 exchanges
    assert found.exchange_share == pytest.approx(0.1 / 2.1)
    missing = network_figures(use(), None, None)
    assert missing.step_seconds is None
    assert findings([missing], MACHINE, 0.02) == []


def test_the_fastest_reading_and_the_clock_come_from_the_parts() -> None:
    reading = record(
        [[1.0] * 6], mode="test-io", data_train="x.rec", batch_per_device=32, data_nthreads=2
    )
    machines = {"h": [{"clock": 2.5}, {"clock": 3.25}]}
    rows = scaling([replace(reading, machines=machines)])
    found = machine_figures(rows, {"cores": [0, 1], "available_mib": 5}, [1.0] * 100, 700.0)
    assert (found.cores, found.free_memory, found.clock) == (2, 5 * MIB, 3.25)
    assert found.input_threads == 2
    assert found.input_images_per_second == pytest.approx(32.0)
    empty = machine_figures([], {}, [], 700.0)
    assert (empty.clock, empty.half_width, empty.input_images_per_second) == (None, None, None)
    lines = part_lines(empty)
    assert [line for line in lines if "not measured" in line or "not available" in line] == lines[
        :3
    ]


@pytest.mark.parametrize("limit", list(Limit))
def test_each_limit_names_a_setting_to_change(limit: Limit) -> None:
    names = (
        *("workers", "servers", "cores", "wanted", "available", "devices", "half_width"),
        *("precision", "windows", "share", "exchange_seconds", "step_seconds"),
    )
    found = MachineLimit(limit=limit, network="tiny", figures=dict.fromkeys(names, 1.0))
    line = finding_lines([found])[1]
    assert line.startswith(f"  {limit}: ")
    assert any(word in line for word in ("Use ", "Pack ", "Stop "))
