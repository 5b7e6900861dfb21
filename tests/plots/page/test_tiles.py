"""Tiles of the page: one per network, with its result or the cause of its absence."""

import dataclasses

from plots.page.page import page
from plots.page.tiles import tiles
from results.scaling import scaling
from tests.support.pages.pages import HOSTILE, run_of
from tests.support.runs.records import points, record
from tests.support.runs.steps import rows


def test_a_tile_has_the_result_on_the_most_devices_with_quality_and_verdict() -> None:
    (tile,) = tiles(rows())
    assert (tile.network, tile.devices, tile.kvstore) == ("alexnet", "2 CPU cores", "dist_sync")
    assert (tile.throughput, tile.efficiency) == ("8.00 [7.66, 8.24]", "50 ± 2 %")
    assert (tile.verdict, tile.quality, tile.problem) == ("server bound", "indicative", "")


def test_a_network_without_a_usable_result_has_the_reason() -> None:
    emulated = dataclasses.replace(record([[1, 2.0, 2.1]], network="vgg"), emulated=True)
    unsure = [
        record([[1, one, one]], repeat=n, network="mobilenet") for n, one in enumerate((0.1, 9.0))
    ]
    failed = record([[1, 2.0]], network="tiny", status="hung")
    found = tiles(scaling([*points({1: 10.0}), emulated, *unsure, failed]))
    assert [(one.throughput != "", one.problem) for one in found] == [
        (True, ""),
        (False, "oversubscribed only"),
        (False, "too uncertain to use"),
        (False, "no result: hung (stalled)"),
    ]


def test_a_network_that_no_figure_has_shows_its_throughput_without_an_efficiency() -> None:
    real = record([[1, 2.0, 2.1, 1.9]], network="tiny", mode="real", data_train="d", devices=2)
    (_, tile) = tiles(scaling([*points({1: 10.0, 2: 19.0}), real]))
    assert (tile.network, tile.devices) == ("tiny (real data)", "2 CPU cores")
    assert tile.throughput.startswith("8.")
    assert tile.efficiency == ""


def test_tiles_of_a_simulation_are_marked_and_names_are_escaped() -> None:
    played = [record([[1, 2.0, 2.0]], engine="fake", devices=devices) for devices in (1, 2)]
    text = page(run_of(*played))
    tiles_of_page = text[text.index('id="tiles"') : text.index("</header>")]
    assert tiles_of_page.count("<span>SIMULATED</span>") == 1
    row = dataclasses.replace(scaling(points({1: 10.0}))[0], quality=None)
    trial = row.trial.replace(kvstore=HOSTILE)
    run = dataclasses.replace(run_of(), rows=[dataclasses.replace(row, trial=trial)])
    assert "<script>alert" not in page(run)
