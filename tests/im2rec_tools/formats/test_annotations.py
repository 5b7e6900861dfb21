"""Bounding boxes: hostile and odd XML, and the labels of detection records."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from im2rec_tools.errors import DataError
from im2rec_tools.formats.annotations import AnnotationFolder, NamedBox, parse, read, same_shape
from im2rec_tools.formats.boxes import Box, boxes_of, class_labels, clip, detection_labels
from tests.support.data.datasets import annotation

pytestmark = pytest.mark.pythons

ENTITIES = """<!DOCTYPE a [<!ENTITY x "lol"><!ENTITY y "&x;&x;&x;&x;&x;&x;&x;&x;">]>
<annotation><size><width>&y;</width></size></annotation>"""
OUTSIDE = """<!DOCTYPE a SYSTEM "file:///etc/passwd" [<!ENTITY x SYSTEM "file:///etc/passwd">]>
<annotation><size><width>&x;</width></size></annotation>"""
EDGES = st.floats(0, 1, width=32)


def folder(tmp_path: Path, *boxes: tuple[str, float, float, float, float]) -> AnnotationFolder:
    annotation(tmp_path / "xml" / "cat" / "1.xml", (200, 100), *boxes)
    return AnnotationFolder(tmp_path / "xml", {"cat": 0, "dog": 1})


def test_an_annotation_has_the_size_and_the_objects_of_its_image(tmp_path: Path) -> None:
    path = annotation(tmp_path / "a.xml", (500, 375), ("n01", 1, 2, 30, 40), ("n02", 0.5, 0, 9, 9))
    found = read(path)
    assert (found.width, found.height) == (500, 375)
    assert found.objects == (
        NamedBox(name="n01", edges=(1, 2, 30, 40)),
        NamedBox(name="n02", edges=(0.5, 0, 9, 9)),
    )


@pytest.mark.parametrize("text", [ENTITIES, OUTSIDE, "<!DOCTYPE annotation><annotation/>"])
def test_a_document_type_and_so_every_entity_is_rejected(text: str) -> None:
    with pytest.raises(DataError, match=r"^expected XML without a document type, got one"):
        parse(text.encode())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected an annotation, got no XML"),
        ("<annotation>", "expected an annotation, got no XML"),
        ("<annotation>&x;</annotation>", "got no XML"),
        ("<?xml version='1.0' encoding='nonsense'?><annotation/>", "got no XML"),
        ("<a>" * 50_000, "at most 16 nested elements"),
        ("<annotation/>", r"size/width: expected a number of pixels, got ''"),
        (
            "<annotation><size><width>0</width><height>9</height></size></annotation>",
            "size: expected at least 1 x 1 pixel, got 0 x 9",
        ),
        (
            "<annotation><size><width>nan</width></size></annotation>",
            "size/width: expected a number of pixels, got 'nan'",
        ),
        (
            "<annotation><size><width>9</width><height>9</height></size>"
            "<object><bndbox><xmin>1e99</xmin></bndbox></object></annotation>",
            "bndbox/xmin: expected a number of pixels, got '1e99'",
        ),
    ],
)
def test_other_xml_is_rejected_in_one_line(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        parse(text.encode())
    assert "\n" not in str(caught.value)


def test_a_large_file_and_a_pipe_are_not_read(tmp_path: Path) -> None:
    large = tmp_path / "large.xml"
    large.write_bytes(b" " * (1 << 20) + b"<annotation/>")
    with pytest.raises(DataError, match="expected at most 1 MiB"):
        read(large)
    os.mkfifo(tmp_path / "pipe.xml")
    with pytest.raises(DataError, match="not a regular file"):
        read(tmp_path / "pipe.xml")


def test_boxes_are_fractions_of_the_size_in_the_file(tmp_path: Path) -> None:
    annotations = folder(tmp_path, ("dog", 20, 25, 100, 100))
    (box,) = annotations.boxes("cat/1.JPEG", (100, 50))  # scaled to a half
    assert box == Box(label=1, xmin=0.1, ymin=0.25, xmax=0.5, ymax=1)


def test_boxes_outside_the_image_are_clipped_or_skipped_and_counted(tmp_path: Path) -> None:
    annotations = folder(
        tmp_path,
        ("cat", -5, 0, 100, 120),  # clipped
        ("cat", 300, 0, 400, 50),  # outside
        ("cat", 60, 50, 40, 90),  # reversed
        ("bird", 1, 1, 9, 9),  # no such class
    )
    assert annotations.boxes("cat/1.JPEG", (200, 100)) == (
        Box(label=0, xmin=0, ymin=0, xmax=0.5, ymax=1),
    )
    found = annotations.counts
    assert (found.boxes, found.clipped, found.empty, found.unknown) == (1, 1, 2, 1)


def test_a_size_of_other_proportions_and_a_rotated_image_are_rejected(tmp_path: Path) -> None:
    annotations = folder(tmp_path, ("cat", 1, 1, 9, 9))
    place = str(tmp_path / "xml" / "cat" / "1.xml")
    assert annotations.boxes("cat/1.JPEG", (100, 200)) == ()
    wanted = "size: expected the proportions of the image (100 x 200), got 200 x 100"
    assert annotations.counts.bad == {place: wanted}
    assert annotations.boxes("cat/1.JPEG", (200, 100), 3) == ()
    wanted = "packing rotates the image (EXIF orientation 3)"
    assert annotations.counts.bad == {place: wanted}


def test_an_image_finds_its_annotation_in_the_folder_only(tmp_path: Path) -> None:
    annotations = folder(tmp_path, ("cat", 1, 1, 9, 9))
    inside = tmp_path / "xml" / "cat" / "1.xml"
    annotation(tmp_path / "secret.xml", (9, 9))
    assert annotations.find("cat/1.JPEG") == annotations.find("/a/b/cat/1.png") == inside
    assert annotations.find("../secret.JPEG") is None
    assert annotations.find("dog/1.JPEG") is None
    flat = annotation(tmp_path / "xml" / "2.xml", (9, 9))
    assert annotations.find("dog/2.JPEG") == flat
    with pytest.raises(DataError, match="no such folder"):
        AnnotationFolder(tmp_path / "none", {})


@given(st.integers(1, 5000), st.integers(1, 5000), st.integers(1, 600))
def test_a_picture_keeps_its_shape_when_it_is_resized(width: int, height: int, edge: int) -> None:
    short = min(width, height)
    assert same_shape((width, height), (width * edge // short, height * edge // short))


def test_another_picture_has_another_shape() -> None:
    assert not same_shape((500, 375), (375, 500))
    assert not same_shape((500, 375), (500, 400))


@given(st.lists(st.tuples(st.integers(0, 2**24), EDGES, EDGES, EDGES, EDGES), max_size=5))
def test_boxes_survive_the_labels_of_a_record(
    found: list[tuple[int, float, float, float, float]],
) -> None:
    boxes = [
        inside
        for label, xmin, ymin, xmax, ymax in found
        if (inside := clip(Box(label=label, xmin=xmin, ymin=ymin, xmax=xmax, ymax=ymax)))
    ]
    labels = detection_labels(boxes)
    assert labels[:2] == (2, 5)
    assert boxes_of(labels) == tuple(boxes)
    assert class_labels(labels) == (tuple(sorted({float(b.label) for b in boxes})) or labels)


@pytest.mark.parametrize(
    "labels",
    [(), (3.0,), (2.0, 5.0), (2, 5, 1, 0, 0, 1), (2, 5, 0.5, 0, 0, 1, 1), (1.5,) * 7, (9.0,) * 9],
)
def test_other_labels_are_no_boxes(labels: tuple[float, ...]) -> None:
    assert boxes_of(labels) == ()
    assert class_labels(labels) == labels


def test_longer_headers_and_objects_are_read_as_mxnet_does() -> None:
    labels = (4, 6, 640, 480, 1, 0, 0, 0.5, 0.5, 7, 2, 0.9, 0, 0.1, 1, 7)
    assert boxes_of(labels) == (Box(label=1, xmin=0, ymin=0, xmax=0.5, ymax=0.5),)
