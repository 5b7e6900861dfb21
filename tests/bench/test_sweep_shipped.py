"""The shipped sweeps: each is planned, runs in simulation, and is listed."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from bench.engines.command.program import filled, placed
from bench.sweep import SHIPPED, load_sweep
from bench.training.options import parse
from bench.trial import Trial
from launch.hosts import pretend
from launch.job.plan import plan
from tasks.plan import PLAN_OPTIONS
from tests.support.paths import ROOT
from tests.support.programs.commands import fab

NAMES = sorted(path.stem for path in SHIPPED.glob("*.toml"))
# Words that the sweep of a program runs at a point, without those before the program.
PROGRAMS = {
    ("torchrun", 1): "--nproc-per-node=2 --master-port=9091 tools/ddp_synthetic.py --batch-size=8",
    ("horovodrun", 2): "-np 16 -H 10.0.0.1:8,10.0.0.2:8 .venv-hvd/bin/python "
    "../horovod/examples/pytorch/pytorch_synthetic_benchmark.py --model=resnet50 --batch-size=32 "
    "--num-iters=1000",
    ("horovodrun", 4): "-np 2 -H 10.0.0.1:2 .venv-hvd/bin/python "
    "../horovod/examples/pytorch/pytorch_synthetic_benchmark.py --model=resnet50 --batch-size=2 "
    "--num-iters=1000",
    ("tf-cnn-benchmarks", 3): "--model=resnet50 --num_gpus=8 --batch_size=64 --num_batches=10000",
    ("train-imagenet", 2): "--network=resnet --num-layers=50 --gpus=0,1,2,3 --batch-size=128",
    ("train-imagenet", 4): "--network=resnet --num-layers=50 --gpus= --batch-size=2",
}
# Point that a document runs: its network, kvstore, devices, images per device and per step.
STUDIES = {
    "seed": ("resnet-152", "dist_device_sync", 256, 32, 8192),
    "imagenet": ("resnet-152", "dist_sync", 256, 32, 8192),
    "mnist-lenet": ("lenet", "local", 2, 32, 64),
    "cifar10": ("resnet-20", "dist_sync", 2, 64, 128),
    "terngrad": ("alexnet", "device", 2, 128, 256),
    "tarantella": ("resnet-v1-50", "dist_device_sync", 8, 32, 256),
    "horovod": ("resnet-v1-50", "dist_device_sync", 64, 256, 16384),
    "r-alexnet": ("alexnet", "dist_device_sync", 128, 256, 32768),
}
# The commented points, by network: their epochs, images per step, and image shape.
TRAINING = {
    "mnist-lenet": (11, 64, (1, 28, 28)),
    "cifar10": (512, 128, (3, 24, 24)),
    "imagenet": (1, 8192, (3, 224, 224)),
}


def facts(one: Trial) -> tuple[str, str, int, int, int]:
    layers = one.model.num_layers
    name = one.model.network if layers is None else f"{one.model.network}-{layers}"
    devices = one.layout.devices
    return name, one.layout.kvstore, devices, one.global_batch // devices, one.global_batch


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_has_its_documents_point(name: str) -> None:
    assert STUDIES[name] in {facts(one) for one in load_sweep(name).trials}


@pytest.mark.parametrize(("name", "number"), PROGRAMS)
def test_a_program_gets_the_words_of_its_point(name: str, number: int) -> None:
    one = load_sweep(name).trials[number]
    hosts = [
        replace(host, address=f"10.0.0.{index}") for index, host in enumerate(pretend(2, 8), 1)
    ]
    (process,) = plan(one, hosts, 9091)
    settings, *words = process.argv[3:]
    values = placed(json.loads(settings), process.env)
    assert " ".join(filled(words, values)).endswith(f" {PROGRAMS[name, number]}")


@pytest.mark.program
def test_points_of_a_program_are_planned_by_device() -> None:
    done = fab("bench.plan", "horovodrun", "--point=device=cpu", "--commands")
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^# .*(x\d+): ", done.stdout, re.MULTILINE) == ["x1", "x2"]
    assert done.stdout.count(".venv-hvd/bin/horovodrun -np") == 2


@pytest.mark.parametrize("name", TRAINING)
def test_points_that_need_data_are_valid_without_their_comment_signs(
    name: str, tmp_path: Path
) -> None:
    text = (SHIPPED / f"{name}.toml").read_text(encoding="utf-8")
    whole, count = re.subn(r"^# (?=\[\[points\]\]|\w+ = )", "", text, flags=re.MULTILINE)
    assert count >= 8
    path = tmp_path / "mine.toml"
    path.write_text(whole, encoding="utf-8")
    (one,) = [one for one in load_sweep(str(path)).trials if one.mode == "real"]
    found = one.data.num_epochs, one.global_batch, one.model.image_shape
    assert found == TRAINING[name]
    assert parse(["--data-train=x", *one.mxnet.options])


@pytest.mark.program
@pytest.mark.slow
@pytest.mark.parametrize("name", [one for one in STUDIES if one != "seed"])
def test_a_study_runs_in_simulation(name: str, tmp_path: Path) -> None:
    done = fab("bench.sweep", name, "--engine=simulated", "--repeats=1", f"--run={tmp_path / 'x'}")
    assert done.returncode == 0, done.stderr
    count = len(load_sweep(name).trials)
    assert f"{count} point{'s' * (count > 1)}, {count} run" in done.stderr


def test_every_shipped_sweep_is_in_help_and_in_the_reference() -> None:
    assert ", ".join(NAMES) in PLAN_OPTIONS["sweep"].text
    page = (ROOT / "docs" / "reference" / "shipped-sweeps.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE) == NAMES


def test_the_settings_of_the_kvstore_are_an_axis_as_their_page_has_it(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "explanation" / "kvstore-settings.md").read_text(encoding="utf-8")
    path = tmp_path / "mine.toml"
    path.write_text(page.partition("```toml\n")[2].partition("```")[0], encoding="utf-8")
    found = [one.layout.env for one in load_sweep(str(path)).trials]
    p3 = ("DMLC_PS_VAN_TYPE=p3", "DMLC_PS_WATER_MARK=10")
    assert found == [(), ("MXNET_KVSTORE_BIGARRAY_BOUND=100000",), p3]
    assert {name.partition("=")[0] for env in found for name in env} <= {
        *re.findall(r"^\| `(\w+)", page, re.MULTILINE)
    }
