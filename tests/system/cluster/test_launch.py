"""launch.launch on a local test cluster: variables, and no remaining processes."""

import json
import signal
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from launch.hosts import ROOT
from launch.practice.cluster import cut, inside, mend
from launch.practice.namespaces import USER
from launch.practice.state import Cluster
from tests.support.fuzz.hostile import ARRIVES, HOSTILE, hostile_words
from tests.support.programs.jobs import until
from tests.support.programs.launcher import ended
from tests.support.programs.launcher import launching as launching_with
from tests.support.repeats import slow

pytestmark = pytest.mark.cluster


def launching(
    practice: Cluster, *words: str, folder: Path = ROOT
) -> AbstractContextManager[subprocess.Popen[str]]:
    """Run the launcher with these hosts."""
    hosts = ["-H", str(practice.hostfile), "--ssh-config", str(practice.ssh_config)]
    return launching_with(*hosts, *words, folder=folder)


def launched(practice: Cluster, *words: str, folder: Path = ROOT) -> tuple[int, list[str], str]:
    """Return its exit code and output; no process may remain on any host."""
    with launching(practice, *words, folder=folder) as launcher:
        found = ended(launcher, 90)
    assert until(lambda: sleepers(practice) == 0, 1)
    return found


def sleepers(practice: Cluster) -> int:
    """Count the processes of the tests' jobs on the hosts."""
    counts = [
        inside(practice, node.name, ["pgrep", "-c", "-u", USER, "sleep|python"])
        for node in practice.nodes
    ]
    return sum(int(count.stdout) for count in counts)


def test_arguments_and_variables_arrive_byte_for_byte_on_every_host(practice: Cluster) -> None:
    variables, expected = hostile_words()
    code, lines, said = launched(practice, "-n", "3", *variables, "--", *ARRIVES, *HOSTILE)
    assert (code, said) == (0, "")
    arrived = {line.partition("] ")[0]: json.loads(line.partition("] ")[2]) for line in lines}
    assert len(arrived) == 7
    for one in arrived.values():
        assert one == expected


def test_processes_go_round_the_hosts_and_know_their_addresses(practice: Cluster) -> None:
    body = 'echo "$(hostname) $DMLC_NODE_HOST $DMLC_PS_ROOT_URI"'
    count = len(practice.nodes)
    words = ("-n", f"{count + 1}", "-s", "2", "--interface", "eth0", "sh", "-c", body)
    code, lines, _ = launched(practice, *words)
    who = [("scheduler", 0), ("server", 0), ("server", 1)]
    who += [("worker", index) for index in range(count + 1)]
    root, expected = practice.nodes[0].address, []
    for role, index in who:
        node = practice.nodes[index % count]
        expected.append(f"[{node.name} {role} {index}] {node.name} {node.address} {root}")
    assert (code, sorted(lines)) == (0, sorted(expected))


@pytest.mark.parametrize("style", ["torch", "tensorflow", "mpi"])
def test_scripts_of_other_frameworks_connect_across_hosts(practice: Cluster, style: str) -> None:
    """Of five ranks on four hosts, the first host has two."""
    script = str(ROOT / "tests" / "support" / "programs" / "style_script.py")
    words = ("-n", "5", "--style", style, "--interface", "eth0")
    code, lines, said = launched(practice, *words, sys.executable, script, style)
    assert (code, said) == (0, "")
    first, *others = practice.nodes[:4]
    local = ["local 0 of 2", "local 1 of 2", *["local 0 of 1"] * 3]
    counts = [f"{first.address}:2", *(f"{node.address}:1" for node in others)]
    expected = {
        "torch": [f"rank {rank} of 5, {local[rank]}" for rank in range(5)],
        "tensorflow": [f"worker {index} of 5, met 4 and 4" for index in range(5)],
        "mpi": [f"hosts {','.join(counts)}"],
    }[style]
    assert sorted(lines) == [
        f"[{node.name} worker {rank}] {line}"
        for rank, (node, line) in enumerate(zip([first, first, *others], expected, strict=False))
    ]


@pytest.mark.slow  # tests/system/jobs/test_launch.py has the same job on this machine
@pytest.mark.mxnet
def test_a_job_of_mxnet_trains_in_step_on_two_hosts(practice: Cluster) -> None:
    script = str(ROOT / "tests" / "support" / "training" / "upstream_style.py")
    code, lines, said = launched(practice, "-n", "2", "-s", "1", sys.executable, script, "a b")
    assert (code, said) == (0, "")
    ends = {line.partition("] ")[2] for line in lines if "argument" in line}
    assert ends == {f"host {node.address} argument a b" for node in practice.nodes[:2]}
    assert sum("step 2 sum 108.0 of 2" in line for line in lines) == 2


def test_the_first_failure_ends_the_job_on_every_host(practice: Cluster) -> None:
    body = "[ $DMLC_ROLE != worker -o $(hostname) != node02 ] || exit 3; exec sleep 60"
    code, _, said = launched(practice, "-n", "3", "sh", "-c", body)
    assert (code, said) == (3, "error: node02: worker 1 exited with code 3\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), *slow((signal.SIGTERM, 143))])
def test_an_ended_launcher_leaves_nothing_on_any_host(
    practice: Cluster, number: int, code: int
) -> None:
    stubborn = "trap '' TERM HUP; setsid sleep 60 & sleep 60"
    with launching(practice, "-n", "3", "-s", "3", "sh", "-c", stubborn) as launcher:
        assert until(lambda: sleepers(practice) == 14 + 3, 30)  # two of each process, and agents
        launcher.send_signal(number)
        assert launcher.wait(10) == code
        assert until(lambda: sleepers(practice) == 0, 10 if code < 0 else 1)


def test_a_host_that_is_cut_off_is_lost_and_ends_its_own(practice: Cluster) -> None:
    with launching(practice, "-n", "3", "sleep", "60") as launcher:
        assert until(lambda: sleepers(practice) == 7 + 3, 30)
        cut(practice, "node03")
        try:
            assert launcher.wait(11) == 1
            said = launcher.stderr.read()
            assert said == "error: node03: no heartbeat from the agent for 7 s\n"
            assert until(lambda: sleepers(practice) == 0, 10)
        finally:
            mend(practice, "node03")


def test_a_value_is_on_no_command_line_of_a_host(
    practice: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "hush-hush")
    with launching(practice, "-n", "3", "-x", "TOKEN", "sleep", "60") as launcher:
        assert until(lambda: sleepers(practice) == 7 + 3, 30)
        name = practice.nodes[1].name
        told = inside(practice, name, ["sh", "-c", "cat /proc/*/environ 2>/dev/null"])
        shown = inside(practice, name, ["sh", "-c", "cat /proc/[0-9]*/cmdline"])
        assert "TOKEN=hush-hush" in told.stdout
        assert "sleep" in shown.stdout
        assert "hush-hush" not in shown.stdout
        launcher.terminate()
        assert launcher.wait(10) == 143


def test_a_folder_that_is_not_on_a_host_is_named(practice: Cluster, tmp_path: Path) -> None:
    code, _, said = launched(practice, "-n", "1", "true", folder=tmp_path)
    assert code == 127
    assert said == (
        f"error: node01: scheduler 0 could not be started: no such folder: {tmp_path}\n"
    )


def test_a_host_that_cannot_be_reached_is_one_line(practice: Cluster, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("node01\nno-such-host\n")
    code, _, said = launched(practice, "-n", "2", "-H", str(hosts), "sleep", "60")
    assert code == 2
    assert said.startswith("error: no-such-host: ")
    assert said.count("\n") == 1
