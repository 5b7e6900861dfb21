"""Images per joule and per USD on the row of their point, or the reason for none."""

import csv
import dataclasses
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from invoke.context import Context

from plots.results_csv import COLUMNS, results_frame
from plots.tables.scaling import cost_columns, cost_remarks, header, markdown, show
from results.cost.cost import NO_COSTS, Costs, costs
from results.cost.prices import Prices
from results.record import Record, emit, parse
from results.run import Run
from results.scaling import scaling
from tasks.report import report_build, report_show
from tests.support.paths import ROOT
from tests.support.programs.commands import refusal
from tests.support.runs.records import PUBLISHED, points, record
from tests.support.runs.runs import priced
from tests.support.runs.stores import stored

EXAMPLE = ROOT / "docs" / "prices.example.toml"
VIRTUAL = "no RAPL counters; common on VMs"


def span(joules: Any, seconds: float = 10.0, machine: str = "m", gpu: Any = None) -> list[Any]:
    """Return a machine's counters: joules and seconds of a span, or a reason."""

    def count(at: float, part: float) -> dict[str, Any]:
        told = {"rapl": joules, "gpu": gpu}
        energy = {
            name: 7.0 + part * value if isinstance(value, float) else value
            for name, value in told.items()
            if value is not None
        }
        return {"at": at, "machine": machine, "energy": energy}

    return [count(5.0, 0.0), count(5.0 + seconds, 1.0)]


def point(
    joules: Any = VIRTUAL, hosts: Sequence[str] = ("h",), machines: Any = None, **fields: Any
) -> Record:
    """Return a record of 8 images/s (1 window of warm-up, 3 of 1 s each)."""
    one = record([[1.0] * 4], **fields)
    told = {host: span(joules, machine=host) for host in hosts} if machines is None else machines
    identity = dataclasses.replace(one.identity, hosts=tuple(hosts))
    return dataclasses.replace(one, identity=identity, machines=told)


def of(*records: Record, prices: Prices | None = None) -> tuple[Any, Costs]:
    rows = scaling(records)
    return rows, costs(rows, prices, {})


def test_a_joule_is_power_times_time() -> None:
    rows, found = of(point(400.0))
    cost = found.of(rows[0])
    assert cost.images["J"].value == pytest.approx(8 / 40)
    assert (cost.sources, cost.why) == (("rapl",), {})


def test_a_machine_counts_once_however_many_hosts_are_on_it() -> None:
    hosts = ("a", "b", "c")
    machines = {"a": span(400.0), "b": span(400.0), "c": span(200.0, machine="n")}
    rows, found = of(point(hosts=hosts, machines=machines))
    assert found.of(rows[0]).images["J"].value == pytest.approx(8 / 60)


def test_repeats_count_alike_and_give_the_interval() -> None:
    powers = (400.0, 500.0, 400.0)
    rows, found = of(*(point(one, repeat=n) for n, one in enumerate(powers)))
    per_joule = found.of(rows[0]).images["J"]
    assert per_joule.value == pytest.approx(8 / (130 / 3))
    assert per_joule.low < per_joule.value < per_joule.high


@pytest.mark.parametrize(
    ("machines", "why"),
    [
        ({"a": span(400.0), "b": span(VIRTUAL)}, f"{VIRTUAL} (b)"),
        ({"a": span(VIRTUAL), "b": span(VIRTUAL, machine="n")}, VIRTUAL),
        ({"a": span(400.0)}, "measured too briefly to read energy counters (b)"),
        ({}, "measured too briefly to read energy counters"),
        (
            {host: span(2.0, 1.0) for host in "ab"},
            "measured too briefly: energy readings are less than 1.5 s apart",
        ),
        ({host: span(0.0) for host in "ab"}, "the energy counter did not advance"),
        (
            {host: [{"at": at, "machine": host} for at in (1.0, 9.0)] for host in "ab"},
            "measured by a version that recorded no energy",
        ),
    ],
)
def test_each_way_not_to_know_joules_has_its_reason(machines: Any, why: str) -> None:
    for host, each in machines.items():
        for one in each:
            one["machine"] = host
    rows, found = of(point(hosts=("a", "b"), machines=machines))
    assert found.of(rows[0]).why == {"J": why}
    assert (found.units, cost_columns(found)) == ((), ())


