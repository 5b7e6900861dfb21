from collections.abc import Iterable

import pytest

from results.host_facts import CONTROLLER_FACTS, HOST_FACTS, Fact, Place, omitted


@pytest.mark.parametrize("table", [HOST_FACTS, CONTROLLER_FACTS], ids=["hosts", "controller"])
def test_a_fact_stands_once_and_has_a_label_if_it_is_compared(table: Iterable[Fact]) -> None:
    names = [fact.name for fact in table]
    assert len(set(names)) == len(names)
    assert all(fact.label for fact in table if fact.text or fact.order)


def test_what_is_of_the_moment_is_not_compared() -> None:
    moment = omitted(HOST_FACTS, Place.STORE) | omitted(HOST_FACTS, Place.HOSTS)
    assert {"load", "free_bytes", "clock_skew"} <= moment
    assert not moment & {fact.name for fact in HOST_FACTS if fact.text or fact.order}


def test_stored_values_are_checked_by_kind() -> None:
    checks = {fact.name: fact.check for fact in HOST_FACTS if fact.check}
    found = {"cores": [0, 1], "gpus": [{"name": "K80"}], "memory_mib": 1024}
    assert all(checks[name](value) for name, value in found.items())
    wrong = {"cores": 2, "gpus": ["K80"], "memory_mib": float("inf")}
    assert not any(checks[name](value) for name, value in wrong.items())
