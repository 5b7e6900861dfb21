"""Runs with very many logs have digests per job, which name each file."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from results.errors import StoreError
from results.integrity import digest
from results.integrity.file_changes import changes
from tests.support.runs.runs import packed_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return a run with the logs of three jobs, and two files beside them."""
    folder = packed_run(tmp_path / "mine")
    for key in ("abc", "abc-d", "def"):
        for name in ("worker-0.log", "server-0.log", "try-1/worker-0.log", "try-10/a.log"):
            path = folder / "logs" / key / "0" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{key} {name}\n")
    (folder / "logs" / "def" / "0-x").write_text("beside a job\n")
    (folder / "logs" / "note").write_text("beside all\n")
    (folder / "logs" / ".hidden").write_text("no log\n")
    (folder / "logs" / "link").symlink_to(folder / "records.jsonl")
    return folder


def written(folder: Path) -> digest.Digests:
    digest.write(folder, "code", digest.files(folder, detailed=False))
    found = digest.load(folder)
    assert found is not None
    assert set(found.folders) == {"logs/abc/0/", "logs/abc-d/0/", "logs/def/0/"}
    return found


def found_changes(folder: Path, was: digest.Digests) -> list[str]:
    now = digest.run_digests(folder, detailed=not was.folders)
    assert now.digest == digest.run_digests(folder).digest
    return list(changes(folder, was, now))


def test_the_digest_is_that_of_a_run_with_an_entry_per_file(run: Path) -> None:
    files = {
        name: [(data := digest.file_digest(path)).bytes, data.sha256]
        for name, path in digest.covered_files(run).items()
    }
    assert len(files) > 12
    text = json.dumps(files, sort_keys=True, separators=(",", ":"))
    expected = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    assert digest.files(run).digest == expected
    assert digest.files(run, detailed=False).digest == expected == written(run).digest


def test_names_that_json_escapes_do_not_change_the_digest(run: Path) -> None:
    for name in ('a "quote".log', "back\\slash.log", "line\n.log", "\u00e4.log", "byte \udc80.log"):
        (run / "logs" / "abc" / "0" / name).write_text(name.encode("utf-8", "replace").decode())
    assert digest.files(run, detailed=False).digest == digest.files(run, detailed=True).digest


def test_jobs_with_the_same_names_share_their_list(run: Path) -> None:
    found = written(run)
    assert len(found.names) == 2  # one job has a packed log more
    assert found.folders["logs/abc-d/0/"].names == found.folders["logs/def/0/"].names


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda logs: (logs / "worker-0.log").write_text("def worker-0.lof\n"), "modified"),
        (lambda logs: (logs / "worker-0.log").unlink(), "missing; it was there"),
        (lambda logs: (logs / "worker-1.log").touch(), "added after the report"),
        (lambda logs: (logs / "try-1" / "worker-0.log").write_text(""), "modified"),
        (lambda logs: (logs / "try-2").mkdir() or (logs / "try-2" / "a").touch(), "added after"),
    ],
)
def test_one_changed_file_is_named(
    run: Path, change: Callable[[Path], object], expected: str
) -> None:
    was = written(run)
    before = set(digest.covered_files(run))
    change(run / "logs" / "def" / "0")
    after = set(digest.covered_files(run))
    (line,) = found_changes(run, was)
    name, _, kind = line.partition(": ")
    assert kind.startswith(expected)
    assert name.startswith("logs/def/0/")
    assert {name} == (before ^ after or {name})
    assert name in before | after


def test_every_byte_of_a_log_counts(run: Path) -> None:
    was, path = written(run), run / "logs" / "abc" / "0" / "worker-0.log"
    data = path.read_bytes()
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert found_changes(run, was) == ["logs/abc/0/worker-0.log: modified"]


def test_a_removed_job_is_named_file_by_file(run: Path) -> None:
    was = written(run)
    (run / "logs" / "def" / "0").rename(run / "elsewhere")
    assert [line.partition(":")[0] for line in found_changes(run, was)] == [
        f"logs/def/0/{name}"
        for name in ("server-0.log", "try-1/worker-0.log", "try-10/a.log", "worker-0.log")
    ]


def test_the_folder_is_named_if_only_its_whole_hash_differs(run: Path) -> None:
    was = written(run)
    path = run / "report" / "digests.json"
    data = json.loads(path.read_text())
    data["folders"]["logs/abc/0/"]["sha256"] = "0" * 64
    path.write_text(json.dumps(data | {"check": digest.checksum(data)}))
    forged = digest.load(run)
    assert forged is not None
    assert forged != was
    assert found_changes(run, forged) == ["logs/abc/0/: a file in it was modified"]


def test_a_file_that_grew_beyond_one_read_counts_as_a_whole(run: Path) -> None:
    path = run / "logs" / "abc" / "0" / "worker-0.log"
    path.write_bytes(b"a line\n" * 30_000)
    assert path.stat().st_size > 200_000
    assert digest.files(run).digest == digest.files(run, detailed=False).digest


def test_a_run_above_the_limit_is_read_on_all_cores(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = written(run)
    monkeypatch.setattr(digest, "MOST_DETAILED", 3)
    found = digest.files(run)
    assert (found.digest, found.folders) == (expected.digest, expected.folders)


def test_the_records_of_a_large_run_are_read_first(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = written(run)
    asked: list[str] = []

    def one_by_one(
        _: Path, function: Callable[..., object], *arguments: Sequence[Any]
    ) -> Iterator[object]:
        asked.extend(arguments[1])
        return map(function, *arguments)

    monkeypatch.setattr(digest, "MOST_DETAILED", 3)
    monkeypatch.setattr(digest, "on_all_cores", one_by_one)
    assert digest.files(run).digest == expected.digest
    assert asked.index("records.jsonl") < asked.index("logs/abc/0/")


def test_digests_of_schema_1_are_read(run: Path) -> None:
    digest.write(run, "code")
    path = run / "report" / "digests.json"
    data = json.loads(path.read_text()) | {"schema": 1}
    del data["folders"], data["names"]
    path.write_text(json.dumps(data | {"check": digest.checksum(data)}))
    was = digest.load(run)
    assert was is not None
    assert found_changes(run, was) == []
    (run / "logs" / "abc" / "0" / "worker-0.log").write_text("changed\n")
    assert found_changes(run, was) == ["logs/abc/0/worker-0.log line 1: modified"]


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data["folders"]["logs/abc/0/"].update(names=9),
        lambda data: data["folders"]["logs/abc/0/"].update(starts="00"),
        lambda data: data["names"][0].append("more.log"),
        lambda data: data["names"][0].__setitem__(0, "../../x"),
        lambda data: data["folders"].update({"/etc/": data["folders"].pop("logs/abc/0/")}),
        lambda data: data["folders"].clear(),
        lambda data: data.pop("digest"),
    ],
)
def test_folders_that_do_not_fit_are_refused(run: Path, change: Callable[[object], object]) -> None:
    written(run)
    path = run / "report" / "digests.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data | {"check": digest.checksum(data)}))
    with pytest.raises(StoreError, match=r"digests\.json: invalid content"):
        digest.load(run)
