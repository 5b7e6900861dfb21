"""Files left by a kill, a signal or a full disk: none obstructs the next command."""

import errno
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from invoke.context import Context
from invoke.exceptions import Exit

import fabfile as _fabfile
import im2rec_tools.files
import im2rec_tools.packing.packer
import launch.sweep
from im2rec_tools.errors import DataError
from im2rec_tools.files import atomic_file, part_of, write_text
from launch.hosts import ROOT
from launch.practice import state
from launch.practice.state import Cluster, room, save
from launch.remote.errors import LaunchError
from results import store
from results.comparison import baselines
from results.errors import StoreError
from results.integrity.archive import pack, scratch, unpack
from results.integrity.catalog import list_runs
from results.integrity.rederive import rederive
from results.record import emit
from results.run import load
from results.store import Store, read_records, remove
from tasks import report
from tests.support.data.datasets import entries_of, listed, tar_of_tars, untar
from tests.support.data.datasets import pack as pack_shard
from tests.support.data.trees import tree
from tests.support.programs.commands import refusal, sweep_file
from tests.support.programs.jobs import measured, trial, until
from tests.support.repeats import slow
from tests.support.runs.runs import packed_run
from tests.support.runs.stores import record, stored

fabfile: Any = _fabfile
TORN = [20, 70, 90, 1500]


@pytest.fixture(autouse=True)
def in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("size", TORN)
def test_a_torn_tail_is_moved_aside_by_the_next_writer(
    tmp_path: Path, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    log = stored(tmp_path, record(repeat=0), record(repeat=1))
    first, second = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(first + (torn := second.rstrip()[:size].ljust(size, b"\0")))
    stored(tmp_path, record(repeat=1))
    assert log.read_bytes() == first + emit(record(repeat=1)).encode() + b"\n"
    assert (tmp_path / "records.jsonl.torn").read_bytes() == torn + b"\n"
    (said,) = caplog.messages
    assert said == f"{log}: incomplete last line; moved its {size} bytes to records.jsonl.torn"


def test_zeros_at_the_end_of_a_log_are_moved_aside_and_nothing_else_is(tmp_path: Path) -> None:
    log = stored(tmp_path, record())
    whole_log = log.read_bytes()
    log.write_bytes(whole_log + bytes(1 << 19))  # more than is read at once
    Store(tmp_path).close()
    assert log.read_bytes() == whole_log
    Store(tmp_path).close()
    assert (tmp_path / "records.jsonl.torn").read_bytes() == bytes(1 << 19) + b"\n"


def test_a_record_that_lacks_its_end_of_line_alone_stays(tmp_path: Path) -> None:
    log = stored(tmp_path, record())
    log.write_bytes(log.read_bytes()[:-1])
    stored(tmp_path, record(repeat=1))
    assert len(read_records(tmp_path)) == 2
    assert not (tmp_path / "records.jsonl.torn").exists()


@pytest.mark.parametrize("torn", [b'{"schema": 3, "trial": {"net\n', bytes(4096) + b"\n"])
def test_a_torn_line_of_a_run_that_lacks_nothing_is_no_trouble(tmp_path: Path, torn: bytes) -> None:
    log = stored(tmp_path, record())
    log.write_bytes(torn + log.read_bytes())
    asked = '[{"name": "tiny", "key": "%s", "repeat": %d, "code_hash": "c", "data_manifest": "d", '
    for repeat, troubles in ((0, 0), (1, 1)):
        text = asked % (record().identity.key, repeat) + '"hosts": ["h"]}]'
        both = f'{text[:-1]}, {(asked % (record().identity.key, 0))[1:]}"hosts": ["h"]}}]'
        (tmp_path / "asked.json").write_text(both if repeat else text)
        assert len(load(tmp_path).troubles) == troubles


@pytest.mark.program
@pytest.mark.parametrize("size", [TORN[1], *slow(TORN[0], *TORN[2:])])
def test_a_sweep_mends_the_run_whose_log_was_cut_off(tmp_path: Path, size: int) -> None:
    run, sweep = tmp_path / "run", sweep_file(tmp_path)
    fabfile.bench.bench_sweep.body(Context(), sweep, [], run=str(run))
    lines = (log := run / "records.jsonl").read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-1]) + lines[-1][:size])
    assert refusal(fabfile.report.report_build, run=str(run))[0] == 5
    fabfile.bench.bench_sweep.body(Context(), sweep, [], run=str(run))
    assert sorted(one.trial.layout.devices for one in read_records(run)) == [1, 2]


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_record_that_is_not_on_disk_leaves_no_half_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = stored(tmp_path, record())
    before, open_store = log.read_bytes(), Store(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreError, match="No space left on device"):
            open_store.append(record(repeat=1))
    open_store.close()
    assert log.read_bytes() == before


