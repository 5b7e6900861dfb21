"""Commands that move and link images: destinations, undo, rejected inputs."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from im2rec_tools.commands.trees import SplitOptions, split
from im2rec_tools.declarations import FILTER, SHARD, SPLIT, VAL_TREE
from im2rec_tools.errors import DataError
from im2rec_tools.files import lock
from im2rec_tools.formats.tree import classes, sizes
from tests.support.data.datasets import validation
from tests.support.data.trees import lines, snapshot, tree


def test_the_split_is_seeded_disjoint_and_done_once(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 9, "dog": 7})
    wanted = SplitOptions(images=2, seed=1)
    last = f"4 validation images of 2 classes in {tmp_path / 't_val'}"
    assert lines(split(root, wanted)) == [last]
    train, val = classes(root), classes(tmp_path / "t_val")
    assert {name: len(paths) for name, paths in train.items()} == {"cat": 7, "dog": 5}
    assert not set(val["cat"]) & set(train["cat"])
    assert lines(split(root, wanted)) == [last]
    assert classes(tmp_path / "t_val") == val


def test_an_interrupted_split_goes_on_where_it_was(tmp_path: Path) -> None:
    root, same = (tree(tmp_path / name, {"cat": 9}) for name in ("t", "u"))
    lines(split(same, SplitOptions(images=3)))
    chosen = classes(tmp_path / "u_val")["cat"]
    (tmp_path / "t_val" / "cat").mkdir(parents=True)
    (root / "cat" / chosen[0]).rename(tmp_path / "t_val" / "cat" / chosen[0])
    lines(split(root, SplitOptions(images=3)))
    assert classes(tmp_path / "t_val")["cat"] == chosen


def test_a_split_of_other_settings_is_refused_and_undone(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 30, "dog": 7})
    before = snapshot(root)
    lines(SPLIT.planned({"root": str(root), "images": "5"}))
    with pytest.raises(DataError, match=r"images that this split does not choose\. .*--undo"):
        SPLIT.planned({"root": str(root), "images": "5", "seed": "1"})
    said = lines(SPLIT.planned({"root": str(root), "undo": True}))
    assert said == [f"10 images moved back to {root}"]
    assert snapshot(root) == before
    assert not (tmp_path / "t_val").exists()


def test_an_interrupted_undo_goes_on(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 30, "dog": 7})
    before = snapshot(root)
    lines(split(root, SplitOptions(images=5)))
    for path in (tmp_path / "t_val" / "cat").iterdir():
        path.rename(root / "cat" / path.name)
    lines(SPLIT.planned({"root": str(root), "undo": True}))
    assert snapshot(root) == before
    assert not (tmp_path / "t_val").exists()
    (tmp_path / "t_val" / "cat").mkdir(parents=True)
    lines(split(root, SplitOptions(images=5)))
    assert sizes(tmp_path / "t_val") == {"cat": 5, "dog": 5}


def test_two_runs_in_one_folder_do_not_meet(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 30, "dog": 7})
    with lock(root), pytest.raises(DataError, match="t: another run is writing"):
        lines(split(root, SplitOptions(images=5)))
    assert sizes(root) == {"cat": 30, "dog": 7}
    lines(split(root, SplitOptions(images=5)))


def test_what_happens_to_small_classes_is_said_first(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"ant": 2, "cat": 9, "dog": 3})
    plan = SPLIT.planned({"root": str(root), "images": "3"})
    told = "2 classes have 3 images or fewer: ant (2), dog (3); they stay, without validation"
    assert next(iter(plan.says)).startswith(told)
    assert sizes(root) == {"ant": 2, "cat": 9, "dog": 3}
    with pytest.raises(
        DataError, match=r"ant \(2\), dog \(3\)\. Keep them for training with --small stay"
    ):
        SPLIT.planned({"root": str(root), "images": "3", "small": "refuse"})
    assert lines(plan)[0].startswith(told)
    assert sizes(root) == {"ant": 2, "cat": 6, "dog": 3}
    lines(SPLIT.planned({"root": str(root), "undo": True}))
    lines(SPLIT.planned({"root": str(root), "images": "3", "small": "move"}))
    assert sizes(tmp_path / "t_val") == {"ant": 2, "cat": 3, "dog": 3}
    with pytest.raises(DataError, match="expected a class with more than 50 images"):
        SPLIT.planned({"root": str(tree(tmp_path / "u", {"ant": 2}))})


@pytest.mark.parametrize(("more_than", "stays"), [(False, {"dog", "elk"}), (True, {"elk"})])
def test_classes_with_too_few_images_move(tmp_path: Path, more_than: bool, stays: set[str]) -> None:
    root = tree(tmp_path / "t", {"ant": 4, "dog": 5, "elk": 6})
    (root / "ant" / "readme.txt").write_text("goes along")
    given = {"root": str(root), "min_images": "5", "more_than": more_than}
    FILTER.planned(given)
    assert set(sizes(root)) == {"ant", "dog", "elk"}
    last = lines(FILTER.planned(given))[-1]
    assert set(sizes(root)) == stays
    assert set(sizes(tmp_path / "t_filtered")) == {"ant", "dog", "elk"} - stays
    assert (tmp_path / "t_filtered" / "ant" / "readme.txt").read_text() == "goes along"
    assert f"{len(stays)} with {5 * ('dog' in stays) + 6} stay in {root}" in last
    assert lines(FILTER.planned(given))[-1].startswith("0 classes with 0 images moved")


def test_filtering_never_empties_a_tree_or_covers_something(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"ant": 4, "dog": 5})
    with pytest.raises(DataError, match="expected a class with 500 images or more, got at most 5"):
        FILTER.planned({"root": str(root)})
    tree(tmp_path / "t_filtered", {"ant": 1})
    with pytest.raises(DataError, match="ant: already exists"):
        FILTER.planned({"root": str(root), "min_images": "5"})
    assert sizes(root) == {"ant": 4, "dog": 5}


def test_what_split_took_counts_when_classes_are_filtered_again(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"ant": 4, "dog": 6})
    lines(split(root, SplitOptions(images=2)))
    assert lines(FILTER.planned({"root": str(root), "min_images": "4"}))[-1].startswith("0 ")
    with pytest.raises(DataError, match=r"t_val/ant: .* Move its images back first"):
        FILTER.planned({"root": str(root), "min_images": "5"})


def test_validation_images_go_to_their_classes(tmp_path: Path) -> None:
    names = [f"n{random.Random(n).randrange(3):08}" for n in range(12)]
    root, synsets = validation(tmp_path / "val", 12), tmp_path / "synsets.txt"
    synsets.write_text("\n".join(names) + "\n")
    given = {"root": str(root), "synsets": str(synsets), "classes": str(len(set(names)))}
    (root / names[0]).mkdir()  # all that an interrupted run has done
    assert lines(VAL_TREE.planned(given)) == [
        f"12 images in {len(set(names))} class folders of {root}"
    ]
    for number, name in enumerate(names, 1):
        file = root / name / f"ILSVRC2012_val_{number:08}.JPEG"
        assert file.read_text() == f"image {number}"
    before = snapshot(root)
    lines(VAL_TREE.planned(given))
    # An interrupted run: an image has not moved yet.
    file.rename(root / file.name)
    lines(VAL_TREE.planned(given))
    assert snapshot(root) == before


def test_validation_images_by_name_and_with_a_training_tree(tmp_path: Path) -> None:
    root, synsets = validation(tmp_path / "val", 2), tmp_path / "synsets.txt"
    synsets.write_text("ILSVRC2012_val_00000002.JPEG cat\nILSVRC2012_val_00000001.JPEG dog\n")
    train = tree(tmp_path / "train", {"cat": 1, "dog": 1, "elk": 1})
    given = {"root": str(root), "synsets": str(synsets), "classes": "2", "train": str(train)}
    with pytest.raises(DataError, match=r"class elk: is not in .*synsets\.txt, like 1 classes"):
        VAL_TREE.planned(given)
    lines(VAL_TREE.planned({**given, "train": ""}))
    assert (root / "cat" / "ILSVRC2012_val_00000002.JPEG").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\nb\n", "expected one line per image, got 2 lines for 3 images"),
        ("a\nb\nc\n", r"expected 1000 classes, got 3"),
        ("a\nb c d\n", r"synsets\.txt:2: expected 'class' or 'image class'"),
        ("../a\nb\nc\n", r"synsets\.txt:1: expected 'class'"),
        ("", "expected one class per line"),
        ("gone.JPEG a\n", r"got 1. Set --classes"),
    ],
)
def test_synsets_that_do_not_fit_are_refused(tmp_path: Path, text: str, message: str) -> None:
    root, synsets = validation(tmp_path / "val", 3), tmp_path / "synsets.txt"
    synsets.write_text(text)
    before = snapshot(root)
    with pytest.raises(DataError, match=message):
        VAL_TREE.planned({"root": str(root), "synsets": str(synsets)})
    assert snapshot(root) == before


def test_each_worker_is_linked_its_share_as_split_dataset_does(tmp_path: Path) -> None:
    names = [f"train-{n:05}-of-01024" for n in range(1024)]
    for name in [*names, *(f"validation-{n:05}-of-00128" for n in range(128))]:
        (tmp_path / name).touch()
    seen: list[str] = []
    for index in range(16):
        given = {"dir": str(tmp_path), "total": "16", "index": str(index)}
        lines(SHARD.planned(given))
        lines(SHARD.planned(given))
        folder = tmp_path / f"worker_{index}_of_16"
        seen += sorted(link.name for link in folder.iterdir())
        assert all(link.readlink() == tmp_path / link.name for link in folder.iterdir())
    assert seen == names
    one = sorted(path.name for path in (tmp_path / "worker_1_of_16").iterdir())
    assert (one[0], one[-1], len(one)) == ("train-00064-of-01024", "train-00127-of-01024", 64)


def test_a_share_of_recordio_shards_takes_what_belongs_to_them(tmp_path: Path) -> None:
    for number in range(11):
        for ending in (".rec", ".idx", ".json"):
            (tmp_path / f"train_{number}{ending}").touch()
    for index, mine in enumerate(([0, 1, 2], [3, 4, 5, 6], [7, 8, 9, 10])):
        lines(SHARD.planned({"dir": str(tmp_path), "total": "3", "index": str(index)}))
        found = {link.name for link in (tmp_path / f"worker_{index}_of_3").iterdir()}
        assert found == {f"train_{n}{end}" for n in mine for end in (".rec", ".idx", ".json")}
    (tmp_path / "worker_0_of_3" / "mine.rec").touch()
    with pytest.raises(DataError, match=r"mine\.rec: not part of this share"):
        SHARD.planned({"dir": str(tmp_path), "total": "3", "index": "0"})


@pytest.mark.parametrize(
    ("total", "index", "message"),
    [
        ("2", "2", "INDEX: expected 0 to 1, got 2"),
        ("3", "0", "expected at least 3 shards, one per worker, got 2"),
        ("0", "0", "TOTAL: expected a whole number, 1 or more, got '0'"),
        ("2", "-1", "INDEX: expected a whole number, 0 or more, got '-1'"),
    ],
)
def test_shares_that_cannot_be_are_refused(
    tmp_path: Path, total: str, index: str, message: str
) -> None:
    for number in range(2):
        (tmp_path / f"train_{number}.rec").touch()
    with pytest.raises(DataError, match=message):
        SHARD.planned({"dir": str(tmp_path), "total": total, "index": index})
    assert not list(tmp_path.glob("worker*"))


def test_a_tree_on_a_read_only_disk_is_one_line(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"ant": 1, "dog": 5})
    script = f"mount --bind {tmp_path} {tmp_path} && mount -o remount,ro,bind {tmp_path}"
    if subprocess.run(["unshare", "-m", "sh", "-c", script], check=False).returncode:
        pytest.skip("needs root to mount a file system")
    command = f"{sys.executable} -m im2rec_tools filter {root} --min-images 2"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", f"{script} && {command}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert "Read-only file system" in done.stderr
    assert "Traceback" not in done.stderr
