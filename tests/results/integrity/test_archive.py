"""A run is packed, moved and unpacked whole; archives cannot write elsewhere."""

import shutil
import stat
import zipfile
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import pytest
from invoke.context import Context

import fabfile as _fabfile
import results.integrity.archive
from launch.hosts import ROOT
from results.errors import StoreError
from results.integrity import digest
from results.integrity.archive import pack, unpack
from results.store import Store
from tests.support.programs.commands import refusal
from tests.support.runs.runs import packed_run

fabfile: Any = _fabfile


@pytest.fixture(autouse=True)
def in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return a run with a log, a packed log and a report."""
    return packed_run(tmp_path / "mine")


def archive(path: Path, files: dict[str, bytes], mode: int = 0o644 | stat.S_IFREG) -> Path:
    with ZipFile(path, "w", ZIP_DEFLATED) as packed:
        for name, data in files.items():
            one = ZipInfo(name)
            one.filename = name
            one.external_attr = mode << 16
            one.compress_type = ZIP_DEFLATED
            packed.writestr(one, data)
    return path


def everything(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("[!.]*")
        if path.is_file()
    }


def test_what_is_packed_comes_back_as_it_was(run: Path, tmp_path: Path) -> None:
    count = pack(run, tmp_path / "a.zip")
    moved = unpack(tmp_path / "a.zip", tmp_path / "elsewhere")
    assert moved == tmp_path / "elsewhere" / "mine"
    assert everything(moved) == everything(run)
    assert len(everything(run)) == count
    assert digest.run_digests(moved).digest == digest.run_digests(run).digest
    at = "logs/abc/0/worker-0.log"
    assert abs((moved / at).stat().st_mtime - (run / at).stat().st_mtime) < 3


def test_a_packed_run_can_be_shown_reported_and_checked_where_it_lies(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / "there"
    there.mkdir()
    pack(run, there / "a.zip")
    shutil.rmtree(run)
    named = str(there / "a.zip")
    fabfile.report.report_show.body(Context(), run=named)
    assert "alexnet" in capsys.readouterr().out
    fabfile.report.report_verify.body(Context(), run=named)
    assert "everything checked is correct" in capsys.readouterr().out
    fabfile.report.report_build.body(Context(), run=named)
    assert f"{there}/a-report/results.csv" in capsys.readouterr().out
    assert (there / "a-report" / "scaling.png").stat().st_size > 200


def test_the_report_of_an_archive_stays_behind_and_is_built_anew(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "report" / "index.html").write_text("<script>a stranger's</script>")
    (run / "report" / "predictions.jsonl").write_text("{}\n")
    pack(run, tmp_path / "a.zip")
    there = tmp_path / "there" / "mine"
    fabfile.results.results_unpack.body(Context(), archive=str(tmp_path / "a.zip"), run=str(there))
    assert f"fab report.build --run {there}" in capsys.readouterr().out
    # Predictions cannot be made again once their points are measured.
    assert everything(there / "report") == {"predictions.jsonl": b"{}\n"}
    assert (there / "records.jsonl").read_bytes() == (run / "records.jsonl").read_bytes()


def test_an_archive_of_a_megabyte_does_not_become_a_gigabyte(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", {"run/records.jsonl": bytes(101 << 20)})
    assert path.stat().st_size < 1 << 20
    with pytest.raises(StoreError, match=r"kB would unpack to 106 MB"):
        unpack(path, tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_a_packed_run_is_not_measured_on(tmp_path: Path) -> None:
    code, line = refusal(fabfile.bench.bench_sweep, sweep="smoke", run=str(tmp_path / "a.zip"))
    assert (code, "expected a folder, got the packed run" in line) == (2, True)


@pytest.mark.parametrize(
    "name", ["../out", "a/../../out", "/tmp/mxscale-out", "a\\..\\out", "C:out", "C:/out"]
)
def test_an_archive_that_would_write_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    path = archive(tmp_path / "a.zip", {"run/records.jsonl": b"", name: b"x"})
    before = sorted(tmp_path.parent.rglob("*"))
    with pytest.raises(StoreError, match="would be written outside the run; nothing was unpacked"):
        unpack(path, tmp_path / "runs")
    assert sorted(tmp_path.parent.rglob("*")) == before


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR])
def test_links_and_devices_in_an_archive_are_refused(tmp_path: Path, kind: int) -> None:
    path = archive(tmp_path / "a.zip", {"run/records.jsonl": b"/etc/passwd"}, kind | 0o777)
    with pytest.raises(StoreError, match="is a link or a special file"):
        unpack(path, tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_a_bomb_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = archive(tmp_path / "a.zip", {"run/records.jsonl": bytes(5 << 20)})
    monkeypatch.setattr(results.integrity.archive, "MOST_BYTES", 1 << 20)
    with pytest.raises(StoreError, match=r"would unpack to 5\.24 MB in 1 files"):
        unpack(path, tmp_path / "runs")
    monkeypatch.setattr(results.integrity.archive, "MOST_BYTES", 1 << 40)
    monkeypatch.setattr(results.integrity.archive, "RATIO_BYTES", 1 << 20)
    monkeypatch.setattr(results.integrity.archive, "MOST_RATIO", 500)
    with pytest.raises(StoreError, match=r"kB would unpack to 5\.24 MB"):
        unpack(path, tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_a_file_that_is_longer_than_it_says_is_no_whole_archive(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", {"run/records.jsonl": b"x" * 5000})
    data = path.read_bytes()
    size = (5000).to_bytes(4, "little")
    assert data.count(size) == 2
    path.write_bytes(data.replace(size, (50).to_bytes(4, "little")))
    with pytest.raises(StoreError, match=r"expected a \.zip file; damaged"):
        unpack(path, tmp_path / "runs")
    assert not list((tmp_path / "runs").iterdir())


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"a.txt": b""}, "expected one run, .*, got no run"),
        ({"a/records.jsonl": b"", "b/asked.json": b""}, r"got 2 runs \(a, b, \.\.\.\)"),
    ],
)
def test_an_archive_that_is_not_one_run_is_refused(
    tmp_path: Path, files: dict[str, bytes], said: str
) -> None:
    with pytest.raises(StoreError, match=said):
        unpack(archive(tmp_path / "a.zip", files), tmp_path / "runs")


def test_what_is_no_archive_or_is_cut_off_is_told_in_a_line(run: Path, tmp_path: Path) -> None:
    pack(run, tmp_path / "a.zip")
    (tmp_path / "b.zip").write_bytes((tmp_path / "a.zip").read_bytes()[:-40])
    for name in ("b.zip", "mine/records.jsonl"):
        with pytest.raises(StoreError, match=r"expected a \.zip file; damaged"):
            unpack(tmp_path / name, tmp_path / "runs")
    with pytest.raises(StoreError, match="no such file"):
        unpack(tmp_path / "c.zip", tmp_path / "runs")


def test_archives_that_people_make_by_hand_are_read(tmp_path: Path) -> None:
    flat = archive(tmp_path / "flat.zip", {"records.jsonl": b"\n", "logs/a/0/x.log": b"x"})
    assert (unpack(flat, tmp_path) / "logs/a/0/x.log").read_bytes() == b"x"
    files = {"deep/er/records.jsonl": b"\n", "__MACOSX/er/._records.jsonl": b"", "deep/note": b""}
    found = unpack(archive(tmp_path / "mac.zip", files), tmp_path)
    assert found == tmp_path / "er"
    assert [path.name for path in found.iterdir()] == ["records.jsonl"]


def test_nothing_is_overwritten(run: Path, tmp_path: Path) -> None:
    pack(run, tmp_path / "a.zip")
    with pytest.raises(StoreError, match=r"already exists\. Choose another name with --to"):
        pack(run, tmp_path / "a.zip")
    with pytest.raises(StoreError, match=r"already exists\. Unpack under another name"):
        unpack(tmp_path / "a.zip", tmp_path)
    assert unpack(tmp_path / "a.zip", tmp_path, "other").name == "other"


def test_links_and_locks_stay_behind_and_a_running_sweep_is_not_packed(
    run: Path, tmp_path: Path
) -> None:
    (run / "logs" / "out").symlink_to(tmp_path)
    (run / "note.txt").symlink_to("/etc/hostname")
    pack(run, tmp_path / "a.zip")
    names = zipfile.ZipFile(tmp_path / "a.zip").namelist()
    assert not [name for name in names if "out" in name or "note" in name or ".lock" in name]
    store = Store(run)
    with pytest.raises(StoreError, match=r"a sweep \(process \d+\) is writing to it"):
        pack(run, tmp_path / "b.zip")
    store.close()