def test_a_link_in_place_of_a_part_is_not_followed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("mine")
    for name, write in (
        ("text.md", lambda path: write_text(path, "new")),
        ("run.zip", lambda path: pack(packed_run(tmp_path / "a" / "run"), path)),
    ):
        part_of(tmp_path / name).symlink_to(kept)
        write(tmp_path / name)
        assert kept.read_text() == "mine"
        assert not (tmp_path / name).is_symlink()
        assert not os.path.lexists(part_of(tmp_path / name))


def test_a_lock_that_is_a_link_is_refused_and_its_target_stays(tmp_path: Path) -> None:
    kept, run = tmp_path / "kept", tmp_path / "run"
    kept.write_text("mine")
    run.mkdir()
    (run / ".lock").symlink_to(kept)
    with pytest.raises(StoreError, match="run: cannot be written"):
        Store(run)
    assert kept.read_text() == "mine"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_a_part_of_another_user_in_a_shared_folder_is_one_line(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    for above in (tmp_path, *tmp_path.parents):
        if above.stat().st_uid == 0 and above != Path("/") and "pytest" in above.name:
            above.chmod(0o755)
    part_of(shared / "x.md").symlink_to(tmp_path / "kept")
    pid = os.fork()
    if not pid:
        try:
            os.setgid(12345)
            os.setuid(12345)
            write_text(shared / "x.md", "new")
        except DataError as error:
            os._exit(0 if "x.md: cannot be written" in str(error) else 1)
        finally:  # this copy of the test process must not go on
            os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0


@pytest.mark.parametrize(
    ("mode", "owner", "said"),
    [
        (0o757, 0, "other users can write to it (mode 757). Run 'chmod go-w "),
        (0o775, 0, "other users can write to it (mode 775)"),
        pytest.param(
            0o755,
            12345,
            "belongs to another user (uid 12345). Copy the .zip to a folder of your own",
            marks=pytest.mark.skipif(
                os.geteuid() != 0, reason="needs root to change a folder's owner"
            ),
        ),
    ],
)
def test_the_report_of_a_zip_goes_to_no_folder_of_others(
    tmp_path: Path, mode: int, owner: int, said: str
) -> None:
    pack(packed_run(tmp_path / "run"), tmp_path / "x.zip")
    beside = tmp_path / "x-report"
    beside.mkdir()
    beside.chmod(mode)
    if owner:
        os.chown(beside, owner, -1)
    code, line = refusal(fabfile.report.report_build, run=str(tmp_path / "x.zip"))
    assert code == 2
    assert said in line
    assert not list(beside.iterdir())


def test_the_report_of_a_zip_goes_through_no_link(tmp_path: Path) -> None:
    pack(packed_run(tmp_path / "run"), tmp_path / "x.zip")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "x-report").symlink_to(tmp_path / "elsewhere")
    code, line = refusal(fabfile.report.report_build, run=str(tmp_path / "x.zip"))
    assert code == 2
    assert "x-report: expected a folder for the report" in line
    assert not list((tmp_path / "elsewhere").iterdir())


def test_names_that_begin_with_a_dot_are_no_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "RUNS", tmp_path)
    run = packed_run(tmp_path / "run")
    half = packed_run(tmp_path / "half").rename(tmp_path / ".half.part")  # newer
    assert [one.name for one in list_runs(tmp_path, tmp_path / "index")] == ["run"]
    assert report.run_folder("") == run
    with pytest.raises(StoreError, match=r"unknown run"):
        baselines.open_run("run:.half.part", tmp_path, tmp_path)
    assert baselines.names(tmp_path) == ["run"]
    for refused in (
        lambda: load(half),
        lambda: Store(half),
        lambda: pack(half, tmp_path / "x.zip"),
        lambda: remove(half),
        lambda: report.run_folder(".half.part"),
        lambda: report.run_folder(str(half)),
    ):
        with pytest.raises(StoreError, match=r"expected a name that does not begin with '\.'"):
            refused()
    pack(run, tmp_path / "x.zip")
    with pytest.raises(StoreError, match="does not begin with"):
        unpack(tmp_path / "x.zip", tmp_path, ".again")


