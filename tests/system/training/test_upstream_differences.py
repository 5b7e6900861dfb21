"""Each row of docs/reference/train-imagenet-differences.md has a check."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bench import fine_tune, train_imagenet
from bench.data.augmentation import augment
from bench.data.augmentation_options import NONE
from bench.data.partition import whole_data
from bench.errors import SpecError
from bench.training.batch import epoch_steps
from bench.training.input_rate import time_input
from bench.training.mxnet import inputs
from bench.training.mxnet.backend import train
from bench.training.mxnet.worker import build_worker, loss_scale
from bench.training.mxnet_shim import mx
from bench.training.optimizer import Schedule
from bench.training.options import Options, parse
from launch.hosts import ROOT
from tests.support.paths import TESTS
from tests.support.training.workers import SMALL, SYNTHETIC, photos, trained

pytestmark = pytest.mark.mxnet
ONE = "--windows=1"
BASE = ["--data-train=t.rec"]
# Whole jobs have these.
CONTINUATION = (TESTS / "system/training/test_continuation.py").read_text(encoding="utf-8")


def examples(photographs: Path) -> None:
    options = parse([*SMALL, *photos(photographs)])
    assert options.num_examples == 0
    assert whole_data(options.data_train).epoch == 240


def index(_: Path) -> None:
    assert parse([*BASE, "--data-train-idx=t.idx"]) == parse(BASE)
    with pytest.raises(SpecError, match=r"expected the \.idx beside the \.rec file"):
        parse([*BASE, "--data-train-idx=other.idx"])


def macrobatch(_: Path) -> None:
    with pytest.raises(SpecError, match="Use --global-batch of that size"):
        parse([*BASE, "--macrobatch-size=256"])


def shape(_: Path) -> None:
    assert parse([*BASE, "--network=inception-v3"]).image_shape == (3, 299, 299)


def classes(photographs: Path) -> None:
    assert parse(BASE).num_classes == 1000
    assert train_imagenet.parse([f"--data-train={photographs / 'train'}"]).num_classes == 10


def he(_: Path) -> None:
    by_name, default = (
        build_worker(parse([*SYNTHETIC, ONE, f"--initializer={name}"])).net
        for name in ("he", "default")
    )
    for one, other in zip(
        by_name.collect_params().values(), default.collect_params().values(), strict=True
    ):
        np.testing.assert_array_equal(one.data().asnumpy(), other.data().asnumpy())


def vgg(_: Path) -> None:
    assert parse([*BASE, "--network=vgg"]).num_layers == 16


def mobilenet(_: Path) -> None:
    words = "--network=mobilenet --image-shape=3,64,64 --benchmark=1 --windows=1 --batch-size=1"
    assert build_worker(parse(words.split())).net(mx.nd.zeros((1, 3, 64, 64))).shape == (1, 1000)


def mobilenetv2(_: Path) -> None:
    assert parse([*BASE, "--network=mobilenetv2"]).num_layers is None
    with pytest.raises(SpecError, match="expected no depth"):
        parse([*BASE, "--network=mobilenetv2", "--num-layers=50"])


def operators(name: str, size: int, *, composed: bool = True) -> list[str]:
    """Return operators of a network on CPU, or only MXNet's own."""
    words = f"--network={name} --image-shape=3,{size},{size} --benchmark=1 --windows=1"
    net = build_worker(parse([*words.split(), "--batch-size=1"])).net
    if not composed:
        net.apply(lambda block: setattr(block, "composed", False))
    nodes = json.loads(net(mx.sym.var("data")).tojson())["nodes"]
    return [node["op"] for node in nodes if node["op"] != "null"]


def copies(_: Path) -> None:
    for name, size in (("inception-v3", 299), ("resnet-18", 64), ("resnet-v1-18", 64)):
        assert "_copy" not in operators(name, size)


def normalization(_: Path) -> None:
    # Upstream's 24 are with its SoftmaxOutput.
    plain, quick = (operators("alexnet", 72, composed=way) for way in (False, True))
    assert plain.count("LRN") == 2
    assert quick.count("LRN") == 0
    assert (len(plain) + 1, len(quick) + 1) == (24, 60)


def abbreviations(_: Path) -> None:
    with pytest.raises(SpecError, match="unrecognized arguments: --batch=8"):
        parse([*BASE, "--batch=8"])


def order(_: Path) -> None:
    assert parse([*BASE, "--lr-step-epochs=60,30"]) == parse([*BASE, "--lr-step-epochs=30,60"])


def power(_: Path) -> None:
    when = parse([*BASE, "--lr-step-epochs=pow2"]).lr_epochs
    whole = Schedule(base_lr=0.1, epochs=when, updates=10, last=8)
    resumed = Schedule(base_lr=0.1, epochs=when, updates=10, first=4, last=8)
    assert [resumed(n) for n in range(1, 41)] == pytest.approx(
        [whole(40 + n) for n in range(1, 41)]
    )
    assert resumed(1) < 0.026


def warmup(photographs: Path) -> None:
    assert parse(BASE).lr_epochs.warmup == 0
    words = [*SMALL, *photos(photographs), "--warmup-epochs=2", "--optimizer=adam", "--lr=0.1"]
    schedule = build_worker(parse(words)).trainer.optimizer.lr_scheduler
    assert schedule(1) == pytest.approx(0.1 / 20)


def compression(_: Path) -> None:
    assert parse([*BASE, "--gc-type=2bit", "--kv-store=dist_sync"]).gc_type == "2bit"
    with pytest.raises(SpecError, match="kvstore with servers"):
        parse([*BASE, "--gc-type=2bit"])


