"""Kvstore `allreduce` of engine `mxnet` on the controller, which needs no PyTorch."""

from typing import Any

import pytest

from bench.engines.mxnet import MXNET
from bench.errors import SpecError
from bench.sweep import Sweep
from bench.training.options import parse
from bench.trial import Trial, make
from launch import setup
from launch.hosts import pretend
from launch.job.plan import plan
from launch.remote.errors import LaunchError

pytestmark = pytest.mark.pythons


def trial(**fields: Any) -> Trial:
    return make({"kvstore": "allreduce", "batch_per_device": 8, "devices": 2} | fields)


def sweep_of(*trials: Trial) -> Sweep:
    return Sweep(name="t", description="", repeats=1, trials=trials, text="")


def test_workers_meet_at_the_first_without_servers() -> None:
    first, second = plan(trial(devices_per_host=1), pretend(2, 1), 7000)
    root = {"MASTER_ADDR": first.host.address, "MASTER_PORT": "7000", "WORLD_SIZE": "2"}
    assert (first.role, second.role, trial().servers) == ("worker", "worker", 0)
    assert first.env.items() >= {**root, "RANK": "0"}.items()
    assert second.env["MXSCALE_ADDRESS"] == second.host.address
    assert (first.listens, second.listens) == (f"{first.host.address}:7000", "")
    assert {"DMLC_", "RANK", "WORLD_SIZE"} <= set(second.foreign)
    assert not [name for name in first.env if name.startswith("DMLC_")]
    assert trial().root == "worker-0"
    assert trial(kvstore="dist_sync").root == "scheduler-0"


def test_a_worker_reads_the_kvstore_that_the_trial_has() -> None:
    module, *rest = MXNET.command(trial(), "worker", 0)[1:]
    assert (module, parse(rest).kv_store) == ("bench.train_imagenet", "allreduce")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"device": "gpu"}, "'allreduce': expected CPUs, got GPUs. Use dist_device_sync, or engi"),
        ({"devices_per_worker": 2}, "expected 1 device per worker, got 2. Start a worker for each"),
        ({"gc_type": "2bit"}, r"expected a kvstore with servers \(dist_...\) for 2bit, got 'allr"),
        ({"mode": "bandwidth"}, "expected a kvstore with servers"),
        ({"mode": "test-io", "data_train": "x"}, r"expected one process \(local\) for test-io"),
        ({"env": ["RANK=3"]}, "the launcher sets RANK. Leave it out"),
        ({"env": ["DMLC_PS_VAN_TYPE=p3"]}, "expected a synchronous kvstore with servers, got 'all"),
        (
            {"options": ["--optimizer=sgld"]},
            "the workers would have different weights. Use another",
        ),
        ({"options": ["--profile-server-suffix=x"]}, "server"),
        ({"servers_per_host": 1}, "server_hosts: kvstore 'allreduce' has no servers. Leave them"),
        ({"server_hosts": 1}, "server_hosts: kvstore 'allreduce' has no servers. Leave them out"),
    ],
)
def test_what_all_reduce_lacks_is_refused_before_anything_starts(
    fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(SpecError, match=said) as raised:
        trial(**fields)
    assert "\n" not in str(raised.value)


def test_a_worker_typed_by_hand_is_refused_alike() -> None:
    words = "--network tiny --benchmark 1 --windows 1 --kv-store allreduce"
    with pytest.raises(SpecError, match="'allreduce': expected CPUs, got GPUs"):
        parse([*words.split(), "--gpus", "0"])


def test_bfloat16_needs_avx512_on_this_machine_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needed = {"AVX2": ("sse4_1", "avx", "avx2"), "no known instruction set": ()}
    monkeypatch.setattr(setup, "installed_version", lambda package: "1")
    what = sweep_of(trial(dtype="bfloat16", kvstore="dist_sync"))
    for newest, flags in needed.items():
        monkeypatch.setattr(setup, "cpu_flags", lambda flags=flags: frozenset(flags))
        with pytest.raises(
            LaunchError,
            match=f": dtype bfloat16: expected a CPU with AVX-512, got {newest}. Use float32$",
        ):
            setup.local_setup(what)
    assert setup.local_setup(sweep_of(trial(dtype="bfloat16", engine="fake"))).hosts
    assert setup.local_setup(sweep_of(trial())).hosts


def test_this_machine_needs_pytorch_unless_the_job_is_simulated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(setup, "installed_version", lambda package: package == "mxnet" and "1")
    with pytest.raises(LaunchError, match=r"^kvstore 'allreduce': expected PyTorch, got none in"):
        setup.local_setup(sweep_of(trial()))
    simulated = trial(engine="fake")
    assert (simulated.engines, simulated.workers) == (("fake",), 2)
    setup.local_setup(sweep_of(simulated))
    assert trial().engines == ("mxnet", "torch")
    assert trial(kvstore="dist_sync").engines == ("mxnet",)


def test_a_worker_sends_its_gradients_once_to_the_other() -> None:
    comm = MXNET.comms["allreduce"]
    assert MXNET.wire_bytes(comm, "none", 800) == 800
