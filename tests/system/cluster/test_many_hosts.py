"""Many hosts, most of them dead: neither live hosts nor the user wait for them."""

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from launch.hosts import ROOT
from launch.practice.cluster import Cluster
from launch.preflight.check import examine
from launch.preflight.findings import HostReport
from tests.support.hosts.clusters import FAKE, dead, listed, looked_at, ssh, with_jump
from tests.support.repeats import slow

pytestmark = pytest.mark.cluster
FAB = str(ROOT / ".venv" / "bin" / "fab")


def test_hosts_that_live_do_not_wait_for_those_that_are_dead(practice: Cluster) -> None:
    looked_at(practice)  # caches the facts of MXNet's import
    reports: list[tuple[float, HostReport]] = []
    began = time.monotonic()
    hosts = [*dead(practice, 120), *listed(practice)]
    with closing(ssh(practice)) as connections:
        found = examine(
            hosts,
            connections.start,
            FAKE,
            lambda one: reports.append((time.monotonic() - began, one)),
        )
    seconds = time.monotonic() - began
    assert [one.problems == () for one in found] == [False] * 120 + [True] * 4
    answered = [at for at, one in reports if one.facts]
    failed = [at for at, one in reports if one.problems]
    assert (len(answered), len(failed)) == (4, 120)
    assert max(answered) < 10.0  # 5 s on an idle machine
    assert max(failed) < 15.0  # the deadline of one connection; 8 at once would take 45 s
    assert seconds < 25.0


def test_dead_hosts_behind_a_gateway_do_not_wait_for_each_other(
    practice: Cluster, tmp_path: Path
) -> None:
    config = with_jump(practice, tmp_path)
    subnet = practice.nodes[0].address.rpartition(".")[0]
    config.write_text(f"{config.read_text()}\nHost {subnet}.*\n    ProxyJump node01\n")
    hosts = [*dead(practice, 60), listed(practice)[1]]
    began = time.monotonic()
    with closing(ssh(practice, config)) as connections:
        found = examine(hosts, connections.start, FAKE)
    assert [one.problems == () for one in found] == [False] * 60 + [True]
    assert time.monotonic() - began < 25.0


def test_hosts_are_printed_as_they_fail_and_an_interrupt_ends_the_check_at_once(
    practice: Cluster, tmp_path: Path
) -> None:
    hosts = tmp_path / "hosts"
    subnet = practice.nodes[0].address.rpartition(".")[0]
    names = [f"{subnet}.{n}" for n in range(100, 220)]
    hosts.write_text("".join(f"{name} slots=1\n" for name in [*names, "node01"]))
    words = ["hosts.check", "--hostfile", str(hosts), "--ssh-config", str(practice.ssh_config)]
    with subprocess.Popen(
        [FAB, *words], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as check:
        assert check.stderr is not None
        assert "] node01: connected" in check.stderr.readline()  # long before the verdict
        began = time.monotonic()
        os.kill(check.pid, signal.SIGINT)
        check.stderr.read()
        assert check.wait(20) == 130
    assert time.monotonic() - began < 3.0  # 0.2 s on an idle machine


@pytest.mark.parametrize("most", [140, *slow(70)])
def test_a_process_stays_within_its_open_files(practice: Cluster, most: int) -> None:
    code = f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, ({most}, {most}))
from contextlib import closing
from pathlib import Path
from launch.preflight.check import examine
from launch.practice.cluster import load
from tests.support.hosts.clusters import FAKE, listed, looked_at, ssh
from tests.support.hosts.clusters import dead
cluster = load(Path({str(practice.folder)!r}))
with closing(ssh(cluster)) as connections:
    found = examine([*dead(cluster, 60), *listed(cluster)], connections.start, FAKE)
print([one.problems == () for one in found] == [False] * 60 + [True] * 4)
print(sum("open file" in problem for one in found for problem in one.problems))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    said = done.stdout.split()
    if most == 140:
        assert said == ["True", "0"], done.stderr
    else:  # too few for four at once: the error names the limit
        assert done.returncode == 0, done.stderr
