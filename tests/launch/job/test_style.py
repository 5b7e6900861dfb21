"""Variables of the processes of a script, in the styles of four frameworks."""

import json

import pytest

from launch.hosts import pretend
from launch.job.plan import Process
from launch.job.style import Style, layout, listeners, started, variables

pytestmark = pytest.mark.pythons
PORTS = {f"{role}-{index}": 9000 + index for role in ("scheduler", "worker") for index in range(9)}
PORTS |= {f"server-{index}": 8000 + index for index in range(9)}


def job(style: Style, hosts: int, workers: int, servers: int = 0) -> list[Process]:
    return layout(style, pretend(hosts, 4), workers, servers, ("./x",))


def found(style: Style, hosts: int, workers: int, servers: int = 0) -> dict[str, dict[str, str]]:
    return variables(style, job(style, hosts, workers, servers), PORTS)


def places(processes: list[Process]) -> list[tuple[str, str]]:
    return [(one.id, one.host.name) for one in processes]


def test_dmlc_has_a_scheduler_and_places_workers_in_turn() -> None:
    assert places(job(Style.DMLC, 2, 3, 1)) == [
        ("scheduler-0", "host01"),
        ("server-0", "host01"),
        ("worker-0", "host01"),
        ("worker-1", "host02"),
        ("worker-2", "host01"),
    ]
    env = found(Style.DMLC, 2, 3, 1)
    assert [one["DMLC_ROLE"] for one in env.values()] == ["scheduler", "server", *["worker"] * 3]
    assert env["worker-1"] == {
        "DMLC_ROLE": "worker",
        "DMLC_PS_ROOT_URI": "192.0.2.1",
        "DMLC_PS_ROOT_PORT": "9000",
        "DMLC_NUM_WORKER": "3",
        "DMLC_NUM_SERVER": "1",
        "DMLC_NODE_HOST": "192.0.2.2",
    }


def test_torch_has_consecutive_ranks_on_a_host() -> None:
    env = found(Style.TORCH, 2, 5)
    shared = {"MASTER_ADDR": "192.0.2.1", "MASTER_PORT": "9000", "WORLD_SIZE": "5"}
    local = [("0", "3"), ("1", "3"), ("2", "3"), ("0", "2"), ("1", "2")]
    assert list(env.values()) == [
        shared | {"RANK": str(rank), "LOCAL_RANK": own, "LOCAL_WORLD_SIZE": size}
        for rank, (own, size) in enumerate(local)
    ]


@pytest.mark.parametrize("workers", [1, 2, 3, 7, 16])
@pytest.mark.parametrize("hosts", [1, 2, 3, 7])
def test_every_host_gets_its_part_of_the_ranks(hosts: int, workers: int) -> None:
    used = [one.host.name for one in job(Style.TORCH, hosts, workers)]
    assert used == sorted(used)
    counts = [used.count(name) for name in sorted(set(used))]
    assert len(counts) == min(hosts, workers)
    assert max(counts) - min(counts) <= 1


def test_tensorflow_lists_the_address_of_every_task() -> None:
    env = found(Style.TENSORFLOW, 2, 2, 1)
    cluster = {"ps": ["192.0.2.1:8000"], "worker": ["192.0.2.1:9000", "192.0.2.2:9001"]}
    assert {id: json.loads(one["TF_CONFIG"]) for id, one in env.items()} == {
        "server-0": {"cluster": cluster, "task": {"type": "ps", "index": 0}},
        "worker-0": {"cluster": cluster, "task": {"type": "worker", "index": 0}},
        "worker-1": {"cluster": cluster, "task": {"type": "worker", "index": 1}},
    }
    (alone,) = found(Style.TENSORFLOW, 1, 1).values()
    assert list(json.loads(alone["TF_CONFIG"])["cluster"]) == ["worker"]


def test_mpi_starts_one_process_with_the_hosts_and_their_counts() -> None:
    wanted = job(Style.MPI, 3, 5)
    assert places(list(started(Style.MPI, wanted))) == [("worker-0", "host01")]
    assert found(Style.MPI, 3, 5) == {
        "worker-0": {"MXSCALE_HOSTS": "192.0.2.1:2,192.0.2.2:2,192.0.2.3:1"}
    }


def test_only_processes_with_a_known_address_need_a_port() -> None:
    def ids(style: Style, servers: int = 0) -> list[str]:
        return [one.id for one in listeners(style, job(style, 2, 2, servers))]

    assert ids(Style.DMLC, 2) == ["scheduler-0"]
    assert ids(Style.TORCH) == ["worker-0"]
    assert ids(Style.TENSORFLOW, 1) == ["server-0", "worker-0", "worker-1"]
    assert ids(Style.MPI) == []
