"""Input of a worker: every image once per epoch, as MXNet's iterator reads it."""

import itertools
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.data.partition import whole_data, worker_partition
from bench.errors import SpecError
from bench.training.options import Options, parse
from im2rec_tools.formats.recordio import ImageRecord, pack
from tests.support.data.shards import write
from tests.support.data.trees import encoded, jpeg, pixels

pytestmark = pytest.mark.mxnet


def options(data: Path, batch: int, *more: str) -> Options:
    line = ("--data-train", str(data), "--batch-size", str(batch), "--image-shape", "3,48,40")
    return parse([*line, "--data-nthreads", "3", *more])


def shard(path: Path, images: int, first: int = 0) -> Path:
    """Make images labeled by their position; every fifth is not a JPEG."""
    records = []
    for number in range(first, first + images):
        image = jpeg(50 + number % 7, 60 - number % 5, number)
        if number % 5 == 0:
            image = encoded(".png", pixels(image))
        records.append(pack(ImageRecord(index=number, labels=(float(number),), image=image)))
    return write(path, records)


def labels(batches: Any) -> list[int]:
    return [int(one) for _, label, *_ in batches for one in label.asnumpy()]


@pytest.mark.parametrize("std", ["1,1,1", "58.4,57.1,57.4"])
def test_batches_equal_those_of_mxnets_iterator(tmp_path: Path, std: str) -> None:
    from bench.training.mxnet import inputs  # noqa: PLC0415
    from bench.training.mxnet_shim import mx  # noqa: PLC0415

    path = shard(tmp_path / "x.rec", 21)
    asked = options(path, 8, "--rgb-std", std)
    theirs = mx.io.ImageRecordIter(
        path_imgrec=str(path),
        path_imgidx=str(path.with_suffix(".idx")),
        data_shape=asked.image_shape,
        batch_size=8,
        preprocess_threads=4,
        **{f"mean_{c}": value for c, value in zip("rgb", asked.rgb_mean, strict=True)},
        **{f"std_{c}": value for c, value in zip("rgb", asked.rgb_std, strict=True)},
    )
    ours = inputs.validation_batches(asked, whole_data(str(path)), 8)
    for (data, label, kept), batch in zip(ours, theirs, strict=True):
        assert kept == 8 - batch.pad
        assert label.asnumpy().tolist() == batch.label[0].asnumpy().tolist()
        assert np.array_equal(data.asnumpy(), batch.data[0].asnumpy())


def test_an_epoch_has_every_image_once_and_its_filling_is_told(tmp_path: Path) -> None:
    from bench.training.mxnet import inputs  # noqa: PLC0415

    path = shard(tmp_path / "x.rec", 11)
    batches = [
        (label.asnumpy().tolist(), kept)
        for _, label, kept in inputs.validation_batches(options(path, 4), whole_data(str(path)), 4)
    ]
    assert batches == [([0, 1, 2, 3], 4), ([4, 5, 6, 7], 4), ([8, 9, 10, 0], 3)]