def validation(photographs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(parse([*SMALL, *photos(photographs), "--num-epochs=1", "--top-k=3", "--loss=ce"]))
    lines = capsys.readouterr().err.splitlines()
    said = [line for line in lines if "top-3" in line or "ce " in line]
    assert len(said) == 1
    assert "validation accuracy" in said[0]


def epoch_of_benchmark(_: Path) -> None:
    options = parse(["--benchmark=1", "--num-examples=650", "--batch-size=32"])
    assert epoch_steps(options, 32, 1) == 21  # upstream's SyntheticDataIter: 20


def reading(photographs: Path) -> None:
    words = ["--network=tiny", "--test-io=1", f"--data-train={photographs / 'train'}"]
    with pytest.raises(SpecError, match="--test-io 1: has no use for --num-epochs, --lr"):
        parse([*words, "--num-epochs=3", "--lr=0.1"])
    words += ["--image-shape=3,32,32", "--batch-size=100", "--windows=2"]
    summary = time_input(parse(words))
    assert sum(one["images"] for one in summary.windows) > 240


def without_effect(_: Path) -> None:
    with pytest.raises(SpecError, match="has no use for --data-val"):
        parse(["--benchmark=1", "--data-val=v.rec"])


def continuation(_: Path) -> None:
    assert "continues_exactly" in CONTINUATION


def joined(_: Path) -> None:
    assert "images of all workers" in CONTINUATION


def seed(_: Path) -> None:
    first, again, other = (
        trained(*SYNTHETIC, ONE, *words).weight_hash for words in ([], [], ["--seed=1"])
    )
    assert first == again != other


def imagenet(_: Path) -> None:
    assert parse([*BASE, "--use-imagenet-data-augmentation=1"]).augmentation != NONE


def grey(_: Path) -> None:
    asked = parse([*BASE, "--saturation=1"]).augmentation
    red = np.zeros((8, 8, 3), np.uint8)
    red[..., 0] = 200
    greens = [augment(red, asked, (8, 8), np.random.default_rng(n))[0, 0, 1] for n in range(100)]
    # Red weighs 0.299 in gray, blue 0.114: with blue for red it would be 23 at most.
    assert 50 < max(greens) <= 60


def last_batch(photographs: Path) -> None:
    options = parse([*SMALL, *photos(photographs)])
    whole = whole_data(options.data_val)
    assert whole.images % 16
    kept = [count for *_, count in inputs.validation_batches(options, whole, 16)]
    assert sum(kept) == whole.images


def float16(_: Path) -> None:
    options: Options = parse([*BASE, "--dtype=float16", "--gpus=0"])
    assert (loss_scale(options), options.array_dtype) == (1024, "float16")


def nadam(_: Path) -> None:
    trainer = build_worker(parse([*SYNTHETIC, ONE, "--optimizer=nadam"])).trainer
    names = [one.name for one in trainer._params]
    assert names == sorted(names)
    assert list(trainer.optimizer.idx2name.values()) == names


def tuned(_: Path) -> None:
    words = ["--pretrained-model=p", "--load-epoch=8", "--num-epochs=30", "--num-classes=10"]
    options = fine_tune.parse([*words, *BASE])
    assert (options.pretrained_epoch, options.load_epoch, options.num_epochs) == (8, 0, 30)


CHECKS: dict[str, Callable[..., None]] = {
    "`--num-examples`": examples,
    "`--data-train-idx`, `--data-val-idx`": index,
    "`--macrobatch-size` above the batch": macrobatch,
    "`--image-shape`": shape,
    "`--num-classes`": classes,
    "`--initializer he`": he,
    "`--network vgg` without `--num-layers`": vgg,
    "`--network mobilenet`": mobilenet,
    "`--network mobilenetv2`": mobilenetv2,
    "`--network inception-v3`, `resnet`, `resnet-v1`": copies,
    "`--network alexnet` in float32 on CPU": normalization,
    "abbreviations such as `--batch`": abbreviations,
    "`--lr-step-epochs` out of order": order,
    "`--lr-step-epochs powN` with `--load-epoch`": power,
    "`--warmup-epochs`": warmup,
    "`--gc-type 2bit`": compression,
    "`--top-k`, `--loss`": validation,
    "`--benchmark 1`, steps per epoch": epoch_of_benchmark,
    "`--test-io 1`": reading,
    "options without effect in a mode": without_effect,
    "`--load-epoch`": continuation,
    "accuracy with `dist_sync`": joined,
    "`--seed`": seed,
    "`--use-imagenet-data-augmentation`": imagenet,
    "`--contrast`, `--saturation`": grey,
    "`--data-val`, last batch": last_batch,
    "`--dtype float16`": float16,
    "`--optimizer nadam`": nadam,
    "`fine_tune --load-epoch N --num-epochs M`": tuned,
}


def rows() -> list[str]:
    """Return the first cells of the table."""
    page = ROOT / "docs" / "reference" / "train-imagenet-differences.md"
    return re.findall(r"^\| (.+?) \|", page.read_text(encoding="utf-8"), re.MULTILINE)[1:]


def test_every_row_of_the_table_has_a_check() -> None:
    assert rows() == list(CHECKS)


@pytest.mark.filterwarnings("ignore:Please import:DeprecationWarning")
@pytest.mark.parametrize("row", CHECKS)
def test_each_difference_to_upstream_holds(
    row: str, photographs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check = CHECKS[row]
    check(photographs, capsys) if check is validation else check(photographs)
