"""The constants predict published tables whose source they do not know."""

from collections.abc import Mapping
from functools import cache

import pytest

from benchmarks.statistics.prediction import Cell, Fits, Score, Summary, read_cells, summaries
from results.prediction.population import Constants, Kind, load_of, population


@cache
def cells() -> list[Cell]:
    return read_cells()


@cache
def fits() -> Fits:
    return Fits(cells())


@cache
def scores() -> list[Score]:
    return [fits().score(cell) for cell in cells() if not cell.is_saturated]


@cache
def found() -> Mapping[str, Summary]:
    return summaries(scores())


def test_the_cells_are_those_of_the_tables() -> None:
    """153 from one host in 72 tables, 89 from two hosts, 59 from more."""
    one = [cell for cell in cells() if cell.hosts == 1]
    assert len(one) == 153
    assert len({cell.table for cell in one}) == 72
    assert sum(cell.hosts == 2 for cell in cells()) == 89
    assert sum(cell.hosts > 2 for cell in cells()) == 59
    assert sum(cell.is_saturated for cell in cells()) == 12
    assert len({cell.source for cell in cells()}) == 7


def test_no_constant_knows_the_source_that_it_predicts() -> None:
    """Other figures of a source change no prediction of its cells."""
    whole = [cell for cell in cells() if cell.kind is Kind.LIGHT]
    (cell,) = (one for one in whole if one.table == "mxnet_p2_alexnet" and one.devices == 256)
    others = [one for one in whole if one.source != cell.source]
    assert Fits(whole).score(cell) == Fits([*others, cell]).score(cell)
    assert Fits(whole).constants(cell.source, Kind.LIGHT) != Fits(whole).constants("", Kind.LIGHT)


@pytest.mark.parametrize(("known", "count", "most"), [(16, 12, 0.05), (32, 9, 0.04)])
def test_the_tutorials_table_is_predicted(known: int, count: int, most: float) -> None:
    one = found()[f"tutorial, up to {known} GPUs known"]
    assert len(one.scores) == count
    assert one.largest <= most


def test_light_jobs_are_predicted() -> None:
    one = found()["light"]
    assert (len(one.scores), one.tables) == (51, 19)
    assert one.close >= 0.85
    assert one.close >= one.constant_close + 0.15
    assert [one.width(n) <= most for n, most in ((1, 0.16), (2, 0.24), (4, 0.32))] == [True] * 3


def test_one_doubling_from_several_hosts_is_predicted() -> None:
    one = found()["two hosts or more, one doubling"]
    assert len(one.scores) == 90
    assert one.median <= 0.02
    assert one.close >= 0.80


@pytest.mark.parametrize("name", ["light", "heavy", "two hosts or more", "all"])
def test_intervals_hold_as_often_as_they_state(name: str) -> None:
    one = found()[name]
    assert 0.92 <= one.held(0.95) <= 0.99
    assert 0.74 <= one.held(0.80) <= 0.90
    assert one.close >= one.constant_close


def test_a_heavy_job_on_one_host_has_no_narrow_interval() -> None:
    assert found()["heavy"].width() > 0.5
    assert population().kinds[Kind.HEAVY].width(8, 16) > 0.5


@pytest.mark.parametrize("kind", list(Kind))
def test_the_stored_constants_are_those_of_the_tables(kind: Kind) -> None:
    """`python -m benchmarks.statistics.prediction --write` renews them."""
    known, fitted = population().kinds[kind], fits().constants("", kind)
    figures = [fitted.loss, fitted.down, fitted.up, fitted.power]
    assert [known.loss, known.down, known.up, known.power] == pytest.approx(figures, rel=1e-3)
    names = {Kind.LIGHT: "light", Kind.HEAVY: "heavy", Kind.MULTI: "two hosts or more"}
    one = found()[names[kind]]
    assert (known.cells, known.tables) == (len(one.scores), one.tables)
    assert known.close == pytest.approx(one.close, abs=0.005)


def test_an_interval_grows_with_the_distance_and_the_level() -> None:
    one = Constants(loss=0.09, down=0.01, up=0.02, power=0.5)
    assert one.reach(16, 64, 0.95) == pytest.approx((0.045, 0.09), rel=1e-3)
    assert one.reach(16, 32, 0.80) == pytest.approx((0.01638, 0.03275), rel=1e-3)
    assert one.growth(16, 16) == 0


def test_a_load_takes_the_slower_of_link_and_limit() -> None:
    assert load_of(100e6, 1.0, 1e9, 2e9) == pytest.approx(0.2)
    assert load_of(100e6, 1.0, 1e12, 2e9) == pytest.approx(0.1)
