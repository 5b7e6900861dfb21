"""Packing lists into shards: content, skipped images, fatal errors."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from im2rec_tools.commands.arguments import allowed_bad
from im2rec_tools.declarations import PACK
from im2rec_tools.errors import DataError
from im2rec_tools.formats import lists
from im2rec_tools.formats.lists import Entry
from im2rec_tools.formats.recordio import headers, read_index, records, unpack
from im2rec_tools.packing import manifest
from tests.support.data.datasets import entries_of, listed, pack
from tests.support.data.trees import encoded, jpeg, lines, tree

pytestmark = pytest.mark.program


def hostile(root: Path) -> dict[str, bool]:
    """Make a tree of unusual files; return whether each can be packed."""
    folder = tree(root, {"cat": 40}) / "cat"
    for file in folder.iterdir():
        file.rename(folder / f"good {file.name}")
    (folder / "empty.jpg").touch()
    (folder / "cut.jpg").write_bytes(jpeg(100, 120)[:-300])
    (folder / "text.jpg").write_text("hello")
    (folder / "thin.png").write_bytes(encoded(".png", np.zeros((500, 1, 3), np.uint8)))
    (folder / "wide.jpg").write_bytes(jpeg(100, 20_000))
    (folder / "gone.jpg").symlink_to(root / "nothing")
    (folder / "self.jpg").symlink_to(folder / "self.jpg")
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe.jpg")
    (folder / "secret.jpg").write_bytes(jpeg(90, 90))
    (folder / "secret.jpg").chmod(0)
    can_read = os.access(folder / "secret.jpg", os.R_OK)
    good = {"thin.png": True, "wide.jpg": True, "secret.jpg": can_read}
    bad = ("empty.jpg", "cut.jpg", "text.jpg")
    return {**good, **dict.fromkeys(bad, False)}


def test_hostile_images_are_left_out_with_their_reasons(tmp_path: Path) -> None:
    fates = hostile(tmp_path / "t")
    plan = PACK.planned(
        {"prefix": str(tmp_path / "x"), "root": str(tmp_path / "t"), "max_bad": "50"}
    )
    said = lines(plan)
    left_out = sorted(f"cat/{name}" for name, good in fates.items() if not good)
    rows = (tmp_path / "x.bad.tsv").read_text().splitlines()
    assert sorted(line.split("\t")[1] for line in rows) == left_out
    assert all(line.split("\t")[2] for line in rows)
    _, first, why = rows[0].split("\t")
    assert any(
        f"skipped, the first {first} ({why}), see {tmp_path}/x.bad.tsv" in one for one in said
    )
    packed = 40 + sum(fates.values())
    assert sum(1 for _ in headers(tmp_path / "x.rec")) == packed
    assert said[-1].startswith(f"{packed} images in 1 shards, ")
    assert f"{len(left_out)} bad" in said[-1]


def test_too_many_bad_images_are_a_failure_that_keeps_what_is_packed(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 9})
    for name in ("text.jpg", "more.jpg"):
        (root / "cat" / name).write_text("hello")
    given = {"prefix": str(tmp_path / "x"), "root": str(root)}
    with pytest.raises(
        DataError, match=r"2 bad: .* than --max-bad 0\.1 % allows \(1\).* --max-bad 19$"
    ):
        lines(PACK.planned(given))
    before = (tmp_path / "x.rec").stat().st_mtime_ns
    assert "2 bad" in lines(PACK.planned({**given, "max_bad": "19 %"}))[-1]
    assert (tmp_path / "x.rec").stat().st_mtime_ns == before


def test_one_bad_image_is_packed_around_unless_none_is_allowed(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 9})
    (root / "cat" / "text.jpg").write_text("hello")
    given = {"prefix": str(tmp_path / "x"), "root": str(root)}
    assert "1 bad" in lines(PACK.planned(given))[-1]
    with pytest.raises(DataError, match=r"--max-bad 0 % allows \(0\).* --max-bad 10$"):
        lines(PACK.planned({**given, "max_bad": "0"}))


@pytest.mark.parametrize(
    ("total", "share", "allowed"),
    [(201, 0.001, 1), (1000, 0.001, 1), (1001, 0.001, 2), (100, 0.07, 7), (9, 0, 0), (9, 1, 9)],
)
def test_the_share_of_bad_images_is_rounded_up(total: int, share: float, allowed: int) -> None:
    assert allowed_bad(total, share) == allowed


def test_a_shard_without_a_readable_image_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "a.jpg").write_text("hello")
    lst = listed(tmp_path, entries_of(tmp_path))
    with pytest.raises(
        DataError, match=r"expected readable images, got none; the first: cat/a\.jpg: not an im"
    ):
        pack(lst, tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_same_list_makes_the_same_bytes_with_any_number_of_processes(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 70})
    (root / "cat" / "bad.jpg").touch()
    shards = []
    for processes in (1, 2, 5):
        given = {"prefix": f"{tmp_path}/{processes}/x", "root": str(root), "max_bad": "10"}
        lines(PACK.planned({**given, "processes": str(processes), "chunks": "3"}))
        names = [f"x_{n}.{end}" for n in range(3) for end in ("rec", "idx", "lst")]
        shards.append([(tmp_path / str(processes) / name).read_bytes() for name in names])
    assert shards[0] == shards[1] == shards[2]


labels = st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=5)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(
            labels,
            st.text(st.characters(codec="utf-8", exclude_characters="/\\\0"), min_size=1).map(
                lambda text: "".join(c for c in text if c.isprintable())[:40]
            ),
        ),
        min_size=1,
        max_size=8,
        unique_by=lambda pair: pair[1],
    )
)
def test_any_tree_with_any_labels_comes_back(
    tmp_path_factory: pytest.TempPathFactory, images: list[tuple[list[float], str]]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    entries = []
    for number, (values, name) in enumerate(images):
        path = f"d{number % 2}/{number}{name}.jpg"
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(jpeg(40 + number, 50, number))
        entries.append(Entry(index=number * 7, labels=tuple(values), path=path))
    rec = pack(listed(folder, entries), folder, folder / "out", keep_bytes="small")
    read = list(lists.read(folder / "x.lst"))
    found = [unpack(payload, "here") for _, payload in records(rec)]
    assert [record.index for record in found] == [entry.index for entry in entries]
    for record, entry in zip(found, read, strict=True):
        assert record.labels == pytest.approx(entry.labels, rel=1e-6, abs=1e-6)
        assert record.image == (folder / entry.path).read_bytes()


def test_a_changed_recipe_or_list_is_noticed_and_not_mixed(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 5})
    lst = listed(tmp_path, entries_of(root))
    rec = pack(lst, root, tmp_path, short_edge=64)
    before = rec.read_bytes()
    with pytest.raises(DataError, match=r"other settings \(short_edge 64, now 32\)\. Pack into"):
        pack(lst, root, tmp_path, short_edge=32)
    lst.write_text(lst.read_text().replace("1.000000", "2.000000"))
    with pytest.raises(DataError, match="the list changed"):
        pack(lst, root, tmp_path, short_edge=64)
    rec.with_suffix(".json").unlink()
    with pytest.raises(DataError, match="without a manifest"):
        pack(lst, root, tmp_path, short_edge=64)
    assert rec.read_bytes() == before


def test_the_manifest_says_what_is_there(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 5})
    rec = pack(listed(tmp_path, entries_of(root)), root, tmp_path, short_edge=64)
    made = manifest.read(rec)
    assert made is not None
    assert (made.images, made.bad, made.bytes) == (5, 0, rec.stat().st_size)
    assert made.recipe["short_edge"] == 64
    assert set(made.versions) == {"simplejpeg", "opencv-python-headless"}
    assert [key for key, _ in read_index(rec.with_suffix(".idx"))] == [0, 1, 2, 3, 4]
    old = json.loads(rec.with_suffix(".json").read_text()) | {"schema": 1}
    rec.with_suffix(".json").write_text(json.dumps(old))
    with pytest.raises(DataError, match="expected schema 2, got 1"):
        manifest.read(rec)