def test_points_on_gpus_need_the_joules_of_gpus() -> None:
    on_gpus: dict[str, Any] = {"device": "gpu", "steps_per_window": 1}
    both = point(machines={"h": span(400.0, gpu=3600.0)}, **on_gpus)
    alone = point(machines={"h": span(VIRTUAL, gpu=3600.0)}, **on_gpus)
    neither = point(machines={"h": span(400.0, gpu="no nvidia-smi")}, **on_gpus)
    brief = point(machines={"h": span(400.0, 7.4, gpu=3600.0)}, **on_gpus)
    enough = point(machines={"h": span(400.0, 7.5, gpu=3600.0)}, **on_gpus)
    for one, sources, watts in ((both, ("gpu", "rapl"), 400.0), (alone, ("gpu",), 360.0)):
        rows, found = of(one)
        assert found.of(rows[0]).sources == sources
        assert found.of(rows[0]).images["J"].value == pytest.approx(8 / watts)
    rows, found = of(neither)
    assert found.of(rows[0]).why == {"J": "no nvidia-smi"}
    rows, found = of(brief)
    why = "measured too briefly: energy readings are less than 7.5 s apart"
    assert found.of(rows[0]).why == {"J": why}
    rows, found = of(enough)
    assert found.of(rows[0]).images["J"].value == pytest.approx(8 * 7.5 / (3600 + 400))


def test_a_rehearsal_has_no_joules_and_says_nothing_of_them() -> None:
    rows, found = of(point(400.0, engine="fake"))
    assert found.of(rows[0]).why == {"J": "a simulation does not train"}
    assert cost_remarks(rows, found) == []


def test_money_is_what_all_hosts_of_the_point_cost(tmp_path: Path) -> None:
    prices = priced(
        tmp_path,
        "[[price]]\nhost = 'p3-*'\nper_hour = 3\ncurrency = 'EUR'\n"
        "[[price]]\nper_hour = 1.5\ncurrency = 'EUR'\n",
    )
    rows, found = of(point(hosts=("p3-a", "p3-b", "server")), prices=prices)
    per_money = found.of(rows[0]).images["EUR"]
    assert per_money.value == pytest.approx(8 * 3600 / 7.5)
    rate = rows[0].rate
    assert per_money.low / per_money.value == pytest.approx(rate.low / rate.images_per_second)


def test_columns_stand_only_where_a_point_knows_a_value(tmp_path: Path) -> None:
    one = [point(), point(devices=2, status="failed")]
    rows, nothing = of(*one)
    assert tuple(results_frame(rows, nothing).columns) == COLUMNS
    assert header(nothing) == header(NO_COSTS)
    prices = priced(tmp_path, "[[price]]\nhost='h'\nper_hour=2\ncurrency='USD'")
    rows, found = of(point(400.0), point(kvstore="dist_sync", hosts=("x",)), one[1], prices=prices)
    table = list(csv.DictReader(io.StringIO(results_frame(rows, found).to_csv(index=False))))
    assert tuple(table[0])[-3:] == ("images_per_joule", "images_per_USD", "cost_reason")
    told = [tuple(line.values())[-3:] for line in table]
    assert float(told[0][0]) == pytest.approx(0.2)
    assert float(told[0][1]) == pytest.approx(14400)
    assert told[0][2] == ""
    assert told[1] == (
        "",
        "",
        f"images/J: {VIRTUAL}; images/USD: no price in prices.toml matches x",
    )
    assert told[2] == ("", "", "")


