"""Each option of a worker acts in a mode or is rejected there."""

import pytest

from bench import fine_tune
from bench.data.augmentation_options import flag
from bench.errors import SpecError
from bench.settings.modes import MODES_OF, Mode
from bench.training.options import parse, parser

pytestmark = pytest.mark.pythons

BASES = {
    "W": ["--benchmark=1", "--windows=9"],
    "E": ["--benchmark=1", "--num-examples=640"],
    "R": ["--data-train=t.rec"],
    "T": ["--test-io=1", "--data-train=t.rec"],
    "B": ["--benchmark=1", "--bandwidth=1", "--windows=9", "--kv-store=dist_sync"],
}
MODES = dict(zip(BASES, Mode, strict=True))
DIST = "--kv-store=dist_sync"
# Modes in which an option acts, a value of it, and other options that it needs in training:
# synthetic images by windows (W) or epochs (E), real images (R), test-io (T), bandwidth (B).
TABLE = """
network              WERTB alexnet
image_shape          WERTB 3,64,64
num_classes          WERTB 100
batch_size           WERTB 64
gpus                 WERTB 0,1
cpus                 WERTB 2
expect_workers       WERTB 1
warmup_windows       WERTB 3
windows              WERTB 7
precision            WERTB 0.5    --windows=9
budget_seconds       WERTB 30     --windows=9
num_layers           WER-B 18
kv_store             WER-B dist_device_sync
gc_type              WER-B 2bit   --kv-store=dist_sync
gc_threshold         WER-B 0.1    --kv-store=dist_sync --gc-type=2bit
steps_per_window     WER-B 3
seed                 WERT- 3
channels_last        WER-- 1      --engine=torch --kv-store=none
compile              WER-- 1      --engine=torch --kv-store=none
initializer          WER-- xavier
dtype                WER-- bfloat16
global_batch         WER-- 64
auto_batch           WER-- 64
macrobatch_size      WER-- 64
optimizer            WER-- nag
lr                   WER-- 0.5
mom                  WER-- 0.5
wd                   WER-- 0.5
model_prefix         WER-- m/x
load_epoch           WER-- 2      --model-prefix=m/x
disp_batches         WER-- 5
monitor              WER-- 5
profile_worker_suffix WER-- w.json
profile_batches      WER-- 2:3    --profile-worker-suffix=w.json
profile_server_suffix WER-- s.json --kv-store=dist_sync
num_examples         WER-- 1000
num_epochs           -ER-- 3
lr_factor            -ER-- 0.5
lr_step_epochs       -ER-- 5,7
warmup_epochs        -ER-- 2
warmup_strategy      -ER-- sqrt   --warmup-epochs=2
initial_lr           -ER-- 0.01   --warmup-epochs=2
save_period          -ER-- 2      --model-prefix=m/x
val_freq             --R-- 2      --data-val=v.rec
top_k                --R-- 5      --data-val=v.rec
loss                 --R-- ce,nll --data-val=v.rec
stop_accuracy        --R-- 0.5    --data-val=v.rec
data_val             --R-- v.rec
data_val_idx         --R-- v.idx  --data-val=v.rec
data_train           --RT- t.rec
data_train_idx       --RT- t.idx
data_nthreads        --RT- 2
prefetch_buffer      --RT- 3
rgb_mean             --RT- 1,2,3
rgb_std              --RT- 1,2,3
use_imagenet_data_augmentation --RT- 1
random_crop          --RT- 1
random_mirror        --RT- 1
max_random_h         --RT- 9
max_random_s         --RT- 9
max_random_l         --RT- 9
min_random_aspect_ratio --RT- 0.9 --max-random-aspect-ratio=1.1
max_random_aspect_ratio --RT- 0.1
max_random_rotate_angle --RT- 9
max_random_shear_ratio --RT- 0.1
max_random_scale     --RT- 2
min_random_scale     --RT- 0.5
max_random_area      --RT- 2
min_random_area      --RT- 0.5
min_crop_size        --RT- 40     --max-crop-size=50
max_crop_size        --RT- 50
brightness           --RT- 0.1
contrast             --RT- 0.1
saturation           --RT- 0.1
pca_noise            --RT- 0.1
random_resized_crop  --RT- 1
pad_size             --RT- 4
fill_value           --RT- 9
costs                WE--- upstream
cold                 ---T- 1
"""
ROWS = {line.split()[0]: line.split()[1:] for line in TABLE.splitlines() if line}
SWITCHES = {"engine", "benchmark", "test_io", "bandwidth"}  # they select engine and mode
OF_FINE_TUNE = {"pretrained_model", "layer_before_fullc"}


def test_the_table_has_every_option_of_a_worker() -> None:
    options = set(vars(parser().parse_args([])))
    assert options - set(ROWS) == SWITCHES
    assert set(MODES_OF) == options | OF_FINE_TUNE
    assert set(vars(fine_tune.parser().parse_args([]))) == set(MODES_OF)


@pytest.mark.parametrize("name", ROWS)
def test_an_option_acts_or_is_rejected_in_each_mode(name: str) -> None:
    acts, value, *needs = ROWS[name]
    for letter, base in BASES.items():
        given = f"{flag(name)}={value}"
        if letter in acts:
            plain = [one for one in base if one.partition("=")[0] != flag(name)]
            parse([*plain, *needs, given])
            assert MODES[letter] in MODES_OF[name]
        elif name not in {"costs", "cold", "channels_last", "compile"}:
            with pytest.raises(SpecError, match=rf"has no use for .*{flag(name)}\b.*\. Leave out"):
                parse([*base, *needs, given])


@pytest.mark.parametrize("name", ["costs", "cold"])
def test_costs_and_cold_name_the_mode_that_they_need(name: str) -> None:
    acts, value = ROWS[name]
    for letter, base in BASES.items():
        if letter not in acts:
            with pytest.raises(SpecError, match=rf"{flag(name)} {value}: "):
                parse([*base, f"{flag(name)}={value}"])


@pytest.mark.parametrize(
    "name", [name for name, (_, _, *needs) in ROWS.items() if set(needs) - {DIST}]
)
def test_an_option_without_the_one_it_needs_is_rejected(name: str) -> None:
    if name.startswith(("min_random", "min_crop")):
        return  # a pair of limits, checked with their values
    _, value, *needs = ROWS[name]
    store = [one for one in needs if one == DIST]
    with pytest.raises(SpecError, match=r"expected (--|its)"):
        parse([*BASES["R"], *store, f"{flag(name)}={value}"])


def test_the_rejection_names_all_options_at_once_and_the_way_to_epochs() -> None:
    with pytest.raises(SpecError) as caught:
        parse([*BASES["W"], "--num-epochs=3", "--lr-step-epochs=1,2"])
    assert str(caught.value) == (
        "--benchmark 1 --windows: has no use for --num-epochs, --lr-step-epochs. Leave out "
        "--num-epochs, --lr-step-epochs, or give --num-examples N to have epochs"
    )


def test_options_that_are_switched_off_are_accepted_in_every_mode() -> None:
    off = ["--top-k=0", "--data-val=", "--lr-step-epochs=", "--model-prefix=", "--monitor=0"]
    for base in BASES.values():
        parse([*base, *off])
