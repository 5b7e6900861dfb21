"""mxscale's shards as MXNet reads and writes them."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from im2rec_tools.declarations import JOIN_INDEX as JOIN
from im2rec_tools.declarations import PACK
from im2rec_tools.formats.recordio import headers, unpack
from tests.support.data.shards import payloads_of_a_file, write
from tests.support.data.trees import lines, tree

pytestmark = [pytest.mark.mxnet, pytest.mark.pythons]

RECIPES: list[dict[str, Any]] = [
    {},
    {"raw_pixels": True},
    {"pass_through_small": True},
    {"enlarge_small": True, "short_edge": "100"},
]


def test_every_kind_of_shard_is_read_whole_with_its_labels(tmp_path: Path) -> None:
    from bench.training.mxnet_shim import mx  # noqa: PLC0415

    root = tree(tmp_path / "t", {"cat": 20, "dog": 13})
    for number, recipe in enumerate(RECIPES):
        prefix = tmp_path / str(number) / "x"
        lines(PACK.planned({"prefix": str(prefix), "root": str(root), "chunks": "2", **recipe}))
        for part in range(2):
            rec = prefix.with_name(f"x_{part}.rec")
            wanted = sorted(record.labels[0] for record, _ in headers(rec))
            for index in (str(rec.with_suffix(".idx")), ""):
                read = mx.io.ImageRecordIter(
                    path_imgrec=str(rec),
                    path_imgidx=index,
                    data_shape=(3, 64, 64),
                    batch_size=8,
                    round_batch=True,
                    preprocess_threads=1,
                )
                found: list[float] = []
                for batch in read:
                    assert batch.data[0].shape == (8, 3, 64, 64)
                    labels = batch.label[0].asnumpy().tolist()
                    found += labels[: len(labels) - (batch.pad or 0)]
                assert sorted(found) == wanted


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(contents=payloads_of_a_file)
def test_files_equal_those_of_mxnet_byte_for_byte(tmp_path: Path, contents: list[bytes]) -> None:
    from bench.training.mxnet_shim import mx  # noqa: PLC0415

    ours = write(tmp_path / "ours.rec", contents)
    theirs = tmp_path / "theirs.rec"
    writer = mx.recordio.MXIndexedRecordIO(str(theirs.with_suffix(".idx")), str(theirs), "w")
    for key, payload in enumerate(contents):
        writer.write_idx(key, payload)
    writer.close()
    assert ours.read_bytes() == theirs.read_bytes()
    assert ours.with_suffix(".idx").read_bytes() == theirs.with_suffix(".idx").read_bytes()


def test_shards_with_a_joined_index_are_read_as_one(tmp_path: Path) -> None:
    from bench.training.mxnet_shim import mx  # noqa: PLC0415

    root = tree(tmp_path / "t", {"cat": 20, "dog": 13})
    lines(PACK.planned({"prefix": str(tmp_path / "s" / "x"), "root": str(root), "chunks": "3"}))
    index = tmp_path / "all.idx"
    *_, order, _ = lines(JOIN.planned({"path": str(tmp_path / "s"), "index": str(index)}))
    wanted = sorted(
        record.labels[0] for rec in (tmp_path / "s").glob("*.rec") for record, _ in headers(rec)
    )
    read = mx.io.ImageRecordIter(
        path_imgrec=order,
        path_imgidx=str(index),
        data_shape=(3, 64, 64),
        batch_size=11,
        shuffle=True,
        preprocess_threads=1,
    )
    found = [label for batch in read for label in batch.label[0].asnumpy().tolist()]
    assert sorted(found) == wanted
    whole = b"".join(Path(rec).read_bytes() for rec in order.split(";"))
    for line in index.read_text().splitlines():
        key, offset = map(int, line.split("\t"))
        framed = whole[offset : offset + 8]
        length = int.from_bytes(framed[4:], "little")
        assert unpack(whole[offset + 8 : offset + 8 + length], line).index == key
