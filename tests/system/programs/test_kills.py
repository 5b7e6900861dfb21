"""Writers killed, or out of disk space, at any step are completed when run again."""

import random
import re
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from im2rec_tools.declarations import LIST, PACK, TO_TFRECORD
from launch.hosts import ROOT
from results.integrity.archive import pack as pack_run
from results.store import read_records
from tests.support.data.trees import lines, tree
from tests.support.programs import kills
from tests.support.programs.kills import FAULTS, KILL, Commands, Done, Try, can_fail
from tests.support.repeats import slow
from tests.support.runs.runs import packed_run

pytestmark = pytest.mark.program
SWEEP = """
engine = "fake"
repeats = 1
network = "tiny"
batch_per_device = 4
windows = 700
precision = 0.0
fake_seconds = [0.0005, 0.0005]
[[points]]
kvstore = "dist_sync"
devices = 2
"""
# How many steps are tried of each writer by make test-slow, of all faults.
_SLOW = 60
_SEED = 18
# Only make test-slow kills these, because each of their runs takes seconds.
LONG = ("bench.sweep", "report.build", "report.build of a zip")


@dataclass(frozen=True, kw_only=True)
class Writer:
    """A command that writes below the tree TREE, a placeholder in its words.

    prepare   makes its inputs
    already   its message, with exit code 2, if an earlier attempt has finished
    quick     number of steps that `make test` tries; larger for fast commands
    differs   patterns of files whose content differs between runs
    complete  further checks of the tree
    """

    words: str
    prepare: Callable[[Path], object]
    already: str = "never"
    quick: int = 1
    differs: tuple[str, ...] = ()
    complete: Callable[[Commands, Path], None] | None = None


def run_of(folder: Path) -> None:
    packed_run(folder / "run")


def zip_of(folder: Path) -> None:
    run_of(folder)
    pack_run(folder / "run", folder / "x.zip")
    shutil.rmtree(folder / "run")


def sweep_of(folder: Path) -> None:
    (folder / "s.toml").write_text(SWEEP)


def log_of(folder: Path) -> None:
    shutil.copy(ROOT / "tests" / "logs" / "horovod-32.log", folder / "a.log")


def images_of(folder: Path) -> None:
    tree(folder / "images", {"ant": 5, "bee": 4, "cat": 2})


def lists_of(folder: Path) -> None:
    images_of(folder)
    (folder / "images" / "bee" / "1.jpg").write_bytes(b"no image")
    lines(LIST.planned({"prefix": f"{folder}/x", "root": f"{folder}/images", "chunks": "2"}))


def shards_of(folder: Path) -> None:
    lists_of(folder)
    given = {"prefix": f"{folder}/x", "root": f"{folder}/images", "max_bad": "50"}
    lines(PACK.planned(given | {"out": f"{folder}/shards", "processes": "1"}))


def tfrecords_of(folder: Path) -> None:
    shards_of(folder)
    lines(TO_TFRECORD.planned({"path": f"{folder}/shards", "out": f"{folder}/tf"}))


def tar_of(folder: Path) -> None:
    images_of(folder)
    with tarfile.open(folder / "all.tar", "w") as outer:
        for one in sorted((folder / "images").iterdir()):
            with tarfile.open(folder / f"{one.name}.tar", "w") as inner:
                for image in sorted(one.iterdir()):
                    inner.add(image, image.name)
            outer.add(folder / f"{one.name}.tar", f"{one.name}.tar")
            (folder / f"{one.name}.tar").unlink()
    shutil.rmtree(folder / "images")


def is_measured(commands: Commands, folder: Path) -> None:
    """Each point has one record, whose events count as evidence."""
    assert [one.status for one in read_records(folder / "run")] == ["ok"]
    names = {path.name for path in folder.glob("run/logs/*/*/*")}
    assert not {f"{name}.gz" for name in names} & names
    checked = commands.run(Try(words=("report.verify", "--run", f"{folder}/run"), tree=str(folder)))
    assert checked.code == 0
    assert "not checked" not in checked.printed
    assert "recomputed: 1402 windows of 2 ranks" in checked.printed


def is_up(commands: Commands, folder: Path) -> None:
    """The cluster runs, and ends."""
    down = Try(words=("practice.down", "--dir", f"{folder}/p"), tree=str(folder))
    assert commands.run(down).printed == ""


WRITERS = {
    "bench.sweep": Writer(
        words="bench.sweep TREE/s.toml --run TREE/run",
        prepare=sweep_of,
        quick=1,
        differs=("run/**/*",),
        complete=is_measured,
    ),
    "report.build": Writer(words="report.build --run TREE/run", prepare=run_of, quick=1),
    "report.build of a zip": Writer(words="report.build --run TREE/x.zip", prepare=zip_of, quick=1),
    "results.pack": Writer(
        words="results.pack TREE/run --to TREE/x.zip", prepare=run_of, already="already exists"
    ),
    "results.unpack": Writer(
        words="results.unpack TREE/x.zip --run TREE/again",
        prepare=zip_of,
        already="already exists",
    ),
    "report.baseline": Writer(
        words="report.baseline kept --run TREE/run",
        prepare=run_of,
        already="is there already",
        differs=("baselines/kept/baseline.json",),
    ),
    "results.import": Writer(
        words="results.import TREE/a.log --run TREE/study --network resnet-50 --devices 32 "
        "--hosts 4 --batch-per-device 256 --description mine",
        prepare=log_of,
        already="has this log already",
        differs=("study/environment.json", "study/records.jsonl", "study/.lock"),
    ),
    "results.rm": Writer(words="results.rm TREE/run --yes", prepare=run_of, already="no such run"),
    "data.list": Writer(words="data.list TREE/x TREE/images --chunks 2", prepare=images_of),
    "data.pack": Writer(
        words="data.pack TREE/x TREE/images --out TREE/shards --max-bad 50 --processes 1",
        prepare=lists_of,
    ),
    "data.split": Writer(words="data.split TREE/images --images 2", prepare=images_of),
    "data.filter": Writer(words="data.filter TREE/images --min-images 3", prepare=images_of),
    "data.untar": Writer(words="data.untar TREE/all.tar TREE/images", prepare=tar_of),
    "data.sample": Writer(
        words="data.sample TREE/drawn --images-per-class 1", prepare=lambda _: None
    ),
    "data.to-tfrecord": Writer(words="data.to-tfrecord TREE/shards TREE/tf", prepare=shards_of),
    "data.from-tfrecord": Writer(
        words="data.from-tfrecord TREE/tf TREE/back", prepare=tfrecords_of
    ),
    "data.join-index": Writer(words="data.join-index TREE/shards TREE/all.idx", prepare=shards_of),
}


