"""Hosts of Amazon EC2, from the JSON of `aws ec2 describe-instances`.

Format: https://docs.aws.amazon.com/cli/latest/reference/ec2/describe-instances.html
Names, tags and types in it are not used: other users of the account can set them.
"""

import ipaddress
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.errors import brief, error_line, quoted
from launch import hostfile
from launch.remote.errors import LaunchError

# A description of one instance has about 8 kB.
LARGEST_FILE = 100 << 20
_COMMAND = "Write it with 'aws ec2 describe-instances --output json'"
_ID = re.compile(r"i-[0-9a-f]{8,32}", re.ASCII)
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,31}", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Instances:
    """Running instances: their numeric IPv4 addresses by id.

    others  number of instances that do not run
    """

    addresses: dict[str, str]
    others: int


def read(path: Path, *, public: bool = False) -> Instances:
    """Read a description; addresses are private unless `public`.

    Raises LaunchError if it is invalid, or if an instance has no such address.
    """
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise LaunchError(
            error_line(path, problem=f"cannot be read ({brief(error)})", fix=_COMMAND)
        ) from None
    return parse(content, str(path), public=public)


def parse(content: bytes, where: str, *, public: bool = False) -> Instances:
    """Parse a description, as `read` does."""
    if len(content) > LARGEST_FILE:
        raise _invalid(where, f"at most {LARGEST_FILE >> 20} MiB", "more")
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        problem = f"not JSON: {brief(error)}"
        raise LaunchError(error_line(where, problem=problem, fix=_COMMAND)) from None
    addresses: dict[str, str] = {}
    others = 0
    for instance in _described(found, where):
        if _field(instance, "State", where, dict).get("Name") != "running":
            others += 1
            continue
        name = _field(instance, "InstanceId", where, str)
        if not _ID.fullmatch(name):
            raise _invalid(where, "InstanceId as in i-0123456789abcdef0", quoted(name))
        address = _address(instance, f"{where}: {name}", public=public)
        if name in addresses:
            raise _invalid(where, "each instance once", f"{name} twice")
        addresses[name] = address
    if not 1 <= len(addresses) <= hostfile.MOST:
        got = f"{len(addresses)} running and {others} others"
        raise _invalid(where, f"1 to {hostfile.MOST} running instances", got)
    if len(set(addresses.values())) < len(addresses):
        raise _invalid(where, "instances of one network", "equal addresses")
    return Instances(addresses=addresses, others=others)


def _described(found: Any, where: str) -> Iterator[dict[str, Any]]:
    if not isinstance(found, dict):
        raise _invalid(where, "an object with Reservations", quoted(found))
    for reservation in _field(found, "Reservations", where, list):
        if not isinstance(reservation, dict):
            raise _invalid(where, "a reservation", quoted(reservation))
        for instance in _field(reservation, "Instances", where, list):
            if not isinstance(instance, dict):
                raise _invalid(where, "an instance", quoted(instance))
            yield instance


def _field(values: dict[str, Any], name: str, where: str, kind: type) -> Any:
    value = values.get(name)
    if not isinstance(value, kind):
        raise _invalid(where, name, "none" if value is None else quoted(value))
    return value


def _address(instance: dict[str, Any], where: str, *, public: bool) -> str:
    name = "PublicIpAddress" if public else "PrivateIpAddress"
    value = instance.get(name)
    try:
        if isinstance(value, str):
            return str(ipaddress.IPv4Address(value))
    except ValueError:
        pass
    fix = "Leave out --public to use private addresses" if public else _COMMAND
    got = "none" if value is None else quoted(value)
    raise LaunchError(error_line(where, expected=f"an IPv4 {name}", got=got, fix=fix))


def _invalid(where: str, expected: str, got: str) -> LaunchError:
    return LaunchError(error_line(where, expected=expected, got=got, fix=_COMMAND))


def lines(addresses: dict[str, str], user: str = "", slots: int | None = None) -> Sequence[str]:
    """Return the lines of a hosts file, in order of the addresses.

    LaunchError if `user` is no name of a user.
    """
    if user and not _USER.fullmatch(user):
        raise LaunchError(
            error_line("--user", expected="a name", got=quoted(user), fix="As in: --user ubuntu")
        )
    login, devices = f"{user}@" if user else "", f" slots={slots}" if slots else ""
    ordered = sorted(addresses.items(), key=lambda item: ipaddress.IPv4Address(item[1]))
    return [f"{login}{address}{devices} # {name}" for name, address in ordered]