def test_a_removal_that_was_ended_can_be_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0
    for left in range(20):
        run = packed_run(tmp_path / str(left) / "run")  # whose name is in its report
        real, steps = im2rec_tools.files.remove, 0

        def one(path: Path, left: int = left, real: Any = real) -> None:
            nonlocal steps
            steps += 1
            if steps > left:
                raise OSError(errno.EIO, "ended")
            real(path)

        with monkeypatch.context() as patch:
            patch.setattr(im2rec_tools.files, "remove", one)
            try:
                remove(run)
            except StoreError:
                remove_again = True
            else:
                remove_again = False
        if not remove_again:
            break
        remove(run)
        assert not run.exists()
    assert steps >= 5


def test_what_was_packed_kept_and_unpacked_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[str] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        flushed.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    run = packed_run(tmp_path / "run")
    flushed.clear()
    pack(run, tmp_path / "x.zip")
    # The file before it takes its name, its folder afterwards.
    assert flushed == [f"{tmp_path}/.x.zip.part", str(tmp_path)]
    flushed.clear()
    baselines.save("base", load(run), tmp_path / "kept")
    names = {Path(one).name for one in flushed}
    assert {"records.jsonl", ".baseline.json.part", ".base.part", "kept"} <= names
    flushed.clear()
    unpack(tmp_path / "x.zip", tmp_path / "elsewhere")
    assert flushed == [str(tmp_path / "elsewhere")]  # all that is in it by one call of syncfs


def test_a_baseline_that_was_not_kept_to_the_end_is_kept_anew(tmp_path: Path) -> None:
    run = load(packed_run(tmp_path / "run"))
    left = tmp_path / "kept" / ".base.part"
    left.mkdir(parents=True)
    (left / "stranger").touch()
    baselines.save("base", run, tmp_path / "kept")
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["base"]
    assert not (tmp_path / "kept" / "base" / "stranger").exists()


def test_pictures_are_old_or_new_but_never_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.figure import Figure  # noqa: PLC0415

    from plots.report import build  # noqa: PLC0415

    run = packed_run(tmp_path / "run")
    before = {path.name: path.read_bytes() for path in (run / "report").iterdir()}

    def half(_: object, file: Any, *, format: str, **__: object) -> None:
        file.write("half of a picture" if format == "svg" else b"half of a picture")
        full()

    monkeypatch.setattr(Figure, "savefig", half)
    with pytest.raises(StoreError, match="No space left on device"):
        build(load(run))
    after = {path.name: path.read_bytes() for path in (run / "report").iterdir()}
    assert after.keys() == before.keys()
    assert {n: after[n] for n in ("scaling.svg", "scaling.png")} == {
        n: before[n] for n in ("scaling.svg", "scaling.png")
    }


def test_pictures_that_a_run_no_longer_gives_are_removed(tmp_path: Path) -> None:
    from plots.report import build  # noqa: PLC0415

    run = packed_run(tmp_path / "run")
    (run / "report" / "threads.svg").write_text("of records that were others then")
    build(load(run))
    assert not (run / "report" / "threads.svg").exists()


def cluster_of(folder: Path) -> Cluster:
    return Cluster(folder=folder, nodes=(), pid=1, started=-1, link="none", address="10.0.0.1")


@pytest.mark.parametrize("step", range(4))
def test_a_cluster_that_was_not_saved_to_the_end_does_not_keep_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    folder, count = tmp_path / "c", 0
    folder.mkdir()

    def ended(real: Any) -> Any:
        def one(*args: Any) -> Any:
            nonlocal count
            count += 1
            if count > step:
                raise KeyboardInterrupt
            return real(*args)

        return one

    with monkeypatch.context() as patch:
        patch.setattr(state, "create", ended(im2rec_tools.files.create))
        patch.setattr(Path, "write_text", ended(Path.write_text))
        with pytest.raises(KeyboardInterrupt):
            save(cluster_of(folder), 2, {}, "key")
    with room(folder):
        assert not list(folder.iterdir())


def test_a_cluster_on_a_full_disk_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "write_text", full)
    with (
        pytest.raises(
            LaunchError, match=r"c: the cluster cannot be started \(No space left on dev"
        ),
        room(tmp_path / "c"),
    ):
        save(cluster_of(tmp_path / "c"), 2, {}, "key")


def test_scratch_folders_of_processes_that_were_killed_go_and_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kept = tmp_path / "kept"
    kept.mkdir()
    abandoned = tmp_path / "mxscale-scratch-killed"
    (abandoned / "run").mkdir(parents=True)
    (tmp_path / "mxscale-scratch-link").symlink_to(kept)
    (tmp_path / "mxscale-results").mkdir()  # a person's
    with scratch() as mine:
        assert not abandoned.exists()
        with scratch():
            assert mine.is_dir()
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"kept", "mxscale-scratch-link", "mxscale-results"}


def test_a_full_temporary_folder_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "mkdtemp", lambda **_: full())
    with pytest.raises(StoreError, match=r"No space left on device\)\. Free disk space"), scratch():
        pass


