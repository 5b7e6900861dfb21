"""ImageNet's TFRecord files: frames with CRC-32C, fields of the Example."""


# ruff: noqa: PLC0415 - protobuf takes long to load, and few commands need it

import shlex
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from google_crc32c import value

from im2rec_tools.errors import DataError, error_line, quoted
from im2rec_tools.formats.boxes import Box, clip

_MASK = 0xA282EAD8
_GZIP = b"\x1f\x8b"
_LABEL = "image/class/label"
_BOXES = "image/object/bbox/"
_EDGES = ("xmin", "ymin", "xmax", "ymax")
LARGEST_LABEL = 2**24  # a record's 32-bit float is exact up to here


@dataclass(frozen=True, kw_only=True)
class Example:
    """An image of ImageNet's TFRecords; label 0 is the background."""

    image: bytes
    label: int
    boxes: tuple[Box, ...] = ()
    synset: str = ""
    text: str = ""
    filename: str = ""
    height: int
    width: int
    channels: int = 3


def masked_crc(data: bytes) -> int:
    """Return the CRC-32C of the data, masked as TFRecord does."""
    crc: int = value(data)
    return ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF


def frame(data: bytes) -> bytes:
    """Return a record: length, its masked CRC, data, their masked CRC.

    All numbers are little endian.
    """
    length = struct.pack("<Q", len(data))
    head = length + struct.pack("<I", masked_crc(length))
    return head + data + struct.pack("<I", masked_crc(data))


def records(path: Path) -> Iterator[bytes]:
    """Yield the data of each record; raise DataError for a bad CRC or truncation."""
    size, offset, number = path.stat().st_size, 0, 0
    with path.open("rb") as file:
        while offset < size:
            where = f"{path}: record {number} at byte {offset} of {size}"
            head = file.read(12)
            if len(head) < 12:
                raise DataError(error_line(where, problem="truncated", fix="Copy the file again"))
            length, crc = struct.unpack("<QI", head)
            if crc != masked_crc(head[:8]):
                if not offset and head.startswith(_GZIP):
                    raise DataError(
                        error_line(
                            path,
                            expected="uncompressed TFRecords",
                            got="gzip data",
                            fix=f"Decompress the file first: {_gunzip(path)}",
                        )
                    )
                raise DataError(
                    error_line(
                        where, problem="wrong checksum of the length", fix="Copy the file again"
                    )
                )
            if length + 16 > size - offset:
                raise DataError(error_line(where, problem="truncated", fix="Copy the file again"))
            data = file.read(length)
            if struct.unpack("<I", file.read(4))[0] != masked_crc(data):
                raise DataError(
                    error_line(
                        where, problem="wrong checksum of the data", fix="Copy the file again"
                    )
                )
            yield data
            offset, number = offset + length + 16, number + 1


def _gunzip(path: Path) -> str:
    """Return a command that decompresses a file whose name does not end in .gz."""
    name = shlex.quote(str(path))
    packed = shlex.quote(f"{path}.gz")
    return f"mv {name} {packed} && gunzip {packed}"


@cache
def example_class() -> Any:
    """Return TensorFlow's Example class, built from example.proto and feature.proto."""
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass

    types = {
        "bytes": FieldDescriptorProto.TYPE_BYTES,
        "float": FieldDescriptorProto.TYPE_FLOAT,
        "int64": FieldDescriptorProto.TYPE_INT64,
    }
    file = FileDescriptorProto(name="example.proto", package="tensorflow", syntax="proto3")
    for kind, number in types.items():
        message = file.message_type.add(name=f"{kind.capitalize()}List")
        message.field.add(name="value", number=1, type=number, label=3)
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, kind in enumerate(("bytes", "float", "int64"), 1):
        name = f".tensorflow.{kind.capitalize()}List"
        feature.field.add(
            name=f"{kind}_list", number=number, type=11, label=1, type_name=name, oneof_index=0
        )
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=9, label=1)
    entry.field.add(name="value", number=2, type=11, label=1, type_name=".tensorflow.Feature")
    name = ".tensorflow.Features.FeatureEntry"
    features.field.add(name="feature", number=1, type=11, label=3, type_name=name)
    example = file.message_type.add(name="Example")
    example.field.add(name="features", number=1, type=11, label=1, type_name=".tensorflow.Features")
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("tensorflow.Example"))


def _format(image: bytes) -> str:
    starts = {b"\xff\xd8": "JPEG", b"\x89PNG": "PNG", b"BM": "BMP"}
    return next((name for start, name in starts.items() if image.startswith(start)), "")


