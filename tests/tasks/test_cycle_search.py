"""Reports are built and printed without the search for unreachable cycles."""

import gc

import pytest

from tasks.cli import no_cycle_search


def test_the_search_goes_on_after_a_report_also_after_a_failed_one() -> None:
    @no_cycle_search()
    def searching() -> bool:
        return gc.isenabled()

    @no_cycle_search()
    def fail() -> None:
        raise ValueError("no report")

    assert not searching()
    assert gc.isenabled()
    with pytest.raises(ValueError, match="no report"):
        fail()
    assert gc.isenabled()
