"""Sources of hosts (options, variables, Slurm) and their numbers of devices."""

from pathlib import Path

import pytest

from launch import hostfile
from launch.hostfile import HostEntry, find, nodelist, with_devices
from launch.remote.errors import LaunchError


def host(target: str, slots: int | None = None, port: int | None = None) -> HostEntry:
    return HostEntry(target=target, port=port, slots=slots)


# As `scontrol show hostnames` of Slurm 22.05 gives them.
@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "tux[1-3,07],gpu-[01-02]x[1-2],login",
            "tux1 tux2 tux3 tux07 gpu-01x1 gpu-01x2 gpu-02x1 gpu-02x2 login",
        ),
        ("n[9-11]", "n9 n10 n11"),
        ("n[09-11]", "n09 n10 n11"),
        ("n[098-101]", "n098 n099 n100 n101"),
        ("n[1-010]", "n1 n2 n3 n4 n5 n6 n7 n8 n9 n10"),
        ("a[1-2][3-4]", "a13 a14 a23 a24"),
        ("tux[1,3-4,08-10]", "tux1 tux3 tux4 tux08 tux09 tux10"),
        ("n[000-002],m", "n000 n001 n002 m"),
        ("n-1,n2", "n-1 n2"),
    ],
)
def test_a_node_list_is_expanded_as_slurm_does(text: str, names: str) -> None:
    assert nodelist(text) == tuple(names.split())


SYNTAX = [
    "",
    "a[",
    "a[1",
    "a1]",
    "a[]",
    "a[3-1]",
    "a[x]",
    "a[-2]",
    "a[1-]",
    "a,,b",
    "a b",
    "a[1[2]]",
]
TOO_MANY = ["a[0-10000]", "a[1-200][1-200]", "a[1-9999],b[1-2]", f"a[1-{'9' * 40}]"]


@pytest.mark.parametrize("text", [*SYNTAX, *TOO_MANY, "-a", "(null)"])
def test_a_node_list_that_slurm_does_not_write_is_refused(text: str) -> None:
    with pytest.raises(LaunchError, match=r"^\$SLURM_JOB_NODELIST: expected "):
        nodelist(text)


@pytest.mark.parametrize(
    ("gpus", "slots"),
    [
        ({}, None),
        ({"SLURM_GPUS_ON_NODE": "4"}, 4),
        ({"SLURM_GPUS_ON_NODE": "0"}, None),
        ({"SLURM_GPUS_ON_NODE": "4", "SLURM_GPUS": "6"}, None),
        ({"SLURM_GPUS_ON_NODE": "2", "SLURM_GPUS_PER_TASK": "2"}, None),
        ({"SLURM_GPUS_PER_NODE": "4", "SLURM_GPUS": "8"}, 4),
        ({"SLURM_GPUS_PER_NODE": "v100:2", "SLURM_GPUS_ON_NODE": "2"}, 2),
        ({"SLURM_JOB_GPUS": "7"}, None),
    ],
)
def test_slurm_is_believed_where_its_count_holds_for_every_node(
    gpus: dict[str, str], slots: int | None
) -> None:
    found = find("", "", "", {"SLURM_JOB_NODELIST": "n[1-2]", **gpus})
    assert found == (host("n1", slots), host("n2", slots))


def test_the_gpus_of_the_only_node_are_all_that_the_job_has() -> None:
    alone = {"SLURM_JOB_NODELIST": "n1", "SLURM_GPUS": "4", "SLURM_GPUS_ON_NODE": "4"}
    assert find("", "", "", alone) == (host("n1", 4),)


def test_the_nearest_place_that_lists_hosts_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mine", "workers", "amazon"):
        (tmp_path / name).write_text(f"{name}\n")
    monkeypatch.setattr(hostfile, "AMAZON", tmp_path / "amazon")
    slurm = {"SLURM_JOB_NODELIST": "slurm"}
    everything = {"DEEPLEARNING_WORKERS_PATH": str(tmp_path / "workers"), **slurm}
    assert find("", "option:4", "", everything) == (host("option", 4),)
    assert find(str(tmp_path / "mine"), "", "", everything) == (host("mine"),)
    assert find("", "", "", everything) == (host("workers"),)
    assert find("", "", "", slurm) == (host("slurm"),)
    assert find("", "", "", {}) == (host("amazon"),)
    (tmp_path / "amazon").unlink()
    assert find("", "", "", {}) == ()


@pytest.mark.parametrize(
    ("path", "hosts", "format", "said"),
    [
        ("f", "h1", "", "--hosts: expected no --hostfile"),
        ("", "h1:2222", "", "^--hosts, host 1: expected a clear meaning of N, got 'h1:2222'"),
        ("", "", "pbs", "--hosts-format: expected dmlc or mpich, got 'pbs'"),
        ("absent", "", "", "^absent: .*No such file"),
        ("", "", "", r"^\$DEEPLEARNING_WORKERS_PATH: absent: .*No such file"),
    ],
)
def test_options_and_variables_that_name_no_hosts_are_refused(
    path: str, hosts: str, format: str, said: str
) -> None:
    with pytest.raises(LaunchError, match=said):
        find(path, hosts, format, {"DEEPLEARNING_WORKERS_PATH": "absent"})


def test_hosts_that_differ_give_as_many_devices_as_the_smallest() -> None:
    used, notes = with_devices((host("node01", 4), host("node02", 2, 22)), None)
    assert used == (host("node01", 2), host("node02", 2, 22))
    assert notes == ("devices: node02 has 2, node01 has 4; a sweep uses 2 on each host",)
    assert with_devices(used, None) == (used, ())
    assert with_devices((), None) == ((), ())


def test_a_number_of_devices_given_overrides_what_was_listed_and_says_so() -> None:
    listed = (host("node01", 4), host("node02", 2), host("node03"))
    used, notes = with_devices(listed, 2)
    assert [each.slots for each in used] == [2, 2, 2]
    assert notes == ("node01: --devices-per-node 2 overrides the listed number",)
    with pytest.raises(
        LaunchError, match="--devices-per-node: expected N from 1 to 10000, got '0'"
    ):
        with_devices(listed, 0)


def test_a_host_without_a_number_of_devices_is_named() -> None:
    with pytest.raises(LaunchError, match=r"^b, c, d and 1 more: .*Add slots=N .*--devices-per-"):
        with_devices((host("a", 1), *map(host, "bcde")), None)