@pytest.mark.program
@pytest.mark.parametrize(
    ("number", "code"),
    # As the other, through the same handler.
    [(signal.SIGTERM, 143), *slow((signal.SIGHUP, 129)), (signal.SIGINT, 130)],
)
def test_a_signal_that_ends_a_task_leaves_no_unpacked_run(
    tmp_path: Path, number: int, code: int
) -> None:
    pack(packed_run(tmp_path / "run"), tmp_path / "x.zip")
    there = tmp_path / "tmp"
    there.mkdir()
    fab = [str(Path(sys.executable).parent / "fab"), "report.build", "--run", f"{tmp_path}/x.zip"]
    with subprocess.Popen(
        fab,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(there)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert until(lambda: any(there.glob("mxscale-scratch-*/run")), 60)
        time.sleep(0.1)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode in {code, 0}
    assert "Traceback" not in said
    assert not list(there.iterdir())


def test_an_import_that_was_ended_is_completed_by_the_same_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = ROOT / "tests" / "logs" / "horovod-32.log"
    asked = {"network": "resnet-50", "devices": "32", "hosts": "4", "batch_per_device": "256"}
    for step in range(1, 12):
        run, fsync, count = tmp_path / str(step), os.fsync, 0

        def ended(descriptor: int, step: int = step, fsync: Any = fsync) -> None:
            nonlocal count
            count += 1
            if count == step:
                full()
            fsync(descriptor)

        def brought(run: Path = run) -> bool:
            options = {"run": str(run), "description": "mine", **asked}
            with suppress(Exit):
                fabfile.results.results_import.body(Context(), str(log), **options)
                return True
            return False

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", ended)
            if brought():
                break
        assert brought() or read_records(run)
        environment = store.read_json(run, "environment.json", {"": ""})
        assert environment["description"] == "mine (imported, not measured by mxscale)"
        assert environment["imported"]
        assert len(read_records(run)) == 1
    else:
        pytest.fail("the import never ended")
    assert step > 3


@pytest.mark.program
def test_the_events_of_a_record_count_also_where_the_sweep_ended_as_it_compressed_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(launch.sweep, "compress", ended)
        with pytest.raises(KeyboardInterrupt):
            measured(tmp_path, trial())
    (one,) = read_records(tmp_path)
    logs = tmp_path / "logs" / one.identity.key / "0"
    assert one.status == "ok"
    assert rederive(tmp_path, one, "").skip_reason is None
    (logs / "worker-0.events.jsonl.part").touch()
    assert measured(tmp_path, trial()) == []
    assert not list(logs.glob("*.part"))


def test_a_shard_packed_without_bad_images_has_no_list_of_them(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 3})
    lst = listed(tmp_path, entries_of(root))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x.bad.tsv").write_text("1\tcat/1.jpg\tof an attempt that was killed\n")
    pack_shard(lst, root, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "x.idx",
        "x.json",
        "x.rec",
    ]


@pytest.mark.parametrize("fails", range(3))
def test_a_shard_that_cannot_be_begun_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: int
) -> None:
    root, count = tree(tmp_path / "t", {"cat": 3}), 0
    lst = listed(tmp_path, entries_of(root))

    def one(path: Path) -> Any:
        nonlocal count
        count += 1
        if count > fails:
            full()
        return im2rec_tools.files.create(path)

    monkeypatch.setattr(im2rec_tools.packing.packer, "create", one)
    (tmp_path / "out").mkdir()
    with pytest.raises(DataError, match=r"x\.rec: cannot be written \(No space left on device\)"):
        pack_shard(lst, root, tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


def test_a_tar_unpacked_without_bad_files_has_no_list_of_them(tmp_path: Path) -> None:
    tar = tar_of_tars(tmp_path / "all.tar", tree(tmp_path / "t", {"cat": 2}))
    bad = tmp_path / "out.bad.tsv"
    bad.write_text("cat.tar\tdamaged when it was unpacked before\n")
    assert untar(tar, tmp_path / "out")[-1].endswith("none rejected")
    assert not bad.exists()


def test_a_file_that_is_private_is_so_from_the_beginning(tmp_path: Path) -> None:
    with im2rec_tools.files.create(tmp_path / "key", 0o600) as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600


def test_a_full_disk_leaves_neither_a_part_nor_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def write() -> None:
        with atomic_file(path) as file:
            file.write(b"new")
            full()

    with pytest.raises(DataError, match="No space left"):
        write()
    assert [one.name for one in tmp_path.iterdir()] == ["a.txt"]
    assert path.read_text() == "old"
