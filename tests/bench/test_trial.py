"""A trial is checked when it is made; its key has everything that affects results."""

import math
from typing import Any

import pytest

from bench.errors import SpecError
from bench.trial import FIELDS, make

pytestmark = pytest.mark.pythons

BASE = {"network": "alexnet", "batch_per_device": 8}


def test_batches_of_worker_and_job_follow_from_the_devices() -> None:
    trial = make(
        BASE | {"device": "gpu", "devices": 64, "devices_per_host": 16, "kvstore": "dist_sync"}
    )
    assert (trial.workers, trial.hosts, trial.layout.devices_per_worker) == (4, 4, 16)
    assert (trial.worker_batch, trial.global_batch) == (128, 512)


def test_a_cpu_worker_of_a_distributed_job_has_one_device() -> None:
    trial = make(BASE | {"devices": 2, "kvstore": "dist_sync"})
    assert (trial.workers, trial.servers, trial.worker_batch) == (2, 2, 8)


def test_a_local_job_has_one_worker_and_no_server() -> None:
    trial = make(BASE | {"devices": 2})
    assert (trial.workers, trial.servers, trial.worker_batch) == (1, 0, 16)


def test_networks_bring_their_own_image_shape() -> None:
    assert make(BASE).model.image_shape == (3, 224, 224)
    assert make(BASE | {"network": "inception-v3"}).model.image_shape == (3, 299, 299)
    assert make(BASE | {"image_shape": [3, 64, 64]}).model.image_shape == (3, 64, 64)


P3 = "DMLC_PS_VAN_TYPE=p3"


@pytest.mark.parametrize("field", FIELDS)
def test_the_key_changes_with_every_field(field: str) -> None:
    trial = make(BASE)
    value = trial.value(field)
    other: Any = {bool: True, int: 1, float: 0.5, str: "x", tuple: ("1",), type(None): 18}[
        type(value)
    ]
    if value is not None:
        other = value + other
    assert trial.replace(**{field: other}).key != trial.key
    assert trial.replace().key == trial.key


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"batch_per_device": 0}, "batch_per_device: expected 1 or more, got 0"),
        ({"batch_per_device": "8"}, "batch_per_device: expected a whole number, got '8'"),
        ({"batch_per_device": True}, "batch_per_device: expected a whole number, got True"),
        ({"lr": "fast"}, "lr: expected a number, got 'fast'"),
        ({"image_shape": [3, 224]}, "image_shape: expected channels, height, width"),
        ({"image_shape": 224}, "image_shape: expected a list of whole numbers, got 224"),
        ({"kvstore": "dist_snyc"}, "unknown kvstore 'dist_snyc'; did you mean 'dist_sync'?"),
        ({"kvstore": "horovod"}, "unknown kvstore 'horovod'. Known: local, device"),
        (
            {"network": "resnet", "num_layers": 51},
            "expected one of 18, 34, 50, 101, 152, 200, 269, 20, 32, 44, 56, 110, 164, got 51",
        ),
        ({"network": "alexnet", "num_layers": 8}, "expected no depth, got 8"),
        ({"mode": "dry"}, "mode: expected one of synthetic, real, test-io, bandwidth, got 'dry'"),
        ({"dtype": "float16"}, "MXNet 1.9.1 has no float16 on CPU"),
        ({"dtype": "bfloat16", "device": "gpu"}, "MXNet 1.9.1 has bfloat16 on CPU only"),
        ({"kvstore": "nccl"}, "kvstore: nccl needs GPUs"),
        (
            {
                "kvstore": "dist_sync",
                "devices": 2,
                "devices_per_host": 1,
                "env": ["DMLC_LOCAL=1"],
            },
            "env: expected one host with DMLC_LOCAL, got 2",
        ),
        ({"env": ["DMLC_ROLE=worker"]}, "env: the launcher sets DMLC_ROLE"),
        ({"env": ["DMLC_PS_VAN_TYPE=p4"]}, "DMLC_PS_VAN_TYPE: expected zmq or p3, got 'p4'"),
        ({"env": [P3]}, "=p3: expected a synchronous kvstore with servers, got 'local'"),
        ({"env": [P3], "kvstore": "dist_async"}, "with servers, got 'dist_async'. Use dist_sync"),
        (
            {"env": [P3], "kvstore": "dist_sync", "gc_type": "2bit"},
            "=p3: expected gc_type 'none', got '2bit'",
        ),
        ({"mode": "real"}, "data_train: expected .rec files in mode 'real', got none"),
        ({"data_train": "x.rec"}, "mode 'synthetic' reads no data"),
        ({"windows": 0}, "windows: expected 1 or more on synthetic data"),
        (
            {"devices": 4, "devices_per_host": 2},
            "with kvstore 'local', which has one worker, got 4",
        ),
        ({"devices": 3, "devices_per_worker": 2, "devices_per_host": 4}, "expected a multiple of"),
        (
            {"devices_per_worker": 2, "devices": 2, "devices_per_host": 1},
            "at most devices_per_host = 1, got 2",
        ),
        ({"fake_seconds": [1.0]}, "expected engine 'fake', got 'mxnet'. Add --engine fake"),
        ({"engine": "fake", "fake_faults": ["worker:nap"]}, "fault 'worker:nap': expected ROLE"),
        ({"engine": "fake", "fake_seconds": [0.0]}, "expected seconds above 0"),
        ({"fake_noise": 0.1}, "expected engine 'fake', got 'mxnet'. Add --engine fake"),
        (
            {"engine": "fake", "fake_correlation": 1.0},
            "fake_correlation: expected 0 or more, below 1",
        ),
        ({"engine": "fake", "fake_spread": -0.1}, "fake_spread: expected 0 or more, below 1"),
        ({"rgb_mean": [1.0]}, "rgb_mean: expected 3 numbers, got 1"),
        ({"lr": math.nan}, "lr: expected a number, got nan"),
        ({"lr": math.inf}, "lr: expected a number below 1e+30, got inf"),
        ({"lr": 10**400}, "lr: expected a number below 1e+30, got 1000"),
        ({"lr": -0.1}, "lr: expected 0 or more, got -0.1"),
        ({"rgb_std": [0, 1, 1]}, "rgb_std: expected numbers above 0"),
        ({"devices": 10**8, "kvstore": "dist_sync"}, "devices: expected 10000 or fewer"),
        (
            {"mode": "test-io", "kvstore": "dist_sync", "data_train": "x.rec"},
            "kvstore: expected one process (local) for test-io",
        ),
        (
            {"mode": "test-io", "data_train": "x.rec", "devices": 2},
            "devices: expected one host for test-io, and devices_per_worker = 1, got 1 and 2",
        ),
        (
            {"mode": "test-io", "data_train": "x.rec", "devices": 2, "devices_per_host": 1},
            "devices: expected one host for test-io, and devices_per_worker = 1, got 2 and 1",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as caught:
        make(BASE | fields)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_batch_has_to_be_given() -> None:
    with pytest.raises(SpecError, match="batch_per_device: expected a number of images"):
        make({"network": "alexnet"})
