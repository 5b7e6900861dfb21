"""Every option of upstream's train_imagenet.py: accepted, or rejected in a line."""

import pytest

from bench.data.augmentation_options import IMAGENET, NONE
from bench.engines.catalog import ENGINES
from bench.errors import SpecError
from bench.sweep import load_sweep
from bench.training.options import parse
from bench.trial import Trial, make
from tests.support.training.upstream import UPSTREAM

pytestmark = pytest.mark.pythons

BASE = ["--data-train", "t.rec"]
NEEDS = {
    "gc-threshold": ["--kv-store=dist_sync", "--gc-type=2bit"],
    "top-k": ["--data-val=v.rec"],
    "loss": ["--data-val=v.rec"],
    "save-period": ["--model-prefix=m"],
    "warmup-strategy": ["--warmup-epochs=2"],
    "gc-type": ["--kv-store=dist_sync"],
}


@pytest.mark.parametrize("name", UPSTREAM)
def test_upstreams_options_have_upstreams_defaults_and_are_heard(name: str) -> None:
    default, other = UPSTREAM[name]
    nothing = parse(BASE)
    if default is not None and name not in {"data-train"}:
        assert parse([*BASE, f"--{name}={default}"]) == nothing
    if other is not None and name not in {"macrobatch-size", "data-train-idx"}:
        needs = [*BASE, *NEEDS.get(name, [])]
        assert parse([*needs, f"--{name}={other}"]) != parse(needs)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--load-epoch 2", "expected --model-prefix"),
        (
            "--load-epoch 2 --model-prefix x --num-epochs 2",
            "expected more than --load-epoch 2, got 2",
        ),
        ("--macrobatch-size 256", "Use --global-batch of that size"),
        ("--data-train-idx elsewhere.idx", "expected the .idx beside the .rec file"),
        ("--optimizer nagg", "did you mean 'nag'?"),
        ("--optimizer sgld --kv-store dist_sync", "Use another optimizer, or kvstore 'device'"),
        ("--optimizer adamax", "divides by 0 for a gradient of 0"),
        ("--random-crop 1 --random-resized-crop 1", "Leave out --random-crop"),
        ("--max-crop-size 40 --random-resized-crop 1", "Leave out --min-crop-size, --max-crop"),
        ("--min-random-scale 2", "at most --max-random-scale, got 2.0 and 1.0"),
        ("--min-random-area 0", "--min-random-area: expected above 0"),
        ("--max-random-aspect-ratio 1.3", "expected less than 1 without --min-random-aspect-ratio"),
        ("--min-crop-size 50 --max-crop-size 40", "expected 1 or more, and the first at most"),
        ("--max-crop-size 0", "expected 1 or more"),
        ("--stop-accuracy nan", "--stop-accuracy: expected a fraction from 0 to 1, got nan"),
        ("--precision 1", "--precision: expected 0 or more, below 1"),
        ("--windows 99999999999999999999", "--windows: expected 1000000000 or fewer"),
        ("--num-classes 100000000000", "--num-classes: expected 10000000 or fewer"),
        ("--fill-value 256", "--fill-value: expected 0 to 255"),
        ("--image-shape 1,8,8 --saturation 0.1", "have no color to change"),
        ("--brightness nan", "--brightness: expected a number, got nan"),
        ("--brightness -1", "--brightness: expected 0 or more"),
        ("--lr-step-epochs 30,x", "expected epochs such as 30,60 or pow2"),
        ("--lr-step-epochs pow0", "expected 'pow' and a power"),
        ("--num-epochs 2 --warmup-epochs 2", "expected fewer than --num-epochs 2"),
        ("--num-epochs 0", "--num-epochs: expected 1 or more, got 0"),
        ("--lr-factor 0", "--lr-factor: expected above 0"),
        ("--lr inf", "--lr: expected a finite number, got inf"),
        ("--lr nan", "--lr: expected 0 or more, got nan"),
        ("--warmup-strategy lars", "expected --optimizer lbsgd"),
        ("--loss mse", "--loss: expected ce, nll or ce,nll"),
        ("--gc-type 1bit", "invalid choice: '1bit'"),
        ("--top-k 2000", "--top-k: expected at most --num-classes"),
        ("--profile-server-suffix p.json", "expected a kvstore with servers"),
        ("--global-batch 8 --batch-size 8", "not allowed with argument"),
        ("--val-freq 0", "--val-freq: expected 1 or more"),
    ],
)
def test_options_that_cannot_be_get_one_line(line: str, said: str) -> None:
    with pytest.raises(SpecError) as error:
        parse([*BASE, *line.split()])
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_imagenets_augmentation_gives_way_to_what_is_typed() -> None:
    options = parse([*BASE, "--use-imagenet-data-augmentation=1", "--brightness=0.2"])
    told = options.augmentation
    assert options.rgb_std == (58.393, 57.12, 57.375)
    assert (told.brightness, told.contrast) == (0.2, IMAGENET["contrast"])
    assert (told.random_resized_crop, told.fill_value) == (1, 127)
    assert parse(BASE).augmentation == NONE


def point(*options: str, **fields: object) -> Trial:
    return make({"batch_per_device": 4, "options": list(options)} | fields)


def test_a_trial_hands_further_options_to_its_workers() -> None:
    trial = point("--optimizer=nag", "--initializer=xavier")
    assert parse(ENGINES["mxnet"].command(trial, "worker", 0)[2:]).optimizer == "nag"
    assert trial.key != point().key


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--optimizer=nagg", "options: unknown --optimizer 'nagg'; did you mean 'nag'?"),
        ("--batch-size=8", "options: a field of the trial determines --batch-size"),
        ("--batch-s=8", "unrecognized arguments"),
        ("--optimizer", "options: expected --NAME=VALUE"),
        ("nag", "options: expected --NAME=VALUE"),
    ],
)
def test_a_trials_further_options_are_checked_with_it(option: str, said: str) -> None:
    with pytest.raises(SpecError) as error:
        point(option)
    assert said in str(error.value)


def test_a_fixed_global_batch_is_shared_among_the_ranks() -> None:
    fields = {"global_batch_fixed": 9, "kvstore": "dist_sync", "devices": 4}
    trial = make(fields)
    assert trial.worker_batches == (3, 2, 2, 2)
    assert (trial.global_batch, trial.worker_batch, trial.device_batch) == (9, 3, 3)
    options = parse(ENGINES["mxnet"].command(trial, "worker", 0)[2:])
    assert options.global_batch == 9
    for wrong, said in (({"batch_per_device": 2}, "got both"), ({"devices": 16}, "16 dev")):
        with pytest.raises(SpecError, match=said):
            make(fields | wrong)


def test_every_option_of_a_worker_is_a_fields_or_further() -> None:
    for trial in load_sweep("demo").trials:
        words = ENGINES["mxnet"].command(trial, "worker", 0)[2:]
        for word in filter(lambda one: one.startswith("--"), words):
            with pytest.raises(SpecError, match="a field of the trial determines"):
                point(f"{word}=1")