def test_the_table_names_its_sources_and_says_each_reason_once(tmp_path: Path) -> None:
    prices = priced(tmp_path, "[[price]]\nhost='h'\nper_hour=2\ncurrency='USD'")
    several = [point(devices=n, devices_per_worker=n, hosts=("x",)) for n in (2, 4, 8, 16)]
    rows, found = of(point(400.0), *several, prices=prices)
    text = markdown(rows, found)
    assert "|      0.200 |       14.4 k | indicative | ok " in text
    assert "images/J: per joule of the hosts' processors and memory (RAPL)" in text
    assert "images/USD: from the hourly price of the point's hosts in prices.toml." in text
    names = "alexnet local x2, alexnet local x4, alexnet local x8 and 1 more"
    assert text.count(f"images/J not available for {names}: {VIRTUAL}.") == 1
    assert (
        text.count(f"images/USD not available for {names}: no price in prices.toml matches x.") == 1
    )


def test_one_line_says_why_nothing_is_known() -> None:
    rows, found = of(point(), point(devices=2, devices_per_worker=2))
    assert cost_remarks(rows, found) == [
        f"Not available: images per joule ({VIRTUAL}) and images per unit of currency "
        "(no prices.toml). See docs/how-to/cost-and-energy.md."
    ]
    assert cost_remarks(rows, NO_COSTS) == []


@pytest.mark.parametrize(("width", "shown"), [(80, False), (120, True)])
def test_a_narrow_terminal_does_without_the_columns_and_cuts_no_word(
    width: int, shown: bool, capsys: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    prices = priced(tmp_path, "[[price]]\nper_hour=2\ncurrency='USD'")
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm"), ("COLUMNS", str(width))):
        monkeypatch.setenv(name, value)
    rows, found = of(*points(PUBLISHED), prices=prices)
    show(Run(folder=Path(), rows=rows, environment={}), found)
    table, _, below = capsys.readouterr().out.partition("batch: ")
    assert ("823 k" in table) == shown
    assert ("images/USD" in table.partition("Hidden on")[2]) == (not shown)
    assert len(re.findall("^alexnet  +dist_device_sync ", table, re.MULTILINE)) == 4
    assert "images/USD: from the hourly price" in below


def test_figures_of_others_have_no_joules_and_without_hosts_no_price(tmp_path: Path) -> None:
    prices = priced(tmp_path, "[[price]]\nper_hour=2\ncurrency='USD'")
    others = dataclasses.replace(point(400.0, hosts=()), source="a table")
    rows, found = of(others, prices=prices)
    assert found.of(rows[0]).why == {
        "J": "not measured by mxscale",
        "USD": "hosts unknown",
    }


def test_what_moves_bytes_has_no_images_for_anything() -> None:
    rows, found = of(point(400.0, mode="bandwidth", kvstore="dist_sync"))
    assert found.of(rows[0]).why == {"J": "a bandwidth point trains no images"}


def test_an_old_record_is_read_and_has_its_reason() -> None:
    old = point(machines={"h": [{"at": at, "machine": "m"} for at in (1.0, 9.0)]})
    read = parse(emit(old))
    assert read == old
    rows, found = of(read)
    assert found.of(rows[0]).why == {"J": "measured by a version that recorded no energy"}


@pytest.mark.program
def test_a_report_with_prices_has_their_column_in_each_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(tmp_path / "run", point(400.0), point(devices=2, devices_per_worker=2))
    report_build.body(Context(), run=f"{tmp_path}/run", prices=str(EXAMPLE))
    assert "images/USD" in capsys.readouterr().out
    lines = (tmp_path / "run" / "report" / "results.csv").read_text().splitlines()
    assert lines[0].endswith(",share_unexplained,images_per_joule,images_per_USD,cost_reason")
    assert "prices.example.toml" in (tmp_path / "run" / "report" / "report.md").read_text()
    code, line = refusal(report_show, run=f"{tmp_path}/run", prices="nowhere.toml")
    assert (code, line) == (2, "error: nowhere.toml: cannot be read (No such file or directory)")


def test_costs_are_the_last_columns_of_results_csv() -> None:
    rows, found = of(point(8.0, devices=1, lr=0.1), point(8.0, devices=1, lr=0.2))
    names = list(results_frame(rows, found).columns)
    assert names[-3:] == ["lr", "images_per_joule", "cost_reason"]
