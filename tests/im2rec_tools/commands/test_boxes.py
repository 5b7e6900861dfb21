"""Bounding boxes from ILSVRC's XML to lists, shards and TFRecords, and back."""

from pathlib import Path

import pytest

from im2rec_tools.declarations import (
    FROM_TFRECORD,
    INFO,
    LIST,
    PACK,
    PREPARE,
    TO_TFRECORD,
    VAL_TREE,
)
from im2rec_tools.errors import DataError
from im2rec_tools.formats import lists, tfrecord
from im2rec_tools.formats.boxes import Box, boxes_of
from im2rec_tools.formats.recordio import records, unpack
from im2rec_tools.im2rec import main as im2rec
from im2rec_tools.packing.verify import verify
from tests.support.data.datasets import annotation
from tests.support.data.trees import jpeg, lines, tree

# Of cat/0.jpg and dog/1.jpg; the trees' images are 90 pixels wide and 70 + number high.
CAT = Box(label=0, xmin=0.1, ymin=0.2, xmax=0.5, ymax=1)
DOGS = (
    Box(label=1, xmin=0, ymin=0, xmax=1, ymax=0.5),
    Box(label=0, xmin=0.5, ymin=0.5, xmax=0.75, ymax=1),
)


def annotated(tmp_path: Path) -> tuple[Path, Path]:
    """Return a tree of 5 images, 2 of them with boxes, and their annotations."""
    root, xml = tree(tmp_path / "t", {"cat": 3, "dog": 2}), tmp_path / "xml"
    annotation(xml / "cat" / "0.xml", (90, 70), ("cat", 9, 14, 45, 70))
    dogs = (("dog", -3, 0, 180, 71), ("cat", 90, 71, 135, 142))  # of twice the image's size
    annotation(xml / "dog" / "1.xml", (180, 142), *dogs)
    (xml / "cat" / "1.xml").write_text("<!DOCTYPE a><a/>")
    return root, xml


def listed(tmp_path: Path) -> Path:
    root, xml = annotated(tmp_path)
    given = {"prefix": str(tmp_path / "a"), "root": str(root), "boxes": str(xml)}
    assert lines(LIST.planned({**given, "no_shuffle": True})) == [
        "3 boxes of 2 images; 3 images have none",
        "1 boxes clipped at the edges of their images",
        f"1 annotations rejected, see {tmp_path}/a_boxes.bad.tsv",
        f"2 images of 2 classes in 1 lists: {tmp_path}/a.lst, {tmp_path}/a_labels.txt",
    ]
    assert "document type" in (tmp_path / "a_boxes.bad.tsv").read_text()
    return root


def packed(tmp_path: Path) -> Path:
    root = listed(tmp_path)
    lines(PACK.planned({"prefix": str(tmp_path / "a"), "root": str(root)}))
    return tmp_path / "a.rec"


def boxes_in(rec: Path) -> dict[int, tuple[Box, ...]]:
    found = [unpack(payload, "") for _, payload in records(rec)]
    return {one.index: boxes_of([round(value, 6) for value in one.labels]) for one in found}


def test_the_list_has_the_images_with_boxes_in_the_form_of_detection(tmp_path: Path) -> None:
    listed(tmp_path)
    entries = list(lists.read(tmp_path / "a.lst"))
    assert [one.path for one in entries] == ["cat/0.jpg", "dog/1.jpg"]
    assert entries[0].labels == (2, 5, 0, 0.1, 0.2, 0.5, 1)
    assert entries[1].labels == (2, 5, 1, 0, 0, 1, 0.5, 0, 0.5, 0.5, 0.75, 1)


def test_records_keep_the_boxes_of_the_annotations(tmp_path: Path) -> None:
    rec = packed(tmp_path)
    assert boxes_in(rec) == {0: (CAT,), 1: DOGS}
    assert verify(rec).labels == {(0.0,): 1, (0.0, 1.0): 1}
    assert "images per label: 1 (label 0/1) to 1 (label 0)" in lines(
        INFO.planned({"path": str(rec)})
    )


@pytest.mark.mxnet
@pytest.mark.filterwarnings("ignore:Please import:DeprecationWarning")
@pytest.mark.parametrize("program", ["pack", "im2rec --pack-label"])
def test_mxnets_detection_iterator_reads_the_boxes(tmp_path: Path, program: str) -> None:
    from bench.training.mxnet_shim import mx  # noqa: PLC0415

    if program == "pack":
        packed(tmp_path)
    else:
        root = listed(tmp_path)
        assert im2rec([str(tmp_path / "a"), str(root), "--pack-label"]) == 0
    given = {"path_imgrec": str(tmp_path / "a.rec"), "path_imgidx": str(tmp_path / "a.idx")}
    reader = mx.image.ImageDetIter(batch_size=2, data_shape=(3, 64, 64), **given)
    label = next(reader).label[0].asnumpy()
    found = [
        [[round(float(v), 6) for v in row] for row in one if row[0] >= 0] for one in label.tolist()
    ]
    assert found == [
        [[0, 0.1, 0.2, 0.5, 1]],
        [[1, 0, 0, 1, 0.5], [0, 0.5, 0.5, 0.75, 1]],
    ]


def rounded(boxes: tuple[Box, ...], offset: int = 0) -> list[tuple[float, ...]]:
    values = [(one.label - offset, one.xmin, one.ymin, one.xmax, one.ymax) for one in boxes]
    return [tuple(round(value, 6) for value in one) for one in values]


