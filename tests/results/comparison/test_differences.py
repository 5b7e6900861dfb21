"""Differences between runs; those that affect throughput prevent a comparison."""

import dataclasses
from typing import Any

from results.comparison.differences import Difference, host_facts, run_differences
from results.record import Record
from tests.support.runs.comparisons import quiet, run

MACHINE = {"processor": "P1", "cores": 4, "memory_gib": 8, "mxnet": "1.9.1", "python": "3.11.7"}


def between(
    one: list[Record], other: list[Record], **environments: dict[str, Any]
) -> dict[str, Difference]:
    a, b = (
        run(name, *records, **environments.get(name, {}))
        for name, records in (("a", one), ("b", other))
    )
    return {
        found.name: found for found in run_differences(a, b, list(zip(a.rows, b.rows, strict=True)))
    }


def told(**facts: Any) -> list[Record]:
    """Return repeats whose first ranks have these facts."""
    return [
        dataclasses.replace(one, ranks=(dataclasses.replace(one.ranks[0], facts=facts),))
        for one in quiet()
    ]


def changed(**fields: Any) -> list[Record]:
    return [
        dataclasses.replace(
            one,
            **{k: v for k, v in fields.items() if k not in {"code_hash", "data_manifest"}},
            identity=dataclasses.replace(
                one.identity,
                **{k: v for k, v in fields.items() if k in {"code_hash", "data_manifest"}},
            ),
        )
        for one in quiet()
    ]


def test_machines_and_libraries_matter() -> None:
    other = MACHINE | {"processor": "P2", "cores": 8, "mxnet": "2.0", "python": "3.12.1"}
    found = between(quiet(), quiet(), a=MACHINE, b=other)
    assert set(found) == {"processor", "cores", "MXNet", "Python"}
    assert all(one.matters for one in found.values())
    assert str(found["processor"]) == "processor (P1 / P2)"


def test_a_patch_of_python_another_commit_and_kernel_do_not() -> None:
    a = MACHINE | {"commit": "a", "system": "Linux 6.1"}
    b = MACHINE | {"commit": "b", "system": "Linux 6.2", "python": "3.11.9"}
    found = between(quiet(), changed(code_hash="2"), a=a, b=b)
    assert set(found) == {"commit", "system", "code"}
    assert not any(one.matters for one in found.values())


def test_what_one_run_does_not_tell_is_listed_and_forbids_nothing() -> None:
    found = between(quiet(), quiet(), a=MACHINE)
    assert set(found) == {"processor", "cores", "memory (GiB)", "MXNet", "Python"}
    assert not any(one.matters for one in found.values())
    assert str(found["cores"]) == "cores (4 / not recorded)"


def test_data_emulation_and_who_measured_matter() -> None:
    assert between(changed(data_manifest="1"), changed(data_manifest="2"))["data"].matters
    found = between(quiet(), changed(emulated=True))["devices"]
    assert str(found) == "devices (real / oversubscribed)"
    found = between(quiet(), changed(source="published: a paper"))["measured by"]
    assert (found.a, found.b, found.matters) == ("mxscale", "published: a paper", True)
    scripted = between(quiet(), quiet(engine="fake"))["measured by"]
    assert (scripted.b, scripted.matters) == ("the simulated engine", True)


def test_variables_instructions_and_the_build_matter() -> None:
    one = told(variables={"OMP_NUM_THREADS": "1"}, instructions="avx2", mxnet_digest="1")
    other = told(variables={}, instructions="avx512", mxnet_digest="2")
    found = between(one, other)
    assert {name: (each.a, each.b) for name, each in found.items()} == {
        "OMP_NUM_THREADS": ("1", "unset"),
        "instructions": ("avx2", "avx512"),
        "MXNet build": ("1", "2"),
    }
    assert all(each.matters for each in found.values())
    assert between(one, quiet()).keys() == {"MXNet build"}


def test_hosts_are_compared_by_what_they_are_not_by_their_names() -> None:
    gpu = {"name": "H200", "driver": "570.1", "index": "0"}
    host = {"cores": [0, 1], "memory_mib": 8192, "gpus": [gpu, gpu], "load": 0.1}
    same = {"hosts": {name: host | {"load": 3.0} for name in "xyz"}}
    assert between(quiet(), quiet(), a={"hosts": {"a": host, "b": host}}, b=same) == {}
    newer = host | {"gpus": [gpu | {"driver": "580.2"}] * 2}
    found = between(quiet(), quiet(), a={"hosts": {"a": host}}, b={"hosts": {"a": newer}})
    assert {name: (one.a, one.b, one.matters) for name, one in found.items()} == {
        "hosts' GPUs": ("2 H200 (driver 570.1)", "2 H200 (driver 580.2)", True)
    }


def test_what_hosts_of_an_older_run_did_not_tell_forbids_nothing() -> None:
    host = {"cores": [0, 1], "memory_mib": 8192}
    more = host | {"processor": "P1", "opencv": {"version": "5.0", "digest": "abc", "JPEG": "x"}}
    found = between(quiet(), quiet(), a={"hosts": {"a": host}}, b={"hosts": {"a": more}})
    assert {name: one.b for name, one in found.items()} == {
        "hosts' processor": "P1",
        "hosts' OpenCV": "5.0 abc",
    }
    assert not any(one.matters for one in found.values())


def test_an_environment_of_any_shape_is_taken() -> None:
    odd = {"hosts": {"a": {"cores": None, "gpus": ["x", 3], "memory_mib": "?", "python": 3}}}
    assert "hosts' Python" in between(quiet(), quiet(), a={"hosts": [1]}, b=odd)


def test_facts_of_hosts_are_words() -> None:
    facts = host_facts({"a": {"cuda": True, "disk_problem": None, "opencv": {"ipp": False}}})
    assert [(one.name, one.most) for one in facts] == [
        ("cuda", "yes"),
        ("disk_problem", ""),
        ("opencv ipp", "no"),
    ]