def emit(example: Example) -> bytes:
    """Serialize an Example; equal values give equal bytes."""
    message = example_class()()
    feature = message.features.feature
    texts: dict[str, bytes] = {
        "image/encoded": example.image,
        "image/format": _format(example.image).encode(),
        "image/colorspace": b"RGB" if example.channels == 3 else b"Grayscale",
        "image/class/synset": example.synset.encode(),
        "image/class/text": example.text.encode(),
        "image/filename": example.filename.encode(),
    }
    numbers = {
        "image/height": example.height,
        "image/width": example.width,
        "image/channels": example.channels,
        "image/class/label": example.label,
    }
    for key, data in texts.items():
        feature[key].bytes_list.value.append(data)
    for key, number in numbers.items():
        feature[key].int64_list.value.append(number)
    feature[f"{_BOXES}label"].int64_list.value.extend(one.label for one in example.boxes)
    feature[f"{_BOXES}label"].int64_list.SetInParent()
    for key in _EDGES:
        edges = feature[f"{_BOXES}{key}"].float_list
        edges.value.extend(getattr(one, key) for one in example.boxes)
        edges.SetInParent()
    encoded: bytes = message.SerializeToString(deterministic=True)
    return encoded


def _features(data: bytes, where: str) -> Any:
    from google.protobuf.message import DecodeError

    message = example_class()()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise DataError(
            error_line(where, expected="a tf.train.Example", got=f"other data ({error})")
        ) from error
    return message.features.feature


def parse(data: bytes, where: str) -> Example:
    """Parse a record without its boxes.

    Raises DataError, which begins with `where`, if it is no image.
    """
    feature = _features(data, where)
    texts = {key: _first(feature[key].bytes_list.value, b"") for key in feature}
    numbers = {key: _first(feature[key].int64_list.value, 0) for key in feature}
    if not texts.get("image/encoded") or _LABEL not in feature:
        raise DataError(
            error_line(
                where, expected=f"image/encoded and {_LABEL}", got=", ".join(feature) or "no fields"
            )
        )

    def decoded(key: str) -> str:
        return bytes(texts.get(key, b"")).decode(errors="replace")

    return Example(
        image=bytes(texts["image/encoded"]),
        label=_label(feature[_LABEL], where),
        synset=decoded("image/class/synset"),
        text=decoded("image/class/text"),
        filename=decoded("image/filename"),
        height=int(numbers.get("image/height", 0)),
        width=int(numbers.get("image/width", 0)),
        channels=int(numbers.get("image/channels", 0)),
    )


def parse_boxes(data: bytes, where: str, label: int) -> tuple[Box, ...]:
    """Parse the boxes of a record; those without an area inside the image are skipped.

    label: class of boxes without one, that of the image. Raises DataError, which begins with
    `where`, if the fields do not have one value per box.
    """
    feature = _features(data, where)
    keys = [f"{_BOXES}{key}" for key in _EDGES]
    edges = [list(feature[key].float_list.value) if key in feature else [] for key in keys]
    key = f"{_BOXES}label"
    classes = list(feature[key].int64_list.value) if key in feature else []
    classes = classes or [label] * len(edges[0])
    if len({len(classes), *map(len, edges)}) > 1:
        got = "/".join(str(len(values)) for values in (*edges, classes))
        wanted = "one value per box in xmin/ymin/xmax/ymax/label"
        raise DataError(error_line(f"{where}: {key}", expected=wanted, got=got))
    if any(not 0 <= one <= LARGEST_LABEL for one in classes):
        wanted = "labels from 0 to 2^24"
        raise DataError(error_line(f"{where}: {key}", expected=wanted, got=quoted(classes)))
    found = (
        Box(label=one, xmin=xmin, ymin=ymin, xmax=xmax, ymax=ymax)
        for one, xmin, ymin, xmax, ymax in zip(classes, *edges, strict=True)
    )
    return tuple(inside for box in found if (inside := clip(box)))


def _label(feature: Any, where: str) -> int:
    """Return the label: one whole number that a 32-bit float represents exactly."""
    kind = feature.WhichOneof("kind")
    values = list(getattr(feature, kind).value) if kind else []
    if kind == "bytes_list" or len(values) != 1:
        got = f"{len(values)} values" if len(values) != 1 else f"bytes {values[0][:20]!r}"
        raise DataError(error_line(f"{where}: {_LABEL}", expected="one whole number", got=got))
    label = values[0]
    if label != label or not -LARGEST_LABEL <= label <= LARGEST_LABEL or label != int(label):  # noqa: PLR0124
        raise DataError(
            error_line(
                f"{where}: {_LABEL}", expected="a whole number from -2^24 to 2^24", got=label
            )
        )
    return int(label)


def _first(values: Any, default: bytes | int) -> Any:
    return values[0] if len(values) else default
