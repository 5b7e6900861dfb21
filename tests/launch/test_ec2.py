"""Hosts files from the JSON of `aws ec2 describe-instances`."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launch import hostfile
from launch.ec2 import lines, parse, read
from launch.remote.errors import LaunchError
from tests.support.paths import ROOT, TESTS
from tests.support.programs.commands import FAB

SAMPLE = TESTS / "support/hosts/ec2-instances.json"
FIRST = "i-0a1f6c3e8d2b4a790"


def changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    """Return the sample with its second instance changed."""
    found = json.loads(SAMPLE.read_text(encoding="utf-8"))
    change(found["Reservations"][0]["Instances"][1])
    return json.dumps(found).encode()


def test_running_instances_become_hosts_in_order_of_their_addresses() -> None:
    found = read(SAMPLE)
    assert found.others == 2
    assert lines(found.addresses, "ubuntu", 8) == [
        "ubuntu@172.31.9.200 slots=8 # i-0c9d8e7f6a5b4c3d2",
        "ubuntu@172.31.10.11 slots=8 # i-0a1f6c3e8d2b4a790",
        "ubuntu@172.31.10.12 slots=8 # i-0b7e4f2a91c3d5e60",
    ]
    assert lines(read(SAMPLE, public=True).addresses)[0] == f"203.0.113.11 # {FIRST}"


def test_the_lines_are_a_hosts_file() -> None:
    text = "\n".join(lines(read(SAMPLE).addresses, "ec2-user", 16))
    assert hostfile.parse(text, "hosts") == tuple(
        hostfile.HostEntry(target=f"ec2-user@172.31.{rest}", slots=16)
        for rest in ("9.200", "10.11", "10.12")
    )


def test_the_guide_shows_lines_of_the_task() -> None:
    page = (ROOT / "docs/how-to/aws.md").read_text(encoding="utf-8")
    shown = page.partition("```text\n")[2].partition("```")[0].splitlines()
    assert shown == lines(read(SAMPLE).addresses, "ubuntu", 8)[1:]


HOSTILE = "x slots=99\nroot@198.51.100.66"


@pytest.mark.parametrize("name", ["KeyName", "PrivateDnsName", "PublicDnsName", "InstanceType"])
def test_values_that_are_not_used_cannot_add_hosts_or_options(name: str) -> None:
    content = changed(lambda one: one.update({name: HOSTILE, "Tags": [{"Key": HOSTILE}]}))
    assert parse(content, "x") == read(SAMPLE)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("InstanceId", f"{FIRST} slots=9", "x: expected InstanceId as in i-"),
        ("InstanceId", f"{FIRST}\n", "x: expected InstanceId as in i-"),
        ("InstanceId", 5, "x: expected InstanceId, got 5."),
        ("InstanceId", "i-0b7e4f2a91c3d5e60", "x: expected each instance once"),
        ("PrivateIpAddress", "-oProxyCommand=x", f"x: {FIRST}: expected an IPv4 PrivateIpAddress"),
        ("PrivateIpAddress", "172.31.10.11 slots=9", f"x: {FIRST}: expected an IPv4 Private"),
        ("PrivateIpAddress", "172.31.10.11\n", f"x: {FIRST}: expected an IPv4 PrivateIpAddress"),
        ("PrivateIpAddress", "2001:db8::1", f"x: {FIRST}: expected an IPv4 PrivateIpAddress"),
        ("PrivateIpAddress", None, f"x: {FIRST}: expected an IPv4 PrivateIpAddress, got none."),
        ("PrivateIpAddress", 2886732299, f"x: {FIRST}: expected an IPv4 PrivateIpAddress"),
        ("PrivateIpAddress", "172.31.10.12", "x: expected instances of one network"),
        ("State", "running", "x: expected State, got 'running'."),
    ],
)
def test_an_invalid_value_is_one_line(name: str, value: object, why: str) -> None:
    with pytest.raises(LaunchError) as refused:
        parse(changed(lambda one: one.update({name: value})), "x")
    assert str(refused.value).startswith(why)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "x: not JSON: "),
        (b"\xff{", "x: not JSON: "),
        (b"[" * 100_000, "x: not JSON: "),
        (b"[]", "x: expected an object with Reservations, got []."),
        (b"{}", "x: expected Reservations, got none."),
        (b'{"Reservations": [1]}', "x: expected a reservation, got 1."),
        (b'{"Reservations": [{}]}', "x: expected Instances, got none."),
        (b'{"Reservations": [{"Instances": ["i-1"]}]}', "x: expected an instance, got 'i-1'."),
        (b'{"Reservations": []}', "x: expected 1 to 10000 running instances, got 0 running"),
    ],
)
def test_other_files_are_rejected_in_one_line(content: bytes, why: str) -> None:
    with pytest.raises(LaunchError) as refused:
        parse(content, "x")
    assert str(refused.value).startswith(why)
    assert "describe-instances --output json" in str(refused.value)


def test_an_instance_without_a_public_address_names_the_way_out() -> None:
    content = changed(lambda one: one.pop("PublicIpAddress"))
    with pytest.raises(LaunchError, match="Leave out --public"):
        parse(content, "x", public=True)
    assert parse(content, "x") == read(SAMPLE)


@pytest.mark.parametrize("user", ["-l", "a b", "a@b", "root\n", "x" * 40])
def test_a_user_that_is_no_name_is_rejected(user: str) -> None:
    with pytest.raises(LaunchError, match="--user: expected a name"):
        lines({FIRST: "192.0.2.1"}, user)


@pytest.mark.program
def test_the_task_reads_a_pipe_and_writes_a_hosts_file(tmp_path: Path) -> None:
    words = [str(FAB), "hosts.from-ec2", "/dev/stdin", "--slots", "8", "--user", "ubuntu"]
    done = subprocess.run(
        words, cwd=ROOT, input=SAMPLE.read_bytes(), capture_output=True, check=True
    )
    assert done.stderr == b"note: /dev/stdin: 2 instances are not running and not listed\n"
    hosts = tmp_path / "hosts"
    hosts.write_bytes(done.stdout)
    assert [one.slots for one in hostfile.read(hosts)] == [8, 8, 8]
