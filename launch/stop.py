"""Ends what any master started on hosts."""

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial

from launch.hosts import Host
from launch.remote import limits
from launch.remote.errors import LaunchError
from launch.remote.lease import listed
from launch.transport.client import RemoteProgram, catch_errors, map_hosts
from launch.transport.line import Starter


def stop(hosts: Sequence[Host], start: Starter, say: Callable[[str], None]) -> int:
    """Ends on every host, side by side, what is found by its lease; how many hosts could not be."""
    found = map_hosts(catch_errors(partial(_stop, start)), hosts, len(hosts))
    for host, line in zip(hosts, found, strict=True):
        say(f"{host.name}: {str(line).removeprefix(f'{host.name}: ')}")
    return sum(isinstance(one, LaunchError) for one in found)


def _stop(start: Starter, host: Host) -> str:
    """What was ended, in words; LaunchError if something still runs."""
    with closing(RemoteProgram(host, start, "stop")) as program:
        answer = program.request({"do": "end"}, limits.END_SECONDS, "ended")
    owner, others = answer["owner"], listed(answer.get("others", []))
    also = f"; other users hold leases too, and end theirs: {others}" if others else ""
    if not owner:
        return f"nothing of this program runs there{also}"
    if answer.get("left"):
        seconds = limits.END_SECONDS
        raise LaunchError(f"not ended within {seconds:.0f} s: what {owner} runs there{also}")
    return f"ended what {owner} ran there{also}"
