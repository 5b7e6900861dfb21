"""The store only grows, survives damage of a file, and lists finished points."""

import dataclasses
import json
import math
import os
import re
import signal
import subprocess
import sys
from contextlib import closing, suppress
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results import record as record_module
from results import store as store_module
from results.errors import StoreError
from results.record import Identity, Rank, emit, parse
from results.run import load
from results.store import Store, log_lines, on_all_cores, read_records
from tests.support.paths import ROOT
from tests.support.runs.stores import RANK, record, stored

pytestmark = pytest.mark.pythons

ranks = st.builds(
    Rank,
    rank=st.integers(0, 99),
    host=st.text(),
    process=st.text(),
    seconds=st.lists(st.floats(0.001, 1e6)).map(tuple),
    facts=st.dictionaries(st.text(), st.one_of(st.integers(), st.text())),
)


def with_waits(name: str, waits: tuple[float, ...]) -> Rank:
    fields: dict[str, Any] = {name: waits}
    return dataclasses.replace(RANK, **fields)


def test_waits_are_stored_only_if_they_were_measured() -> None:
    old = record(ranks=(RANK,))
    assert not {"input_wait", "run_delay"} & json.loads(emit(old))["ranks"][0].keys()
    waits = (0.25,) * len(RANK.seconds)
    new = record(ranks=(dataclasses.replace(RANK, input_wait=waits, run_delay=waits),))
    assert parse(emit(new)) == new


@given(st.lists(ranks, max_size=3).map(tuple), st.text(), st.sampled_from(["hung", "failed"]))
def test_a_record_survives_its_line(found: tuple[Rank, ...], message: str, status: str) -> None:
    whole = record(ranks=found, message=message, status=status)
    assert "\n" not in emit(whole)
    assert parse(emit(whole)) == whole


def test_records_come_back_in_the_order_they_were_made(tmp_path: Path) -> None:
    three = [record(repeat=n) for n in range(3)]
    stored(tmp_path, *three)
    assert read_records(tmp_path) == three


@pytest.mark.parametrize("cut", [1, 20, 300])
def test_a_torn_last_line_loses_that_record_only(tmp_path: Path, cut: int) -> None:
    log = stored(tmp_path, record(repeat=0), record(repeat=1))
    log.write_bytes(log.read_bytes()[:-cut])
    assert [one.identity.repeat for one in read_records(tmp_path)] == [0] if cut > 1 else [0, 1]
    stored(tmp_path, record(repeat=2))
    assert [one.identity.repeat for one in read_records(tmp_path)][-1] == 2
    assert len(read_records(tmp_path)) == (2 if cut > 1 else 3)


def test_a_record_of_a_newer_schema_is_refused_and_kept(tmp_path: Path) -> None:
    log = stored(tmp_path, record())
    newer = json.loads(emit(record())) | {"schema": 99}
    log.write_text(json.dumps(newer) + "\n")
    with pytest.raises(StoreError, match=r"records\.jsonl:1: .*newer version"):
        read_records(tmp_path)
    assert json.loads(log.read_text()) == newer


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Identity)])
def test_done_means_the_same_in_every_respect(tmp_path: Path, field: str) -> None:
    stored(tmp_path, record())
    store = Store(tmp_path)
    done = store.done()
    store.close()
    identity = record().identity
    changed: dict[str, Any] = {"repeat": 1, "hosts": ("h", "i")}
    other = {field: changed.get(field, "other")}
    assert identity in done
    assert dataclasses.replace(identity, **other) not in done


def test_a_failed_point_is_not_done(tmp_path: Path) -> None:
    stored(tmp_path, record(status="failed"))
    store = Store(tmp_path)
    assert store.done() == set()
    store.close()


def test_the_newest_try_decides_whether_a_point_is_done(tmp_path: Path) -> None:
    stored(tmp_path, record(), record(status="failed"))
    store = Store(tmp_path)
    assert store.done() == set()
    store.append(record())
    assert store.done() == {record().identity}
    assert store.tries()[record().identity] == 3
    store.close()