def test_boxes_survive_tfrecords_and_the_way_back(tmp_path: Path) -> None:
    rec = packed(tmp_path)
    lines(TO_TFRECORD.planned({"path": str(rec), "out": str(tmp_path / "tf")}))
    (data, other) = tfrecord.records(tmp_path / "tf" / "train-00000-of-00001")
    assert tfrecord.parse(other, "").label == 2  # that of its first box
    assert rounded(tfrecord.parse_boxes(data, "", 1), 1) == rounded((CAT,))
    assert rounded(tfrecord.parse_boxes(other, "", 2), 1) == rounded(DOGS)
    given = {"path": str(tmp_path / "tf"), "out": str(tmp_path / "back")}
    lines(FROM_TFRECORD.planned({**given, "boxes": True}))
    assert boxes_in(tmp_path / "back" / "train.rec") == boxes_in(rec)
    with pytest.raises(DataError, match=r"not from .* with --label-offset 1\. Move it away"):
        lines(FROM_TFRECORD.planned(given))


def test_shards_of_classes_get_their_boxes_by_the_names_in_the_lists(tmp_path: Path) -> None:
    root, xml = annotated(tmp_path)
    (tmp_path / "lists").mkdir()
    prefix, out = tmp_path / "lists" / "b", tmp_path / "shards"
    lines(PACK.planned({"prefix": str(prefix), "root": str(root), "out": str(out)}))
    given = {"path": str(out), "out": str(tmp_path / "tf"), "boxes": str(xml)}
    with pytest.raises(DataError, match="--boxes: expected --labels FILE, got none"):
        TO_TFRECORD.planned(given)
    said = lines(TO_TFRECORD.planned({**given, "labels": f"{prefix}_labels.txt"}))
    assert said[1:3] == [
        "3 boxes of 2 images; 3 images have none",
        "1 boxes clipped at the edges of their images",
    ]
    found = list(tfrecord.records(tmp_path / "tf" / "train-00000-of-00001"))
    pairs = [(tfrecord.parse(data, "").synset, tfrecord.parse_boxes(data, "", 1)) for data in found]
    kept = sorted((name, rounded(boxes, 1)) for name, boxes in pairs if boxes)
    assert kept == [("cat", rounded((CAT,))), ("dog", rounded(DOGS))]
    back = {"path": str(tmp_path / "tf"), "out": str(tmp_path / "back"), "boxes": True}
    assert lines(FROM_TFRECORD.planned(back))[-1].startswith("2 images in 1 shards")


def test_a_prepared_folder_has_its_lists_where_they_are_found(tmp_path: Path) -> None:
    root, xml = annotated(tmp_path)
    asked = {"dir": str(root), "val_per_class": "0", "train_shards": "1", "min_images": "0"}
    lines(PREPARE.planned(asked))
    given = {"path": str(tmp_path / "t_rec" / "train"), "out": str(tmp_path / "tf")}
    given |= {"boxes": str(xml), "labels": str(tmp_path / "t_rec" / "labels.txt")}
    assert lines(TO_TFRECORD.planned(given))[1] == "3 boxes of 2 images; 3 images have none"


def test_a_list_that_is_not_of_the_shard_is_rejected(tmp_path: Path) -> None:
    root, xml = annotated(tmp_path)
    lines(PACK.planned({"prefix": str(tmp_path / "b"), "root": str(root)}))
    text = (tmp_path / "b.lst").read_text()
    (tmp_path / "b.lst").write_text(text.replace("cat/0", "cat/2"))
    given = {"path": str(tmp_path / "b.rec"), "out": str(tmp_path / "tf"), "boxes": str(xml)}
    with pytest.raises(DataError, match=r"b\.lst: expected the list that .*b\.rec was packed from"):
        lines(TO_TFRECORD.planned({**given, "labels": str(tmp_path / "b_labels.txt")}))


def test_fields_that_do_not_match_are_rejected_by_record(tmp_path: Path) -> None:
    example = tfrecord.Example(image=jpeg(70, 70), label=1, height=70, width=70)
    message = tfrecord.example_class()()
    message.ParseFromString(tfrecord.emit(example))
    message.features.feature["image/object/bbox/xmin"].float_list.value.extend([0.1, 0.2])
    path = tmp_path / "train-00000-of-00001"
    path.write_bytes(tfrecord.frame(message.SerializeToString()))
    given = {"path": str(path), "out": str(tmp_path / "back")}
    with pytest.raises(DataError, match=r"record 0: image/object/bbox/label: expected one value"):
        lines(FROM_TFRECORD.planned({**given, "boxes": True}))
    lines(FROM_TFRECORD.planned(given))  # without boxes they do not matter


def test_validation_images_find_their_class_in_the_annotations(tmp_path: Path) -> None:
    root, xml = tmp_path / "val", tmp_path / "xml"
    root.mkdir()
    for name, synset in (("a", "n01"), ("b", "n02")):
        (root / f"{name}.JPEG").write_bytes(jpeg(70, 70))
        annotation(xml / f"{name}.xml", (70, 70), (synset, 1, 1, 9, 9), (synset, 5, 5, 20, 20))
    given = {"root": str(root), "synsets": str(xml), "classes": "2"}
    assert lines(VAL_TREE.planned(given)) == [f"2 images in 2 class folders of {root}"]
    assert (root / "n01" / "a.JPEG").is_file()
    assert (root / "n02" / "b.JPEG").is_file()
    annotation(xml / "b.xml", (70, 70), ("n01", 1, 1, 9, 9), ("../x", 5, 5, 20, 20))
    with pytest.raises(
        DataError, match=r"b\.xml: expected boxes of one class, got '\.\./x', 'n01'"
    ):
        VAL_TREE.planned(given)
    annotation(xml / "b.xml", (70, 70), ("../x", 5, 5, 20, 20))
    with pytest.raises(DataError, match=r"expected boxes of one class, got '\.\./x'"):
        VAL_TREE.planned(given)
