"""The effect of each of upstream's options in support.training.upstream."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.data.augmentation import augment
from bench.data.partition import whole_data
from bench.training.batch import epoch_steps
from bench.training.input_rate import time_input
from bench.training.mxnet import inputs
from bench.training.mxnet.backend import train
from bench.training.mxnet.worker import Worker, build_worker, device_contexts, gradients, step
from bench.training.mxnet_shim import mx
from bench.training.options import parse
from tests.support.paths import TESTS
from tests.support.training.upstream import UPSTREAM
from tests.support.training.workers import INPUT, SMALL, SYNTHETIC, photos, train_photos, values

pytestmark = [
    pytest.mark.mxnet,
    pytest.mark.filterwarnings("ignore:Please import:DeprecationWarning"),
]
BASE = ["--data-train=t.rec"]
Printed = Callable[[], str]


def worker(*words: str) -> Worker:
    return build_worker(parse([*SYNTHETIC, "--windows=1", *words]))


def arrays(net: Any) -> int:
    return len(net.collect_params().keys())


def moved(one: Worker, steps: int = 1) -> float:
    """Return how far the first weights move in equal steps."""
    (first, *_) = one.trainer._params
    before = first.data().asnumpy()
    batch = [mx.nd.arange(4 * 3 * 32 * 32).reshape((4, 3, 32, 32)) / 12288], [mx.nd.arange(4)]
    for _ in range(steps):
        step(one, batch)
    return float(np.abs(values(one.net)[first.name] - before).sum())


def rates(*words: str) -> list[float]:
    """Return the learning rate of each of four epochs of ten steps."""
    options = parse([*SMALL, *BASE, "--num-examples=1280", "--num-epochs=4", "--lr=1", *words])
    schedule = build_worker(options).trainer.optimizer.lr_scheduler
    return [round(schedule(10 * epoch + 6), 6) for epoch in range(4)]


# The effect of options on training, output and files.


def network() -> None:
    assert arrays(worker("--network=resnet-18", "--image-shape=3,64,64").net) > arrays(worker().net)


def num_layers() -> None:
    words = ("--network=resnet", "--image-shape=3,64,64")
    few, many = (arrays(worker(*words, f"--num-layers={n}").net) for n in (18, 34))
    assert few < many


def gpus() -> None:
    assert device_contexts(parse([*BASE, "--gpus=0,2"])) == [mx.gpu(0), mx.gpu(2)]


def kv_store() -> None:
    types = [worker("--cpus=2", f"--kv-store={name}").kvstore.type for name in ("local", "device")]
    assert types == ["local", "device"]


def lr() -> None:
    assert moved(worker("--lr=0.2")) == pytest.approx(2 * moved(worker("--lr=0.1")), rel=0.01)


def lr_steps() -> None:
    assert rates("--lr-step-epochs=1,3", "--lr-factor=0.5") == [1, 0.5, 0.5, 0.25]
    assert rates("--lr-step-epochs=2", "--lr-factor=0.1") == [1, 1, 0.1, 0.1]


def warmup() -> None:
    words = ("--warmup-epochs=2", "--lr-step-epochs=")
    assert rates(*words) == [0.3, 0.8, 1, 1]
    assert rates(*words, "--warmup-strategy=sqrt")[0] == pytest.approx(0.3**0.5)


def initializer() -> None:
    zero, one = (worker(f"--initializer={name}").net for name in ("zero", "one"))
    weights = [one for one in zero.collect_params() if one.endswith("weight")]
    assert all(not zero.collect_params()[name].data().asnumpy().any() for name in weights)
    assert all((one.collect_params()[name].data().asnumpy() == 1).all() for name in weights)


def optimizer() -> None:
    assert type(worker("--optimizer=nag").trainer.optimizer) is mx.optimizer.NAG


def mom() -> None:
    once, fast, plain = (
        moved(worker("--lr=0.001", "--wd=0", f"--mom={mom}"), steps)
        for mom, steps in ((0, 1), (0.9, 2), (0, 2))
    )
    assert plain == pytest.approx(2 * once, rel=0.05)
    assert fast == pytest.approx(2.9 * once, rel=0.05)


def wd() -> None:
    one = worker("--wd=0.5", "--lr=0.1", "--mom=0")
    first = one.trainer._params[-1]
    assert first.name.endswith("weight")
    before = first.data().asnumpy()
    gradients(one, next(inputs.synthetic_batches(one.options, one.contexts, 0)))
    for parameter in one.trainer._params:
        parameter.grad()[:] = 0
    one.trainer.step(1)
    np.testing.assert_allclose(values(one.net)[first.name], 0.95 * before, rtol=1e-5)


def batch_size() -> None:
    options = parse([*SYNTHETIC, "--windows=1", "--batch-size=6"])
    one = build_worker(options)
    (loss,) = gradients(one, next(inputs.synthetic_batches(options, one.contexts, 0)))
    assert loss.shape == (6,)


def num_classes() -> None:
    assert worker("--num-classes=7").net(mx.nd.zeros((1, 3, 32, 32))).shape == (1, 7)


def image_shape() -> None:
    options = parse([*SYNTHETIC, "--windows=1", "--image-shape=3,40,48"])
    ((images,), _) = next(inputs.synthetic_batches(options, [mx.cpu()], 0))
    assert images.shape == (4, 3, 40, 48)


def benchmark() -> None:
    assert train(parse([*SYNTHETIC, "--windows=1"])).windows[0]["images"] == 4


def macrobatch_size() -> None:
    assert parse([*BASE, "--macrobatch-size=128"]) == parse(BASE)  # no larger than the batch


def num_examples() -> None:
    assert epoch_steps(parse([*BASE, "--num-examples=1000"]), 100, 1) == 10


def on_photographs(photographs: Path, *words: str) -> None:
    train(parse([*SMALL, *photos(photographs), "--lr=0.01", *words]))


def epochs_and_lines(photographs: Path, printed: Printed) -> None:
    on_photographs(photographs, "--num-epochs=3", "--disp-batches=5")
    text = printed()
    assert re.findall(r"Epoch\[(\d)\]", text) == ["0", "1", "2"]
    assert re.findall(r"batch (\d+): ", text) == ["5", "10"] * 3


def checkpoints(photographs: Path, printed: Printed, folder: Path) -> None:
    words = ("--num-epochs=4", "--save-period=2", f"--model-prefix={folder / 'm'}")
    on_photographs(photographs, *words)
    assert {one.name for one in folder.iterdir()} >= {"m-symbol.json", "m-0002.params"}
    assert not (folder / "m-0001.params").exists()


def monitor(photographs: Path, printed: Printed) -> None:
    on_photographs(photographs, "--num-epochs=1", "--monitor=4")
    assert set(re.findall(r"batch (\d+) \S+ gradient", printed())) == {"4", "8"}


def scores(photographs: Path, printed: Printed) -> None:
    on_photographs(photographs, "--num-epochs=1", "--top-k=9", "--loss=nll-loss")
    assert re.search(r"validation accuracy [\d.]+, top-9 [\d.]+, nll [\d.]+", printed())


def only_reading(photographs: Path, _: Printed) -> None:
    words = [*INPUT, *train_photos(photographs), "--test-io=1", "--windows=1", "--data-nthreads=1"]
    summary = time_input(parse(words))
    assert "loss" not in summary.windows[0]
    assert summary.windows[0]["images"] > 0


def data(photographs: Path, _: Printed) -> None:
    options = parse([*SMALL, *photos(photographs)])
    assert (whole_data(options.data_train).images, whole_data(options.data_val).images) == (240, 60)


def pixels(photographs: Path, _: Printed) -> None:
    def first(*words: str) -> Any:
        options = parse([*SMALL, *photos(photographs), "--rgb-std=1,1,1", *words])
        images, _, _ = next(inputs.validation_batches(options, whole_data(options.data_val), 8))
        return images.asnumpy()

    plain = first("--rgb-mean=0,0,0")
    np.testing.assert_allclose(first("--rgb-mean=1,2,3")[:, 2], plain[:, 2] - 3, atol=1e-4)
    halved = first("--rgb-mean=0,0,0", "--rgb-std=2,4,8")
    np.testing.assert_allclose(halved[:, 1], plain[:, 1] / 4, rtol=1e-5)


# The effect of options on training images: a white square of 32 pixels on a red ground of 128.

SQUARE = np.zeros((128, 128, 3), np.uint8)
SQUARE[..., 0] = 120
SQUARE[48:80, 48:80] = 255


def drawn(*words: str, size: int = 64) -> list[Any]:
    """Return forty draws of the image."""
    asked = parse([*BASE, *words]).augmentation
    return [
        augment(SQUARE.copy(), asked, (size, size), np.random.default_rng(n)) for n in range(40)
    ]


def white(one: Any) -> Any:
    """Return which pixels are of the square."""
    return one.min(axis=2) > 128


def area(*words: str) -> tuple[int, int]:
    """Return the fewest and most pixels of the square."""
    found = [int(white(one).sum()) for one in drawn(*words)]
    return min(found), max(found)


def spans(*words: str) -> Any:
    """Return height and width of the square in each draw."""
    return np.array(
        [[np.ptp(np.nonzero(white(one))[axis]) + 1 for axis in (0, 1)] for one in drawn(*words)]
    )


def random_crop() -> None:
    places = {tuple(np.argwhere(white(one))[0]) for one in drawn("--random-crop=1", size=90)}
    assert len(places) > 20
    assert len({one.tobytes() for one in drawn(size=90)}) == 1


def random_mirror() -> None:
    asked = parse([*BASE, "--random-mirror=1"]).augmentation
    image = np.arange(64 * 64 * 3, dtype=np.uint32).astype(np.uint8).reshape(64, 64, 3)
    flipped = [
        (augment(image, asked, (64, 64), np.random.default_rng(n)) == image[:, ::-1]).all()
        for n in range(100)
    ]
    assert 30 < sum(flipped) < 70


def shifts() -> None:
    for name, channel in (("h", 1), ("s", 1), ("l", 0)):
        values = [int(one[0, 0, channel]) for one in drawn(f"--max-random-{name}=40")]
        assert len(set(values)) > 5, name
        assert len({int(one[0, 0, channel]) for one in drawn()}) == 1


def aspect_ratio() -> None:
    found = spans("--max-random-aspect-ratio=0.5")
    assert (found[:, 0] > found[:, 1] + 3).any()
    assert (found[:, 1] > found[:, 0] + 3).any()
    wide = spans("--max-random-aspect-ratio=1.5", "--min-random-aspect-ratio=1.4")
    apart = wide[:, 0] - wide[:, 1]
    assert (apart > 0).all() or (apart < 0).all()


def rotation() -> None:
    assert spans("--max-random-rotate-angle=30").max() > 36
    assert area("--max-random-rotate-angle=30")[0] == pytest.approx(32 * 32, rel=0.1)


def shear() -> None:
    assert spans("--max-random-shear-ratio=0.5").max() > 38


def scale() -> None:
    least, most = area("--max-random-scale=1.5")
    assert least >= 31 * 31
    assert most > 1.7 * 32 * 32
    least, most = area("--min-random-scale=0.6")
    assert least < 0.5 * 32 * 32
    assert most <= 33 * 33


def random_area() -> None:
    whole = area("--random-resized-crop=1", "--min-random-area=0.99")
    parts = area("--random-resized-crop=1", "--min-random-area=0.1")
    assert whole == pytest.approx((16 * 16, 16 * 16), rel=0.2)
    assert parts[1] > 1.5 * whole[1]
    # Larger than the image: drawn again, so that fewer draws are small.
    larger = area("--random-resized-crop=1", "--min-random-area=0.99", "--max-random-area=2")
    assert larger != whole


def crop_size() -> None:
    assert set(spans("--min-crop-size=96", "--max-crop-size=96").ravel()) <= {20, 21, 22, 23}
    found = spans("--min-crop-size=48", "--max-crop-size=128")
    assert found.max() - found.min() > 10


def padding() -> None:
    words = ("--pad-size=20", "--random-crop=1")
    assert any((one[0] == 127).all() for one in drawn(*words, size=128))
    assert any((one[0] == 9).all() for one in drawn(*words, "--fill-value=9", size=128))


def brightness() -> None:
    means = [float(one.mean()) for one in drawn("--brightness=0.4")]
    plain = float(drawn()[0].mean())
    assert min(means) < 0.8 * plain
    assert max(means) > 1.1 * plain


def contrast() -> None:
    ranges = [float(one[..., 1].std()) for one in drawn("--contrast=0.4")]
    plain = float(drawn()[0][..., 1].std())
    assert min(ranges) < 0.8 * plain


def saturation() -> None:
    greens = {int(one[0, 0, 1]) for one in drawn("--saturation=0.4")}
    assert {int(one[0, 0, 1]) for one in drawn()} == {0}
    assert max(greens) > 8
    assert {int(one[32, 32, 1]) for one in drawn("--saturation=0.4")} <= {254, 255}


def pca_noise() -> None:
    reds = [int(one[0, 0, 0]) for one in drawn("--pca-noise=0.1")]
    assert 1 < np.std(reds) < 10
    assert abs(np.mean(reds) - 120) < 5


def imagenet() -> None:
    found = drawn("--use-imagenet-data-augmentation=1")
    assert len({one.tobytes() for one in found}) == len(found)


TRAINED: dict[str, Callable[[], None]] = {
    "network": network,
    "num-layers": num_layers,
    "gpus": gpus,
    "kv-store": kv_store,
    "lr": lr,
    "lr-factor": lr_steps,
    "lr-step-epochs": lr_steps,
    "initializer": initializer,
    "optimizer": optimizer,
    "mom": mom,
    "wd": wd,
    "batch-size": batch_size,
    "macrobatch-size": macrobatch_size,
    "warmup-epochs": warmup,
    "warmup-strategy": warmup,
    "num-classes": num_classes,
    "image-shape": image_shape,
    "num-examples": num_examples,
    "benchmark": benchmark,
    "use-imagenet-data-augmentation": imagenet,
    "random-crop": random_crop,
    "random-mirror": random_mirror,
    **dict.fromkeys(("max-random-h", "max-random-s", "max-random-l"), shifts),
    **dict.fromkeys(("min-random-aspect-ratio", "max-random-aspect-ratio"), aspect_ratio),
    "max-random-rotate-angle": rotation,
    "max-random-shear-ratio": shear,
    **dict.fromkeys(("max-random-scale", "min-random-scale"), scale),
    **dict.fromkeys(("max-random-area", "min-random-area", "random-resized-crop"), random_area),
    **dict.fromkeys(("min-crop-size", "max-crop-size"), crop_size),
    **dict.fromkeys(("pad-size", "fill-value"), padding),
    "brightness": brightness,
    "contrast": contrast,
    "saturation": saturation,
    "pca-noise": pca_noise,
}
PHOTOGRAPHED: dict[str, Callable[..., None]] = {
    **dict.fromkeys(("num-epochs", "disp-batches"), epochs_and_lines),
    **dict.fromkeys(("model-prefix", "save-period"), checkpoints),
    "monitor": monitor,
    **dict.fromkeys(("top-k", "loss"), scores),
    **dict.fromkeys(("test-io", "data-nthreads"), only_reading),
    **dict.fromkeys(("data-train", "data-val"), data),
    **dict.fromkeys(("rgb-mean", "rgb-std"), pixels),
}
# Whole jobs have these.
ELSEWHERE = {
    "dtype": "system/training/test_bfloat16.py:test_two_workers_learn_the_same_in_bfloat16",
    "gc-type": "bench/training/test_kvstore.py:"
    "test_two_workers_learn_the_same_from_compressed_gradients",
    "gc-threshold": "bench/training/test_kvstore.py:"
    "test_what_was_not_sent_is_kept_for_the_next_push",
    "profile-worker-suffix": "system/training/test_real_training.py:"
    "test_profiles_are_written_by_rank_and_by_server",
    "profile-server-suffix": "system/training/test_real_training.py:"
    "test_profiles_are_written_by_rank_and_by_server",
    "data-train-idx": "system/training/test_upstream_differences.py:index",
    "data-val-idx": "system/training/test_upstream_differences.py:index",
}


def test_every_option_of_upstream_has_a_check_of_what_it_does() -> None:
    assert {*TRAINED, *PHOTOGRAPHED, *ELSEWHERE} == set(UPSTREAM)
    for place in ELSEWHERE.values():
        file, _, name = place.partition(":")
        assert f"\ndef {name}(" in (TESTS / file).read_text(encoding="utf-8"), place


@pytest.mark.parametrize("check", dict.fromkeys(TRAINED.values()), ids=lambda one: one.__name__)
def test_an_option_does_what_its_name_says(check: Callable[[], None]) -> None:
    check()


@pytest.mark.parametrize(
    "check", dict.fromkeys(PHOTOGRAPHED.values()), ids=lambda one: one.__name__
)
def test_an_option_does_what_its_name_says_on_photographs(
    check: Callable[..., None],
    photographs: Path,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    def printed() -> str:
        return capsys.readouterr().err

    check(photographs, printed, *([tmp_path] if check is checkpoints else []))
