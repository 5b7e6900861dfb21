"""The plan of a job: every process once, on the right host, with its settings."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.sweep import load_sweep
from bench.trial import Trial, make
from launch.hosts import Host, pretend, rehearse
from launch.job.plan import (
    describe,
    device_warnings,
    emulated,
    oversubscription,
    plan,
    thread_warnings,
)
from launch.remote.errors import LaunchError
from launch.sweep import ClusterSetup, check_devices
from tests.support.paths import GOLDEN

TWO_CORES = Host(name="node01", address="192.0.2.1", cpus=2, gpus=0, cores=(0, 1))


def distributed(hosts: int, per_host: int, per_worker: int = 1) -> Trial:
    return make(
        {
            "network": "tiny",
            "batch_per_device": 4,
            "kvstore": "dist_sync",
            "devices": hosts * per_host * per_worker,
            "devices_per_host": per_host * per_worker,
            "devices_per_worker": per_worker,
        }
    )


@given(st.integers(1, 16), st.integers(1, 8), st.integers(1, 4))
def test_every_process_stands_once_on_its_host(hosts: int, per_host: int, per_worker: int) -> None:
    trial = distributed(hosts, per_host, per_worker)
    processes = plan(trial, pretend(hosts, per_host * per_worker), 9091)
    ids = [process.id for process in processes]
    assert len(set(ids)) == len(ids) == 1 + 2 * hosts * per_host
    workers = [process for process in processes if process.role == "worker"]
    assert [process.index for process in workers] == list(range(trial.workers))
    for host in pretend(hosts, per_host * per_worker):
        assert sum(process.host == host for process in workers) == per_host
    servers = [process for process in processes if process.role == "server"]
    assert [process.host for process in servers] == [process.host for process in workers]


@given(st.integers(1, 16), st.integers(1, 8))
def test_all_processes_agree_on_the_job(hosts: int, per_host: int) -> None:
    processes = plan(distributed(hosts, per_host), pretend(hosts, per_host), 9091)
    shared = ("DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT", "DMLC_NUM_WORKER", "DMLC_NUM_SERVER")
    assert len({tuple(process.env[name] for name in shared) for process in processes}) == 1
    assert all(process.env["DMLC_NODE_HOST"] == process.host.address for process in processes)
    assert all(process.env["DMLC_ROLE"] == process.role for process in processes)


def test_cpu_devices_are_cores_that_servers_share() -> None:
    processes = plan(distributed(1, 2), [TWO_CORES], 9091)
    cores = {process.id: process.cores for process in processes}
    assert cores == {
        "scheduler-0": (),
        "server-0": (0,),
        "server-1": (1,),
        "worker-0": (0,),
        "worker-1": (1,),
    }


def test_one_worker_with_two_cpu_devices_has_two_cores() -> None:
    trial = make({"network": "tiny", "batch_per_device": 4, "devices": 2})
    (worker,) = plan(trial, [TWO_CORES], 9091)
    assert worker.cores == (0, 1)
    assert "DMLC_ROLE" not in worker.env
    assert worker.env["OMP_NUM_THREADS"] == "1"


def test_several_readers_have_a_core_each_and_a_single_one_may_use_all() -> None:
    base = {"mode": "test-io", "batch_per_device": 4, "data_train": "x.rec"}
    (alone,) = plan(make(base), [TWO_CORES], 9091)
    assert (alone.cores, "MXSCALE_LOCAL" in alone.env) == ((), False)
    assert alone.family  # the processes that decode for it
    trial = make(base | {"devices": 2, "devices_per_worker": 1})
    found = plan(trial, [TWO_CORES], 9091)
    assert [(one.cores, one.family) for one in found] == [((0,), False), ((1,), False)]
    assert [one.env["MXSCALE_LOCAL"] for one in found] == ["0/2", "1/2"]
    assert trial.asynchronous
    assert not emulated(trial, [TWO_CORES])


def test_more_devices_than_a_host_has_is_emulated() -> None:
    assert emulated(distributed(1, 4), [TWO_CORES])
    assert not emulated(distributed(1, 2), [TWO_CORES])
    assert {c for p in plan(distributed(1, 4), [TWO_CORES], 1) for c in p.cores} == {0, 1}


def test_too_few_hosts_are_refused() -> None:
    with pytest.raises(LaunchError, match="expected 2 hosts with 2 devices, got 1"):
        plan(distributed(2, 2), [TWO_CORES], 9091)


def test_a_printed_plan_names_oversubscribed_points() -> None:
    assert oversubscription(distributed(1, 2), [TWO_CORES]) == []
    (line,) = oversubscription(distributed(1, 4), [TWO_CORES])
    assert line.startswith("# tiny dist_sync x4: oversubscribed: 4 devices on 2 cores of ")
    assert line.endswith("; not valid as a performance result")
    hosts = [replace(TWO_CORES, name=name, machine="m") for name in ("a", "b")]
    (line,) = oversubscription(distributed(2, 2), hosts)
    assert ": 4 devices on 2 cores of the machine that 2 hosts share; " in line


def test_too_few_devices_are_a_warning_before_the_start() -> None:
    gpu = distributed(1, 2).replace(device="gpu")
    assert device_warnings([distributed(1, 2)], [TWO_CORES]) == []
    two = [distributed(1, 4), distributed(1, 4).replace(batch_per_device=1)]
    (line,) = device_warnings(two, [TWO_CORES])
    name = f"{two[0].name} (batch_per_device {two[0].training.batch_per_device})"
    assert line == f"warning: 4 devices on 2 cores of {TWO_CORES.name} ({name} and 1 more)"
    (line,) = device_warnings([gpu], [TWO_CORES])
    assert line.startswith(f"warning: no GPU of {TWO_CORES.name}; --engine simulated")
    assert device_warnings([gpu.replace(engine="fake")], [TWO_CORES]) == []


def test_gpus_belong_to_workers_alone() -> None:
    trial = next(trial for trial in load_sweep("seed").trials if trial.layout.devices == 32)
    processes = plan(trial, pretend(2, 16), 9091)
    for process in processes:
        if process.role == "worker":
            assert "--gpus" in process.argv
            assert "CUDA_VISIBLE_DEVICES" not in process.env
        else:
            assert process.env["CUDA_VISIBLE_DEVICES"] == ""


def test_a_printed_plan_is_stable() -> None:
    fields = {"network": "resnet", "num_layers": 18, "batch_per_device": 4, "windows": 3}
    trial = make(fields | {"kvstore": "dist_sync", "devices": 2})
    text = "\n".join(describe(plan(trial, [TWO_CORES], 9091))) + "\n"
    assert text == (GOLDEN / "plan.txt").read_text()


def test_no_secret_and_no_dmlc_variable_stands_on_a_command_line() -> None:
    for process in plan(distributed(2, 2), pretend(2, 2), 9091):
        assert not any("DMLC" in word for word in process.argv)


def test_rehearsed_hosts_have_names_of_their_own() -> None:
    assert [host.name for host in rehearse(3, 16)] == ["host01", "host02", "host03"]
    assert len({host.address for host in rehearse(3, 16)}) == 1


def on_gpus(devices: int, per_worker: int, **fields: bool) -> Trial:
    layout = {"devices": devices, "devices_per_worker": per_worker, "kvstore": "dist_sync"}
    return make({"device": "gpu", "batch_per_device": 4, **layout, **fields})


def test_workers_of_one_host_have_gpus_of_their_own() -> None:
    host = replace(TWO_CORES, gpus=4)
    processes = plan(on_gpus(4, 2), [host], 9091)
    workers = [process for process in processes if process.role == "worker"]
    assert [process.gpus for process in workers] == [(0, 1), (2, 3)]
    assert [process.env["CUDA_VISIBLE_DEVICES"] for process in workers] == ["0,1", "2,3"]
    (gpus,) = {process.argv[process.argv.index("--gpus") + 1] for process in workers}
    assert gpus == "0,1"


def test_more_workers_than_gpus_share_them_only_where_that_is_asked_for() -> None:
    host = replace(TWO_CORES, gpus=2)
    trial = on_gpus(4, 1, emulate=True)
    workers = [process for process in plan(trial, [host], 9091) if process.role == "worker"]
    assert [process.env["CUDA_VISIBLE_DEVICES"] for process in workers] == ["0", "1", "0", "1"]
    assert emulated(trial, [host])
    check_devices(trial, ClusterSetup(hosts=(host,)))
    with pytest.raises(LaunchError, match=r"expected 4 GPUs on node01, .* got 2\. .* emulate"):
        check_devices(on_gpus(4, 1), ClusterSetup(hosts=(host,)))
    with pytest.raises(LaunchError, match="4 per worker, got 2"):
        check_devices(on_gpus(4, 4, emulate=True), ClusterSetup(hosts=(host,)))


def test_more_threads_than_cores_of_a_worker_are_a_warning() -> None:
    two = [distributed(1, 2).replace(env=("OMP_NUM_THREADS=2",)), distributed(1, 1)]
    assert thread_warnings(two, [TWO_CORES]) == [
        f"warning: OMP_NUM_THREADS=2 exceeds the 1 core that a worker is bound to, so its threads "
        f"share it ({two[0].name})"
    ]
    for text in ("1", "x", ""):
        one = two[0].replace(env=(f"OMP_NUM_THREADS={text}",))
        assert thread_warnings([one], [TWO_CORES]) == []
    assert thread_warnings([two[0].replace(engine="fake")], [TWO_CORES]) == []
