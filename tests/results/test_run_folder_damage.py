"""Damaged or hostile small files and packed logs: one line, little memory."""

import gzip
import json
import os
import shutil
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.errors import SpecError
from bench.logs.lines import lines
from results import run_folder, worker_log
from results.cost.prices import Price, Prices
from results.errors import StoreError
from results.integrity import digest
from results.integrity.catalog import list_runs, run_entry
from results.reader import read_summaries
from results.run_folder import CATALOG
from results.store import Store, read_json
from results.worker_log import process_hosts, read_lines
from tests.support.runs.records import record
from tests.support.runs.stores import stored


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run with a report that was built with prices."""
    folder = tmp_path_factory.mktemp("made") / "mine"
    stored(folder, record([[1, 2.0, 2.1]]))
    (folder / "report").mkdir()
    (folder / "report" / "report.md").write_text("a report\n")
    each = (Price(key="", pattern="*", per_hour=1.0),)
    digest.write(folder, "code", prices=Prices(name="prices.toml", currency="USD", each=each))
    return folder


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    """Return another such run in a folder of runs."""
    return Path(shutil.copytree(made, tmp_path / "runs" / "mine"))


@pytest.fixture
def memory() -> Iterator[None]:
    """Fail a test that takes more than 64 MB at once."""
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20


def bomb(path: Path, piece: bytes = bytes(1 << 20), times: int = 100) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wb") as file:
        for _ in range(times):
            file.write(piece)
    return path


@pytest.mark.usefixtures("memory")
def test_a_packed_log_of_100_mb_without_an_end_of_line_takes_little_memory(run: Path) -> None:
    log = bomb(run / "logs" / "abc" / "0" / "worker-0.log.gz")
    assert log.stat().st_size < 200_000
    found = digest.file_digest(log)
    assert (found.lines, len(found.marks)) == (1, 8)
    with pytest.raises(OSError, match="has a line of more than 8388608 bytes"):
        list(read_lines(log))


@pytest.mark.usefixtures("memory")
def test_what_unpacks_to_more_than_any_log_is_refused_in_one_line(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_log, "MOST_UNPACKED", 2 << 20)
    log = bomb(run / "logs" / "abc" / "0" / "worker-0.log.gz", b"a line\n" * 100_000, times=4)
    with pytest.raises(
        StoreError, match=r"worker-0\.log\.gz: cannot be read \(decompresses to more"
    ):
        digest.run_digests(run)
    with pytest.raises(OSError, match="decompresses to more than 2097152 bytes"):
        for _ in read_lines(log):
            pass


@pytest.mark.usefixtures("memory")
def test_a_packed_log_of_another_tool_is_read_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.logs.lines.MOST_BYTES", 4 << 20)
    log = bomb(tmp_path / "a.log.gz", b"a" * (1 << 20), times=8)
    with pytest.raises(SpecError, match=r"a\.log\.gz: expected a log of at most .*, got more"):
        for _ in lines(log):
            pass


@pytest.mark.parametrize("at", [5, 30, -9, -1])
def test_a_packed_log_that_is_damaged_is_said_to_be(tmp_path: Path, at: int) -> None:
    path = tmp_path / "worker-0.events.jsonl.gz"
    data = bytearray(gzip.compress(os.urandom(200)))
    data[at] ^= 0xFF
    for one in (bytes(data), bytes(data[:-20])):
        path.write_bytes(one)
        assert digest.file_digest(path).bytes == len(one)
    with pytest.raises(OSError, match=r".+"):
        list(read_lines(path))


def test_lines_are_the_same_whether_a_log_is_packed_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_log, "CHUNK_BYTES", 7)
    text = "".join(f"{'x' * (n % 23)}\n" for n in range(200)) + "no end"
    (tmp_path / "a.log").write_text(text)
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("a.log", "a.log.gz"):
        assert list(read_lines(tmp_path / name)) == text.split("\n")
        found = digest.file_digest(tmp_path / name, every=3)
        assert (found.lines, len(found.marks)) == (201, 8 * 67)
    marks = {digest.file_digest(tmp_path / name, every=3).marks for name in ("a.log", "a.log.gz")}
    assert len(marks) == 1


@pytest.mark.parametrize(
    "text",
    ['["worker-0"]', "[1]", "[" * 100_000, "3", '{"worker-0": 1}', "\ufeff{}", '{"a": "\\ud800"}'],
)
def test_hosts_of_a_job_that_are_none_are_nobody(tmp_path: Path, text: str) -> None:
    (tmp_path / "hosts.json").write_text(text)
    assert process_hosts(tmp_path) == {}


def test_names_that_are_no_process_are_not_taken_for_files(tmp_path: Path) -> None:
    names = ("worker-0", "../../../../other", "/etc/x", "worker-\u0663", "worker-0/..", "", "a\0")
    (tmp_path / "hosts.json").write_text(json.dumps(dict.fromkeys(names, "node01")))
    assert process_hosts(tmp_path) == {"worker-0": "node01"}


def changed(run: Path, change: Any) -> None:
    """Change digests.json and renew its check, as anybody can."""
    path = run / "report" / "digests.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data | {"check": digest.checksum(data)}))


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.update(prices={"name": 1}),
        lambda data: data.update(prices=3),
        lambda data: data["prices"]["each"].append({}),
        lambda data: data["prices"]["each"][0].update(per_hour=0),
        lambda data: data["prices"]["each"][0].update(per_hour=float("nan")),
        lambda data: data["prices"]["each"][0].update(per_hour="1"),
        lambda data: data["prices"]["each"][0].update(key="rack"),
        lambda data: data["prices"]["each"][0].update(pattern=None),
        lambda data: data.update(files=[]),
        lambda data: data["files"].update({"\ud800": data["files"]["records.jsonl"]}),
        lambda data: data["files"].update({"../x": data["files"]["records.jsonl"]}),
        lambda data: data["files"]["records.jsonl"].update(every=-1),
        lambda data: data["files"]["records.jsonl"].update(bytes=10**400),
        lambda data: data["files"]["records.jsonl"].pop("marks"),
        lambda data: data.update(choice={"libraries": [1]}),
        lambda data: data.update(code=5),
        lambda data: data.pop("name"),
    ],
)
def test_digests_of_other_types_are_refused_though_their_check_is_right(
    run: Path, change: Any
) -> None:
    assert digest.load(run) is not None
    changed(run, change)
    with pytest.raises(StoreError, match=r"digests\.json: invalid content") as refused:
        digest.load(run)
    assert "\n" not in str(refused.value)
    str(refused.value).encode()


@pytest.mark.parametrize("name", ["records.jsonl", "asked.json", "environment.json"])
def test_a_pipe_in_place_of_a_file_of_a_run_is_not_waited_for(run: Path, name: str) -> None:
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    readers: list[Callable[[], object]] = [lambda: read_json(run, name, {})]
    if name == "records.jsonl":
        readers = [lambda: list(read_summaries(run)), lambda: Store(run)]
    for reader in readers:
        with pytest.raises(StoreError, match=f"{name}: expected a file, got something else"):
            reader()
    assert "expected a file" in run_entry(run).problem


def test_pipes_in_place_of_small_files_of_logs_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / run_folder.HOSTS)
    os.mkfifo(tmp_path / run_folder.RECORDED)
    assert (process_hosts(tmp_path), worker_log.recorded_start(tmp_path)) == ({}, "")
    for name in ("worker-0.events.jsonl", "worker-1.events.jsonl.gz"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(OSError, match="not a regular file"):
            list(read_lines(tmp_path / name))


def test_one_broken_run_hides_no_other_run_of_the_list(run: Path) -> None:
    runs = run.parent
    broken: dict[str, Callable[[Path], object]] = {
        "future": lambda folder: os.utime(folder / "asked.json", (2**38, 2**38)),
        "nest": lambda folder: (folder / "environment.json").write_text("[" * 100_000),
        "types": lambda folder: (folder / "asked.json").write_text('[{"name": 1}]'),
        "binary": lambda folder: (folder / "records.jsonl").write_bytes(os.urandom(2000)),
        "odd": lambda folder: (folder / "records.jsonl").write_text('{"schema": []}\n'),
        "pipe": lambda folder: os.mkfifo(folder / "records.jsonl"),
    }
    for name, damage in broken.items():
        (runs / name).mkdir()
        (runs / name / "asked.json").write_text("[]")
        damage(runs / name)
    found = {one.name: one for one in list_runs(runs, runs / CATALOG)}
    assert found.keys() == {"mine", *broken}
    assert (found["mine"].ok, found["mine"].problem) == (1, "")
    again = {one.name: one for one in list_runs(runs, runs / CATALOG)}
    assert again == found


@pytest.mark.parametrize(
    "wrong",
    [
        1,
        [],
        {"entry": 3, "stamp": []},
        *(
            {name: value}
            for name in ("ok", "bytes", "hosts")
            for value in (10**400, -1, "1", 1e999)
        ),
        {"networks": 3},
        {"networks": [1]},
        {"date": None},
        {"problem": {}},
        {"name": []},
    ],
    ids=str,
)
def test_an_index_of_other_types_does_not_count(run: Path, wrong: Any) -> None:
    index = run.parent / CATALOG
    (expected,) = list_runs(run.parent, index)
    data = json.loads(index.read_text())
    for kept in data["runs"].values():
        if isinstance(wrong, dict) and "entry" not in wrong:
            kept["entry"].update(wrong)
    if not isinstance(wrong, dict) or "entry" in wrong:
        data["runs"] = wrong if isinstance(wrong, list) else dict.fromkeys(data["runs"], wrong)
    index.write_text(json.dumps(data))
    assert list_runs(run.parent, index) == [expected]
    index.write_text('{"schema": 1, "runs": [1]}')
    assert list_runs(run.parent, index) == [expected]