def test_training_reads_every_image_once_an_epoch_in_new_orders(tmp_path: Path) -> None:
    from bench.data import loader  # noqa: PLC0415
    from bench.training.mxnet import inputs  # noqa: PLC0415

    path = shard(tmp_path / "x.rec", 11)
    asked, whole = options(path, 4), whole_data(str(path))
    stream = inputs.training_batches(asked, whole, loader.shuffled_orders(asked, whole))
    read = labels(itertools.islice(stream, 11))  # four epochs of eleven
    epochs = [read[start : start + 11] for start in range(0, 44, 11)]
    assert all(sorted(epoch) == list(range(11)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 4


@pytest.mark.parametrize("most", [1, 2])
def test_a_stream_holds_its_shards_open_until_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    from bench.data import decoder  # noqa: PLC0415
    from bench.training.mxnet import inputs  # noqa: PLC0415

    def opened() -> list[str]:
        files = map(os.path.realpath, Path("/proc/self/fd").iterdir())
        return sorted(Path(one).name for one in files if one.endswith(".rec"))

    monkeypatch.setattr(decoder, "MOST_OPEN", most)
    for first in (0, 6):
        shard(tmp_path / f"{first}.rec", 6, first)
    asked, whole = options(tmp_path, 3), whole_data(str(tmp_path))
    stream = inputs.training_batches(asked, whole, itertools.repeat(np.arange(12)))
    read = labels(itertools.islice(stream, 4))
    assert read == list(range(12))
    assert opened() == ["0.rec", "6.rec"][:most]
    (tmp_path / "0.rec").unlink()
    stream.close()  # type: ignore[attr-defined]
    assert opened() == []


def test_memory_is_not_used_again_before_work_on_it_is_done(tmp_path: Path) -> None:
    from bench.training.mxnet import inputs  # noqa: PLC0415
    from bench.training.mxnet_shim import mx  # noqa: PLC0415

    path = shard(tmp_path / "x.rec", 6)
    asked, whole = options(path, 1), whole_data(str(path))
    sums, large = [], mx.nd.ones((600, 600))
    stream = inputs.training_batches(asked, whole, itertools.repeat(np.arange(6)))
    for _, label in itertools.islice(stream, 60):
        slow = mx.nd.dot(large, large)  # the reading of the label waits for it
        sums.append(label + 0 * slow[0, 0])
    assert [int(one.asscalar()) for one in sums] == [*range(6)] * 10


def test_workers_take_the_same_steps_from_shards_of_very_different_sizes(tmp_path: Path) -> None:
    from bench.training.mxnet import inputs  # noqa: PLC0415

    shard(tmp_path / "a.rec", 1)
    shard(tmp_path / "b.rec", 17, first=1)
    parts = [worker_partition(str(tmp_path), rank, 2) for rank in range(2)]
    read = [labels(inputs.validation_batches(options(tmp_path, 3), part, 3)) for part in parts]
    assert [len(one) for one in read] == [9, 9]
    assert sorted(read[0] + read[1]) == list(range(18))
    assert {part.epoch // (3 * 2) for part in parts} == {3}


def test_a_share_smaller_than_a_batch_is_refused(tmp_path: Path) -> None:
    from bench.training.mxnet import inputs  # noqa: PLC0415

    path = shard(tmp_path / "x.rec", 5)
    mine = worker_partition(str(path), 0, 2)
    with pytest.raises(SpecError, match="per worker, got 2 images"):
        inputs.training_batches(options(path, 3), mine, [])


@pytest.mark.parametrize(
    ("image", "more", "said"),
    [
        (b"", (), "byte 0: expected an image that"),
        (b"\xff\xd8 no jpeg", (), "byte 0: expected an image that"),
        (jpeg(40, 60), (), r"expected an image of at least 40 x 48 pixels, got 60 x 40"),
        (jpeg(60, 60), ("--image-shape", "4,9,9"), "expected 1 or 3 channels, got 4"),
    ],
)
def test_what_cannot_be_an_image_is_named(
    tmp_path: Path, image: bytes, more: tuple[str, ...], said: str
) -> None:
    from bench.training.mxnet import inputs  # noqa: PLC0415

    record = pack(ImageRecord(index=0, labels=(0.0,), image=image))
    path = write(tmp_path / "x.rec", [record])
    with pytest.raises(SpecError, match=said) as caught:
        list(inputs.validation_batches(options(path, 1, *more), whole_data(str(path)), 1))
    assert "\n" not in str(caught.value)


def test_several_labels_are_refused(tmp_path: Path) -> None:
    from bench.training.mxnet import inputs  # noqa: PLC0415

    record = pack(ImageRecord(index=0, labels=(0.0, 1.0), image=jpeg(60, 60)))
    path = write(tmp_path / "x.rec", [record])
    with pytest.raises(SpecError, match="expected one label, got 2"):
        list(inputs.validation_batches(options(path, 1), whole_data(str(path)), 1))