def test_a_resumed_run_reads_its_records_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(tmp_path, record(), record(status="failed"), record(repeat=1))
    read = Mock(wraps=record_module.parse_outcome)
    monkeypatch.setattr(record_module, "parse_outcome", read)
    store = Store(tmp_path)
    assert store.done() == {record(repeat=1).identity}
    assert store.tries() == {record().identity: 2, record(repeat=1).identity: 1}
    store.append(record())
    assert store.tries()[record().identity] == 3
    assert read.call_count == 3
    store.close()


def test_a_repeat_that_is_measured_again_is_done_once_it_has_a_new_record(tmp_path: Path) -> None:
    stored(tmp_path, record(), record(repeat=1))
    store = Store(tmp_path)
    store.measure_again([record().identity])
    assert store.done() == {record(repeat=1).identity}
    store.append(record())
    assert store.done() == {record(repeat=n).identity for n in range(2)}
    store.close()


def test_a_record_without_a_cause_is_read(tmp_path: Path) -> None:
    data = json.loads(emit(record(status="failed")))
    assert "failure" not in data
    old = parse(json.dumps(data))
    assert old is not None
    assert old.failure is None


def test_two_sweeps_in_one_folder_are_kept_apart(tmp_path: Path) -> None:
    first = Store(tmp_path)
    ways = r"choose another --run NAME\. .*'kill -INT \1' ends it"
    with pytest.raises(StoreError, match=rf"another sweep \(process (\d+)\) is wr.* {ways}"):
        Store(tmp_path)
    first.close()
    Store(tmp_path).close()


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be created"):
        Store(tmp_path / "file" / "run")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"ranks": ()}, "no ranks"),
        ({"ranks": (dataclasses.replace(RANK, ends=()),)}, "differ in length"),
        *(
            ({"ranks": (with_waits(name, waits),)}, why)
            for name in ("input_wait", "run_delay")
            for waits, why in (
                ((0.0,) * (len(RANK.seconds) + 1), f"seconds and {name} differ in length"),
                *(
                    ((wait, *[0.0] * (len(RANK.seconds) - 1)), "expected 0 to 1e9 s each")
                    for wait in (-0.1, 2e9, math.nan, math.inf)
                ),
            )
        ),
        ({"ranks": (dataclasses.replace(RANK, seconds=(1.0, 0.0)),)}, "windows: expected 1e-9 to"),
        (
            {"ranks": (dataclasses.replace(RANK, seconds=(1.0, math.nan)),)},
            "windows: expected 1e-9 to",
        ),
        ({"ranks": (dataclasses.replace(RANK, seconds=(1,), ends=(1,), images=(1,)),)}, "none"),
    ],
)
def test_a_good_record_without_good_windows_is_refused(
    tmp_path: Path, fields: dict[str, Any], said: str
) -> None:
    stored(tmp_path, record(**fields))
    with pytest.raises(StoreError, match=rf"records\.jsonl:1: .*{said}"):
        read_records(tmp_path)


def test_records_of_other_code_do_not_count(tmp_path: Path) -> None:
    now, before = record(), record(code_hash="older")
    stored(tmp_path, now, before, record(repeat=1, code_hash="older"))
    asked = [dataclasses.asdict(one.identity) for one in (now, record(repeat=1))]
    (tmp_path / "asked.json").write_text(json.dumps(asked))
    run = load(tmp_path)
    assert [row.rate.repeats for row in run.rows if row.rate] == [1]
    assert run.missing == ("tiny (repeat 2 of 2)",)
    assert not run.complete


@pytest.mark.parametrize("text", ["3", "null", "[", '{"a": 1}', "[[1]]", '[{"key": "x"}]'])
def test_a_damaged_list_of_what_was_asked_is_told_and_every_record_counts(
    tmp_path: Path, text: str
) -> None:
    stored(tmp_path, record())
    (tmp_path / "asked.json").write_text(text)
    run = load(tmp_path)
    assert [row.status for row in run.rows] == ["ok"]
    assert "asked.json" in run.troubles[0]
    assert not run.complete


def test_a_run_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no such run folder\. List the runs"):
        read_records(tmp_path / "none")
    (tmp_path / "mine").mkdir()
    with pytest.raises(StoreError, match=r"no such run folder\. Did you mean 'mine'"):
        read_records(tmp_path / "mien")


