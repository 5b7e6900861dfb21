"""Unfit hosts: each is reported with its fix before anything starts."""

import re
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from shutil import rmtree

import pytest

from launch.hosts import Login
from launch.install import own_code
from launch.practice.cluster import Cluster, cut, inside, mend
from launch.preflight.disks import DiskVerdict, disk_reports
from launch.preflight.findings import Requirements
from tests.support.data.shards import write
from tests.support.hosts.clusters import FAKE, listed, looked_at, ssh
from tests.support.paths import ROOT

pytestmark = pytest.mark.cluster


def only(problems: tuple[str, ...]) -> str:
    assert len(problems) == 1, problems
    return problems[0]


def test_hosts_that_are_fit_have_addresses_and_no_problems(practice: Cluster) -> None:
    wanted = replace(FAKE, code=own_code(), bandwidth=True)
    found = looked_at(practice, wanted, listed(practice)[:2])
    assert [one.problems for one in found.values()] == [()] * 2
    assert {one.host.address for one in found.values()} == {n.address for n in practice.nodes[:2]}
    assert set(found["node01"].reach) == {"node02"}
    assert all(pair["mb_s"] > 1 for one in found.values() for pair in one.reach.values())


def test_hosts_measure_the_disk_below_their_shards(practice: Cluster) -> None:
    found = looked_at(practice, hosts=listed(practice)[:2])
    data = ROOT / "data" / "test-disk"
    data.mkdir(parents=True, exist_ok=True)
    try:
        write(data / "a.rec", [bytes(100_000)] * 20)
        hosts = [one.host for one in found.values()]
        with closing(ssh(practice)) as connections:
            reports = disk_reports("data/test-disk", hosts, connections.start, 80)
    finally:
        rmtree(data)
    assert [one.host for one in reports] == ["node01", "node02"]
    # The hosts' user does not own these data, so Linux hides what is in memory.
    assert {one.verdict for one in reports} == {DiskVerdict.HIDDEN}
    assert min(one.images_random for one in reports) > 0


@pytest.mark.slow
def test_a_host_whose_link_is_down_is_told_within_the_connect_timeout(practice: Cluster) -> None:
    cut(practice, "node03")
    try:
        began = time.monotonic()
        found = looked_at(practice)
        seconds = time.monotonic() - began
    finally:
        mend(practice, "node03")
    said = only(found["node03"].problems)
    assert "did not answer within 10 s" in said or "no such machine on this network" in said
    assert found["node01"].problems == ()
    assert seconds < 13.0


def test_ways_not_to_get_in_have_a_sentence_each(practice: Cluster, tmp_path: Path) -> None:
    config = practice.ssh_config.read_text()
    unknown, other = tmp_path / "unknown", tmp_path / "other"
    keys = [line.split(" ", 1) for line in _known(config).read_text().splitlines()]
    unknown.write_text("")
    other.write_text(f"{keys[0][0]} {keys[1][1]}\n")
    said = {
        "unknown": _why(practice, tmp_path, config.replace(str(_known(config)), str(unknown))),
        "other": _why(practice, tmp_path, config.replace(str(_known(config)), str(other))),
        "nobody": _why(practice, tmp_path, config.replace("User bench", "User nobody")),
        "keyless": _why(practice, tmp_path, re.sub(r"IdentityFile .*", "IdentityFile /no", config)),
    }
    assert "is not in" in said["unknown"]
    assert "SHA256:" in said["unknown"]
    assert "host key differs from the known one (expected ssh-ed25519 SHA256:" in said["other"]
    assert said["other"].count("SHA256:") == 2
    assert said["other"].endswith(f"-f {other}")
    assert "rejected the login of nobody" in said["nobody"]
    assert "/no does not exist. Correct IdentityFile" in said["keyless"]


def _known(config: str) -> Path:
    words = next(line.split() for line in config.splitlines() if "UserKnownHostsFile" in line)
    return Path(words[1].strip('"'))


def _why(practice: Cluster, folder: Path, config: str) -> str:
    path = folder / "config"
    path.write_text(config)
    found = looked_at(practice, hosts=listed(practice)[:1], config=path)
    return only(found["node01"].problems)


def test_names_and_ports_that_lead_nowhere_are_told(practice: Cluster) -> None:
    first = listed(practice)[0]
    nowhere = replace(first, name="nowhere", login=Login(host="no-such-host.invalid"))
    closed = replace(first, name="closed", login=Login(host="node01", port=2))
    found = looked_at(practice, hosts=[nowhere, closed])
    assert "cannot be resolved" in only(found["nowhere"].problems)
    assert "refused the connection" in only(found["closed"].problems)


def test_a_checkout_that_is_missing_or_other_is_told(practice: Cluster) -> None:
    found = looked_at(practice, Requirements(tree="~/nothing"), listed(practice)[:1])
    assert "no checkout at ~/nothing. Run 'fab hosts.install'" in only(found["node01"].problems)
    found = looked_at(practice, replace(FAKE, code="0" * 12), listed(practice)[:1])
    assert "as on the controller, got" in only(found["node01"].problems)


def test_a_port_that_a_firewall_closes_is_told_with_the_pair(practice: Cluster) -> None:
    rules = "table ip t { chain c { type filter hook input priority 0; tcp dport != 22 drop; }; }"
    done = inside(practice, "node02", ["nft", rules], user="root")
    if "not found" in done.stderr or done.returncode:
        pytest.skip(f"needs nft: {done.stderr.strip()}")
    try:
        found = looked_at(practice)
    finally:
        inside(practice, "node02", ["nft", "delete", "table", "ip", "t"], user="root")
    said = only(found["node04"].problems)
    assert said.startswith(f"cannot connect to node02 ({practice.nodes[1].address} port ")
    assert "MXNet needs every port open between hosts" in said


def test_an_interface_that_is_not_there_is_told(practice: Cluster) -> None:
    found = looked_at(practice, replace(FAKE, interface="ib0"), listed(practice)[:1])
    assert "--interface ib0: expected an interface of this host with an IPv4 address" in only(
        found["node01"].problems
    )


def test_a_full_disk_is_told_before_the_start(practice: Cluster) -> None:
    used = "$(($(df --output=used -k /home | tail -1) + 4096))k"
    shrink = ["sh", "-c", f"mount -o remount,size={used} /home"]
    assert inside(practice, "node04", shrink, user="root").returncode == 0
    inside(practice, "node04", ["sh", "-c", "head -c 8G /dev/zero > ~/filler 2>/dev/null"])
    try:
        found = looked_at(practice, hosts=listed(practice)[3:])
    finally:
        inside(practice, "node04", ["rm", "-f", "/home/bench/filler"])
        inside(practice, "node04", ["mount", "-o", "remount,size=2g", "/home"], user="root")
    said = only(found["node04"].problems)
    assert "/home/bench cannot be written (No space left on device)" in said