CLUSTER = Writer(
    words="practice.up --hosts 1 --home 16m --dir TREE/p",
    prepare=lambda _: None,
    already="runs already",
    differs=("p/*",),
    complete=is_up,
)


@pytest.fixture(scope="module")
def commands() -> Iterator[Commands]:
    with kills.commands("plots.check", "results.imports.record") as found:
        yield found


def snapshot(folder: Path, differs: tuple[str, ...]) -> dict[str, bytes]:
    """Return every folder, and every file with its content unless that differs.

    A large log is the same entry whether it is compressed or not.
    """
    loose = {path for pattern in differs for path in folder.glob(pattern)}
    return {
        path.relative_to(folder).as_posix().removesuffix(".gz"): b""
        if path in loose or not path.is_file()
        else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        # Multiprocessing leaves files if a process is killed; logs of a killed try are kept.
        if not re.match("tmp/pymp-|.*/logs/.*/try-", path.relative_to(folder).as_posix())
    }


class Trial:
    """A writer on a tree that is made anew for each try."""

    def __init__(self, commands: Commands, writer: Writer, folder: Path) -> None:
        self._commands, self._writer = commands, writer
        self._before, self._tree = folder / "before", folder / "tree"
        (self._before / "tmp").mkdir(parents=True)
        self._words = tuple(writer.words.replace("TREE", str(self._tree)).split())
        # Prepared by its later name, which some files have in them.
        self._before.rename(self._tree)
        writer.prepare(self._tree)
        self._tree.rename(self._before)

    def fresh(self) -> None:
        shutil.rmtree(self._tree, ignore_errors=True)
        shutil.copytree(self._before, self._tree, symlinks=True)

    def run(self, fault: str = KILL, step: int = 0) -> Done:
        tried = Try(words=self._words, tree=str(self._tree), fault=fault, step=step)
        return self._commands.run(tried)

    def found(self) -> dict[str, bytes]:
        if self._writer.complete:
            self._writer.complete(self._commands, self._tree)
        return snapshot(self._tree, self._writer.differs)


def tried(commands: Commands, writer: Writer, folder: Path, count: int) -> None:
    trial, draw = Trial(commands, writer, folder), random.Random(_SEED)
    trial.fresh()
    whole = trial.run()
    assert whole.code == 0, whole.printed
    peace = trial.found()
    assert not [name for name in peace if name.endswith(".part") or name.startswith("tmp/")]
    tries = [
        (fault, number)
        for fault in FAULTS
        for number, step in enumerate(whole.steps, 1)
        if can_fail(step, fault)
    ]
    for fault, number in draw.sample(tries, min(count, len(tries))):
        where = f"{fault} before step {number}, {whole.steps[number - 1]}"
        trial.fresh()
        ended = trial.run(fault, number)
        assert "Traceback" not in ended.printed, f"{where}: {ended.printed}"
        if ended.code == 0:  # a job has as many steps as chance gives it; a log can stay as it is
            assert not ended.steps[number - 1 :] or "/logs/" in ended.steps[number - 1][1], where
        else:
            assert ended.code == (-9 if fault == KILL else 2), f"{where}: {ended.code}"
        again = trial.run()
        assert "Traceback" not in again.printed, f"{where}: {again.printed}"
        complete = again.code == 0 or writer.already in again.printed
        assert complete, f"{where}: {again.code} {again.printed}"
        assert trial.found() == peace, where


@pytest.fixture
def short() -> Iterator[Path]:
    """Return a folder with a short path, so that socket paths below it are valid."""
    with tempfile.TemporaryDirectory(prefix="k") as folder:
        yield Path(folder)


@pytest.mark.parametrize("name", [name for name in WRITERS if name not in LONG] + slow(*LONG))
def test_a_writer_that_is_ended_early_is_completed_by_the_same_command(
    name: str, commands: Commands, short: Path
) -> None:
    tried(commands, WRITERS[name], short, WRITERS[name].quick)


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITERS)
def test_a_writer_that_is_ended_early_at_many_steps_is_completed_by_the_same_command(
    name: str, commands: Commands, short: Path
) -> None:
    tried(commands, WRITERS[name], short, _SLOW)


@pytest.mark.cluster
@pytest.mark.slow
def test_a_cluster_whose_start_is_ended_early_is_started_by_the_same_command(
    commands: Commands, short: Path, able: None
) -> None:
    tried(commands, CLUSTER, short, _SLOW // 2)
