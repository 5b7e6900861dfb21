"""Every data command by both names: fab data.NAME, python -m im2rec_tools NAME."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from im2rec_tools.__main__ import main
from im2rec_tools.cli import Option
from im2rec_tools.declarations import COMMANDS
from tests.support.data.datasets import tar_of_tars, validation
from tests.support.data.trees import lines, made, snapshot, tree, wanted
from tests.support.paths import ROOT
from tests.support.programs import kills
from tests.support.programs.kills import Done, Try

pytestmark = pytest.mark.program
Fab = Callable[..., Done]


def program(name: str, *args: str) -> "subprocess.CompletedProcess[str]":
    package = ["im2rec_tools.im2rec"] if name == "im2rec" else ["im2rec_tools", name]
    command = [sys.executable, "-m", *package, *args]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


Captured = pytest.CaptureFixture[str]


def called(capfd: Captured, *args: str) -> tuple[int, str, str]:
    """Return exit code and output of python -m im2rec_tools, run in this process."""
    capfd.readouterr()
    try:
        code = main(args)
    except SystemExit as ended:
        code = int(ended.code or 0)
    return code, *capfd.readouterr()


@pytest.fixture(scope="module")
def fab() -> Iterator[Fab]:
    """Run fab data.NAME in a process that has imported it."""
    with kills.commands() as commands, tempfile.TemporaryDirectory(prefix="k") as folder:
        Path(folder, "tmp").mkdir()
        yield lambda name, *args: commands.run(Try(words=(f"data.{name}", *args), tree=folder))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prepare an input for each command."""
    folder = tmp_path_factory.mktemp("prepared")
    tar_of_tars(folder / "a.tar", tree(folder / "t", {"cat": 6, "dog": 3}))
    made(tree(folder / "u", {"cat": 6, "dog": 5}), wanted(val=1))
    validation(folder / "val", 2)
    (folder / "synsets.txt").write_text("cat\ndog\n")
    rec, out = folder / "u_rec" / "train", folder / "tf"
    lines(COMMANDS["to-tfrecord"].planned({"path": str(rec), "out": str(out)}))
    lines(COMMANDS["to-webdataset"].planned({"path": str(rec), "out": str(folder / "wd")}))
    return folder


def arguments(folder: Path) -> dict[str, list[str]]:
    """Return each command's words in a copy of the inputs."""
    root, rec = folder / "t", folder / "u_rec" / "train"
    return {
        "fetch": [f"file://{rec}/", f"{folder}/fetched"],
        "upload": [str(rec), f"file://{folder}/store/"],
        "partition": [str(root), f"{folder}/parts"],
        "untar": [f"{folder}/a.tar", f"{folder}/full"],
        "val-tree": [f"{folder}/val", f"{folder}/synsets.txt", "--classes", "2"],
        "filter": [str(root), "--min-images", "4"],
        "split": [str(root), "--images", "2"],
        "list": [f"{folder}/lists/x", str(root)],
        "pack": [f"{folder}/packed/x", str(root)],
        "verify": [str(rec)],
        "shard": [str(rec), "2", "1"],
        "to-tfrecord": [str(rec), f"{folder}/tf2"],
        "from-tfrecord": [f"{folder}/tf", f"{folder}/back"],
        "to-webdataset": [str(rec), f"{folder}/wd2"],
        "from-webdataset": [f"{folder}/wd", f"{folder}/wdback"],
        "sample": [f"{folder}/new", "--images-per-class", "1"],
        "prepare": [str(root), "--val-per-class", "1", "--train-shards", "2"],
        "info": [str(rec)],
        "join-index": [str(rec), f"{folder}/all.idx"],
    }


TOTALS = {
    "fetch": "6 files, ",
    "upload": "6 files, ",
    "partition": "9 images of 2 classes in ",
    "to-webdataset": "9 images in 2 tar files, ",
    "from-webdataset": "9 images in 2 shards, ",
    "untar": "9 files, 2 classes unpacked to ",
    "val-tree": "2 images in 2 class folders of ",
    "filter": "1 classes with 3 images moved to ",
    "split": "4 validation images of 2 classes in ",
    "list": "9 images of 2 classes in 1 lists: ",
    "pack": "9 images in 1 shards, ",
    "verify": "9 images of 2 labels in 2 shards, ",
    "shard": "1 of 2 shards, train_1.rec to train_1.rec: ",
    "to-tfrecord": "9 images in 2 TFRecord files, ",
    "from-tfrecord": "9 images in 2 shards, ",
    "sample": "10 images of 10 classes in ",
    "prepare": "9 images in 3 shards, ",
    "info": "9 images of 2 labels in 2 shards, ",
    "join-index": "9 records of 2 shards in ",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_dry_run_says_and_changes_nothing_and_a_run_ends_with_totals(
    tmp_path: Path, prepared: Path, fab: Fab, name: str, capfd: Captured
) -> None:
    folder = Path(shutil.copytree(prepared, tmp_path / "own"))
    args = arguments(folder)[name]
    before = snapshot(folder)
    code, dry, errors = called(capfd, name, *args, "--dry-run")
    assert (code, errors) == (0, "")
    assert dry.startswith("would ") or "would " in dry
    assert snapshot(folder) == before
    assert fab(name, *args, "--dry-run").printed == dry
    if name == "pack":
        done = program(name, *args, "--dry-run")
        assert (done.returncode, done.stdout, done.stderr) == (0, dry, "")
    assert snapshot(folder) == before
    ran = fab(name, *args)
    assert (ran.code, "Traceback" in ran.printed) == (0, False)
    printed = ran.printed.splitlines()
    assert any(line.startswith(TOTALS[name]) for line in printed[-1 if name != "prepare" else 0 :])
    assert (snapshot(folder) != before) == (name not in {"verify", "info"})
    again = fab(name, *args)
    assert (again.code, "Traceback" in again.printed) == (0, False)


@pytest.mark.parametrize("name", COMMANDS)
def test_nonsense_is_one_line_with_exit_code_2(tmp_path: Path, fab: Fab, name: str) -> None:
    places = [one.name for one in COMMANDS[name].options if one.default is None]
    nonsense = [str(tmp_path / "none" / place) for place in places]
    if name == "sample":
        (tmp_path / "none").write_text("a file")
    said = fab(name, *nonsense)
    assert said.code == 2, said.printed
    assert said.printed.startswith("error: ")
    assert len(said.printed.splitlines()) == 1
    if name in {"pack", "sample"}:
        done = program(name, *nonsense)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", said.printed)


@pytest.mark.parametrize("name", [*COMMANDS, "im2rec"])
def test_help_names_every_option(name: str, capfd: Captured) -> None:
    said = program(name, "--help").stdout if name == "im2rec" else called(capfd, name, "--help")[1]
    if name != "im2rec":
        for option in COMMANDS[name].options:
            assert _shown(option) in said
    assert "--dry-run" in said


@pytest.mark.parametrize("name", [name for name in COMMANDS if "-" in name])
def test_a_program_is_called_with_an_underscore_too(name: str, capfd: Captured) -> None:
    assert called(capfd, name.replace("-", "_"), "--help") == called(capfd, name, "--help")


def test_a_name_that_is_no_command_lists_those_there_are() -> None:
    done = program("pak")
    assert done.returncode == 2
    assert done.stderr.startswith("error: command: expected one of fetch, upload, ")
    assert len(done.stderr.splitlines()) == 1
    said = program("--help").stdout
    assert all(f"  {name} " in said for name in COMMANDS)


def _shown(option: Option) -> str:
    if option.default is not None:
        return f"--{option.name}"
    return option.metavar if option.many else option.name.upper()
