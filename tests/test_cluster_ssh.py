"""SSH as people have it set up: gateways, keys that are new, shells that talk."""

import re
from contextlib import closing
from pathlib import Path

import pytest

from launch.check import examine
from launch.practice.cluster import Cluster, inside
from launch.ssh import Settings, Ssh
from tests.clusters import FAKE, listed, looked_at

pytestmark = pytest.mark.cluster


def accepted(cluster: Cluster, name: str) -> int:
    """Logins that a host's SSH server let in so far."""
    return (cluster.folder / f"{name}.log").read_text().count("Accepted publickey")


def with_jump(cluster: Cluster, folder: Path) -> Path:
    """The cluster's configuration, all but the first host behind that one."""
    blocks = re.split(r"\n(?=Host )", cluster.ssh_config.read_text())
    path = folder / "config"
    path.write_text(
        "\n".join([blocks[0], *(f"{one}\n    ProxyJump node01\n" for one in blocks[1:])])
    )
    return path


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
    assert "does not let nobody in" in found["node02"].problems[0]


def test_new_keys_are_taken_only_when_a_person_says_so(practice: Cluster, tmp_path: Path) -> None:
    known = tmp_path / "none" / "known_hosts"
    config = tmp_path / "config"
    text = practice.ssh_config.read_text()
    config.write_text(re.sub(r"UserKnownHostsFile .*", f"UserKnownHostsFile {known}", text))
    hosts = listed(practice)[:2]
    for accept, problems in ((False, 1), (True, 0), (False, 0)):
        with closing(Ssh(Settings(config=str(config), accept_new=accept))) as ssh:
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
