"""The worker's command line: upstream's names, checked before MXNet is imported."""

import pytest

from bench.engines.catalog import ENGINES
from bench.errors import SpecError
from bench.sweep import load_sweep
from bench.training.options import parse

pytestmark = pytest.mark.pythons


def test_every_worker_of_the_shipped_sweeps_is_a_command_line_that_parses() -> None:
    for name in ("demo", "seed", "smoke"):
        for trial in load_sweep(name).trials:
            module, *words = ENGINES["mxnet"].command(trial, "worker", 0)[1:]
            assert module == "bench.train_imagenet"
            options = parse(words)
            assert options.batch_size == trial.worker_batch
            assert options.devices == trial.layout.devices_per_worker
            assert options.kv_store == trial.layout.kvstore or trial.mode == "test-io"
            assert options.expect_workers == trial.workers
            assert options.windows == trial.measuring.windows
            assert options.image_shape == trial.model.image_shape
            assert (options.network, options.num_layers) == (
                trial.model.network,
                trial.model.num_layers,
            )


def test_the_command_of_the_tutorial_is_understood() -> None:
    options = parse(
        [
            "--network",
            "resnet",
            "--num-layers",
            "152",
            "--data-train",
            "train",
            "--data-val",
            "val",
            "--gpus",
            "0,1,2,3",
            "--batch-size",
            "128",
            "--model",
            "models/resnet152",
            "--num-epochs",
            "1",
            "--kv-store",
            "dist_sync",
        ]
    )
    assert (options.network, options.num_layers, options.gpus) == ("resnet", 152, (0, 1, 2, 3))
    assert (options.model_prefix, options.steps_per_window) == ("models/resnet152", 10)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--network resnett --benchmark 1 --windows 1", "did you mean 'resnet'?"),
        (
            "--network vgg --num-layers 12 --benchmark 1",
            "--num-layers of network 'vgg': expected one of 11, 13, 16, 19, got 12",
        ),
        ("--kv-store dist_snyc --benchmark 1 --windows 1", "did you mean 'dist_sync'?"),
        ("--batch-size 0 --benchmark 1 --windows 1", "--batch-size: expected a positive multiple"),
        ("--batch-size 3 --cpus 2 --benchmark 1 --windows 1", "this worker's 2 devices, got 3"),
        ("--benchmark 1 --bandwidth 1 --kv-store dist_sync", "no epochs. Give --windows N"),
        ("--test-io 1 --benchmark 1 --windows 1", "Give one of them"),
        ("--data-train x.rec --cold 1", "--cold 1: expected --test-io 1"),
        ("", "--data-train: expected a .rec file or folder"),
        ("--gpus a,b --benchmark 1 --windows 1", "--gpus: expected whole numbers joined by commas"),
        (
            "--image-shape 3,224 --benchmark 1 --windows 1",
            "expected 3 whole numbers joined by commas",
        ),
        ("--dtype float16 --benchmark 1 --windows 1", "no float16 on CPU"),
        (
            "--dtype bfloat16 --gpus 0 --benchmark 1 --windows 1",
            "bfloat16: MXNet 1.9.1 has it on CPU",
        ),
        ("--kv-store nccl --benchmark 1 --windows 1", "nccl: expected --gpus, got none"),
        ("--learning-rate 1", "unrecognized arguments: --learning-rate 1. Run"),
        ("--epochs 3", "unrecognized arguments: --epochs 3 (did you mean --num-epochs?). Run"),
        ("--netwrok=tiny", "--netwrok=tiny (did you mean --network?)"),
    ],
)
def test_a_mistake_is_one_line(line: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse(line.split())
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