def test_a_sweep_goes_on_without_reading_windows(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    good, bad = record(), dataclasses.replace(record(repeat=1), status="failed")
    (log := stored(folder, good, bad)).write_text(
        log.read_text().replace('"ranks": [', '"ranks": ["not a rank", ')
    )
    with pytest.raises(StoreError, match="unreadable record"):
        read_records(folder)
    store = Store(folder)
    assert store.elapsed_seconds() == {good.identity: good.elapsed_seconds}
    assert store.tries() == {good.identity: 1, bad.identity: 1}
    store.close()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"status": "ok"', '"status": "fine"'),
        ('"schema": 3', '"schema": 99'),
        ('"repeat": 0', '"repeat": "0"'),
        ('"elapsed_seconds"', '"elapsed"'),
    ],
)
def test_an_outcome_that_cannot_be_read_ends_the_sweep(tmp_path: Path, old: str, new: str) -> None:
    log = stored(tmp_path, record())
    log.write_text(log.read_text().replace(old, new))
    store = Store(tmp_path)
    with pytest.raises(StoreError, match="unreadable record"):
        store.done()
    store.close()


def test_a_record_with_nan_is_done(tmp_path: Path) -> None:
    log = stored(tmp_path, record())
    text = log.read_text()
    assert '"losses": [' in text
    log.write_text(re.sub(r'"losses": \[[^\]]*\]', '"losses": [NaN, NaN, NaN]', text))
    store = Store(tmp_path)
    assert store.done() == {record().identity}
    store.close()


@pytest.mark.parametrize("cores", [1, 2])
def test_a_large_log_has_the_outcomes_of_a_small_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int
) -> None:
    made = [record(repeat=n, status="ok" if n % 3 else "failed") for n in range(6)]
    log = stored(tmp_path, *made, record(), *made[3:])
    lines = log.read_text().splitlines()
    lines[2:2] = ["", lines[5][:-9]]  # a torn line among others
    log.write_text("\n".join(lines) + "\n")

    def outcomes() -> tuple[Any, ...]:
        with closing(Store(tmp_path)) as store:
            return store.elapsed_seconds(), store.tries()

    small = outcomes()
    assert [sorted(name.repeat for name in one) for one in small] == [[0, 1, 2, 4, 5], [*range(6)]]
    assert small[1][record(repeat=4).identity] == 2
    monkeypatch.setattr(store_module, "LARGE_BYTES", 1)
    monkeypatch.setattr(store_module, "PART_BYTES", 2500)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(cores)))
    assert outcomes() == small
    lines[7] = lines[7].replace('"status": "ok"', '"status": "fine"')
    log.write_text("\n".join(lines) + "\n")
    with pytest.raises(StoreError, match=r"records\.jsonl:8: unreadable record: status"):
        outcomes()


@given(
    texts=st.lists(st.binary(max_size=9).map(lambda one: one.replace(b"\n", b"")), max_size=9),
    ended=st.booleans(),
    length=st.integers(1, 12),
)
def test_a_log_is_cut_at_its_line_ends_only(
    tmp_path_factory: pytest.TempPathFactory, texts: list[bytes], ended: bool, length: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "cut.jsonl"
    data = b"\n".join(texts) + b"\n" * ended
    path.write_bytes(data)
    with path.open("rb") as file, pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_module, "PART_BYTES", length)
        assert [bytes(one) for one in log_lines(file)] == list(BytesIO(data))


# Each of two processes writes 7 bytes at once, then works for much longer than the test waits.
_PROGRAM = """
from pathlib import Path
from results.store import on_all_cores
work = "import os, time; os.write(1, b'at work'); time.sleep(600)"
list(on_all_cores(Path("log"), exec, [work] * 2))
"""


def test_processes_that_read_end_with_a_killed_program() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM], cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True
    ) as program:
        try:
            assert program.stdout.read(7) == b"at work"
            program.kill()
            program.communicate(timeout=30)  # returns when no process has the pipe open
        finally:
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)


def test_a_killed_process_that_reads_is_one_line(tmp_path: Path) -> None:
    log = tmp_path / "records.jsonl"
    work = "import os; os.kill(os.getpid(), 9)"
    with pytest.raises(StoreError, match=rf"{log}: a process that read it was killed.*memory"):
        list(on_all_cores(log, exec, [work] * 50))
