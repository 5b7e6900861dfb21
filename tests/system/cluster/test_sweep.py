"""Sweeps over a local test cluster: training, bandwidth, placement of processes."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

import fabfile as _fabfile
from launch.practice.cluster import Cluster
from results.store import read_records
from tests.support.hosts.cluster_sweeps import FAKE, swept
from tests.support.hosts.clusters import empty_within
from tests.support.programs.commands import fab as run_fab
from tests.support.programs.commands import refusal
from tests.support.repeats import slow

fabfile: Any = _fabfile
pytestmark = pytest.mark.cluster


TRAINING = """
network = "tiny"
image_shape = [3, 32, 32]
batch_per_device = 8
repeats = 1
windows = 5
precision = 0.0
[[points]]
kvstore = "dist_sync"
devices = [2]
devices_per_host = 1
"""


@pytest.mark.mxnet
def test_a_network_trains_on_two_hosts(practice: Cluster, tmp_path: Path) -> None:
    sweep, hosts = tmp_path / "training.toml", tmp_path / "hosts"
    sweep.write_text(TRAINING)
    hosts.write_text("node01 slots=1\nnode02 slots=1\n")
    words = ["--hostfile", str(hosts), "--ssh-config", str(practice.ssh_config)]
    words += ["--point", "x2", "--run", str(tmp_path / "run")]
    done = run_fab("bench.sweep", str(sweep), *words, timeout=240)
    assert done.returncode in (0, 6), done.stderr  # 6 on a busy machine: not steady, but measured
    assert empty_within(practice, 2.0)
    (record,) = read_records(tmp_path / "run")
    assert {rank.host for rank in record.ranks} == {"node01", "node02"}
    assert len({rank.facts["weight_hash"] for rank in record.ranks}) == 1
    text = (tmp_path / "run" / "report" / "results.csv").read_text()
    (row,) = csv.DictReader(text.splitlines())
    assert (row["devices"], row["hosts"]) == ("2", "2")
    environment = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert environment["hosts"]["node02"]["mxnet"] == "1.9.1"
    assert environment["raw_tcp_mb_per_second"] > 1


@pytest.mark.mxnet
@pytest.mark.slow
def test_a_network_trains_on_one_two_and_four_hosts(practice: Cluster, tmp_path: Path) -> None:
    done, records = swept(practice, tmp_path, "smoke", "--devices-per-node", "1")
    assert done.returncode in (0, 6), done.stderr  # 6 on a busy machine: not steady, but measured
    assert [(one["trial"]["kvstore"], len(one["ranks"])) for one in records] == [
        ("local", 1),
        ("dist_sync", 1),
        ("dist_sync", 2),
        ("dist_sync", 4),
    ]
    names = {rank["host"] for rank in records[-1]["ranks"]}
    assert names == {"node01", "node02", "node03", "node04"}
    assert len({rank["facts"]["weight_hash"] for rank in records[-1]["ranks"]}) == 1
    text = (tmp_path / "run" / "report" / "results.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    assert [(row["devices"], row["hosts"]) for row in rows] == [
        ("1", "1"),
        ("1", "1"),
        ("2", "2"),
        ("4", "4"),
    ]
    assert {row["status"] for row in rows} <= ({"ok", "unstable"} if done.returncode else {"ok"})
    environment = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert environment["hosts"]["node03"]["mxnet"] == "1.9.1"


def roles(record: dict[str, Any], folder: Path) -> dict[str, set[str]]:
    """Return the hosts of each role in a record's job, from its logs."""
    path = folder / "run" / "logs" / record["identity"]["key"] / "0" / "hosts.json"
    found: dict[str, set[str]] = {}
    for process, host in json.loads(path.read_text()).items():
        found.setdefault(process.partition("-")[0], set()).add(host)
    return found


@pytest.mark.slow
def test_servers_may_have_hosts_of_their_own_and_the_scheduler_the_master(
    practice: Cluster, tmp_path: Path
) -> None:
    sweep = tmp_path / "fake.toml"
    sweep.write_text(FAKE)
    words = ["--server-hosts", "1", "--servers-per-host", "2", "--scheduler", "master"]
    words += ["-x", "GREETING=hello world", "--devices-per-node", "1", "--point", "x3"]
    done, records = swept(practice, tmp_path, str(sweep), *words)
    assert done.returncode == 0, done.stderr
    (last,) = records
    assert last["trial"]["env"] == ["GREETING=hello world"]
    assert (last["status"], len(last["ranks"])) == ("ok", 3)
    placed = roles(last, tmp_path)
    assert placed["worker"] == {"node01", "node02", "node03"}
    assert placed["server"] == {"node04"}
    assert "(controller)" in placed["scheduler"].pop()


def test_a_port_that_is_taken_on_the_first_host_is_said_before_anything_starts(
    practice: Cluster, tmp_path: Path
) -> None:
    sweep = tmp_path / "fake.toml"
    sweep.write_text(FAKE)
    options = {"hosts": "node01:1", "ssh_config": str(practice.ssh_config), "port": "22"}
    options["run"] = str(tmp_path / "run")
    code, said = refusal(fabfile.bench.bench_sweep, str(sweep), **options)
    assert (code, "node01: --port 22: cannot be used on" in said) == (2, True), said
    assert not (tmp_path / "run" / "records.jsonl").exists()
    assert empty_within(practice, 2.0)


@pytest.mark.mxnet
@pytest.mark.parametrize("count", slow(2, 4))
def test_a_worker_on_each_host_moves_the_arrays_of_a_network(
    practice: Cluster, tmp_path: Path, count: int
) -> None:
    names = [node.name for node in practice.nodes[:count]]
    words = ["--hosts", ",".join(names), "--ssh-config", str(practice.ssh_config)]
    words += ["--network", "tiny", "--windows", "5", "--repeats", "1"]
    done = run_fab("bench.bandwidth", *words, "--run", f"{tmp_path}/run", timeout=240)
    assert done.returncode in (0, 6), done.stderr  # 6 on a busy machine: not steady, but measured
    assert empty_within(practice, 2.0)
    assert re.search(
        r"one raw TCP connection from the first host to the last moves \d+ MB/s \(mean of before "
        r"and after\); a worker moves \d+% of that in each direction",
        done.stdout,
    )
    record = json.loads((tmp_path / "run" / "records.jsonl").read_text())
    assert record["status"] == "ok"
    assert {rank["host"] for rank in record["ranks"]} == set(names)
    assert len({rank["facts"]["bytes_each_way"] for rank in record["ranks"]}) == 1
