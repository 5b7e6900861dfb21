"""Common SSH set-ups: jump hosts, new host keys, shells that print."""

import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from launch.hosts import Login
from launch.practice.cluster import Cluster, inside
from launch.preflight.check import examine
from launch.transport.ssh import Ssh
from tests.support.hosts.clusters import FAKE, listed, looked_at, with_jump

pytestmark = pytest.mark.cluster


def accepted(cluster: Cluster, name: str) -> int:
    """Count the logins that a host's SSH server has accepted."""
    return (cluster.folder / f"{name}.log").read_text().count("Accepted publickey")


def test_hosts_behind_a_gateway_share_one_connection_to_it(
    practice: Cluster, tmp_path: Path
) -> None:
    before = accepted(practice, "node01")
    found = looked_at(practice, hosts=listed(practice)[1:], config=with_jump(practice, tmp_path))
    assert [one.problems for one in found.values()] == [()] * 3
    assert accepted(practice, "node01") == before + 1


def test_a_gateway_that_is_refused_is_named(practice: Cluster, tmp_path: Path) -> None:
    path = with_jump(practice, tmp_path)
    path.write_text(path.read_text().replace("ProxyJump node01", "ProxyJump nobody@node01"))
    found = looked_at(practice, hosts=listed(practice)[1:2], config=path)
    assert "node01: " in found["node02"].problems[0]
    assert "rejected the login of nobody" in found["node02"].problems[0]


def test_new_keys_are_taken_only_when_a_person_says_so(practice: Cluster, tmp_path: Path) -> None:
    known = tmp_path / "none" / "known_hosts"
    config = tmp_path / "config"
    text = practice.ssh_config.read_text()
    config.write_text(re.sub(r"UserKnownHostsFile .*", f"UserKnownHostsFile {known}", text))
    hosts = listed(practice)[:2]
    for accept, problems in ((False, 1), (True, 0), (False, 0)):
        with closing(Ssh(str(config), accept_new=accept)) as ssh:
            found = examine(hosts, ssh.start, FAKE)
        assert [len(one.problems) for one in found] == [problems] * 2
    assert len(known.read_text().splitlines()) == 2


def test_a_shell_that_talks_is_talked_over(practice: Cluster) -> None:
    noise = 'echo "welcome"; printf "no line end"; echo "{}" >&2'
    inside(practice, "node02", ["sh", "-c", f"echo '{noise}' > ~/.bashrc"])
    try:
        found = looked_at(practice, hosts=listed(practice)[1:2])
    finally:
        inside(practice, "node02", ["sh", "-c", "rm ~/.bashrc"])
    assert found["node02"].problems == ()


def test_a_new_key_is_added_below_a_line_without_an_end(practice: Cluster, tmp_path: Path) -> None:
    known, config = tmp_path / "known_hosts", tmp_path / "config"
    text = practice.ssh_config.read_text()
    config.write_text(re.sub(r"UserKnownHostsFile .*", f"UserKnownHostsFile {known}", text))
    known.write_text("other ssh-ed25519 not-base64\nlast line of something else")
    with closing(Ssh(str(config), accept_new=True)) as ssh:
        found = examine(listed(practice)[:1], ssh.start, FAKE)
    assert found[0].problems == ()
    lines = known.read_text().splitlines()
    assert lines[1] == "last line of something else"
    assert lines[2].startswith(practice.nodes[0].address)


def test_included_configuration_counts(practice: Cluster, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(f"Include {practice.ssh_config}\n")
    assert looked_at(practice, hosts=listed(practice)[:1], config=config)["node01"].problems == ()


def test_gateways_in_a_circle_are_told(practice: Cluster, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(practice.ssh_config.read_text() + "\nHost *\n    ProxyJump node02\n")
    found = looked_at(practice, hosts=listed(practice)[1:2], config=config)
    assert "ProxyJump forms a cycle: node02 through node02" in found["node02"].problems[0]


def test_a_silent_host_behind_a_gateway_is_told_in_time(practice: Cluster, tmp_path: Path) -> None:
    path = with_jump(practice, tmp_path)
    path.write_text(path.read_text().replace(practice.nodes[1].address, "10.213.255.1"))
    began = time.monotonic()
    found = looked_at(practice, hosts=listed(practice)[1:2], config=path)
    assert len(found["node02"].problems) == 1
    assert time.monotonic() - began < 13


@pytest.mark.slow
def test_an_ssh_server_that_is_held_is_told(practice: Cluster) -> None:
    held = ["sh", "-c", "pkill -STOP -o sshd"]
    inside(practice, "node03", held, user="root")
    try:
        began = time.monotonic()
        found = looked_at(practice, hosts=listed(practice)[2:3])
        seconds = time.monotonic() - began
    finally:
        inside(practice, "node03", ["sh", "-c", "pkill -CONT -o sshd"], user="root")
    assert "accepts connections but sends nothing" in found["node03"].problems[0]
    assert seconds < 13


def test_one_machine_under_two_names_is_refused(practice: Cluster, tmp_path: Path) -> None:
    config = tmp_path / "config"
    text = practice.ssh_config.read_text()
    config.write_text(text.replace("Host node02", "Host node02 again"))
    again = replace(listed(practice)[1], name="again", login=Login(host="again"))
    found = looked_at(practice, hosts=[listed(practice)[1], again], config=config)
    assert "has the address" in found["again"].problems[0]


def test_a_connection_that_the_server_ends_is_opened_again(practice: Cluster) -> None:
    host = listed(practice)[1]
    session = "-u bench -f '^sshd: bench'"
    with closing(Ssh(str(practice.ssh_config))) as ssh, ThreadPoolExecutor() as pool:
        ssh.start(host, "probe").close(5.0)
        inside(practice, host.name, ["sh", "-c", f"pkill -STOP {session}"], user="root")
        started = pool.submit(ssh.start, host, "probe")
        time.sleep(0.5)  # until it waits for the held server
        assert not started.done()
        inside(practice, host.name, ["sh", "-c", f"pkill -KILL {session}"], user="root")
        started.result().close(5.0)
