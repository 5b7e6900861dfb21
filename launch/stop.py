"""Ends what any master started on hosts."""

from collections.abc import Callable, Sequence
from contextlib import closing

from launch.hosts import Host
from launch.remote import limits
from launch.remote.errors import LaunchError
from launch.remote.lease import listed
from launch.transport.client import RemoteProgram, map_hosts
from launch.transport.line import Starter


def stop(hosts: Sequence[Host], start: Starter, say: Callable[[str], None]) -> int:
    """Ends on every host, side by side, what is found by its lease; how many hosts could not be."""
    found = map_hosts(lambda host: _stopped(host, start), hosts, len(hosts))
    for host, (line, _) in zip(hosts, found, strict=True):
        say(f"{host.name}: {line}")
    return sum(not done for _, done in found)


def _stopped(host: Host, start: Starter) -> tuple[str, bool]:
    try:
        with closing(RemoteProgram(host, start, "stop")) as program:
            answer = program.request({"do": "end"}, limits.END_SECONDS, "ended")
    except LaunchError as error:
        return str(error).removeprefix(f"{host.name}: "), False
    owner, others = answer["owner"], listed(answer.get("others", []))
    also = f"; other users hold leases too, and end theirs: {others}" if others else ""
    if not owner:
        return f"nothing of this program runs there{also}", True
    if answer.get("left"):
        return f"not ended within {limits.END_SECONDS:.0f} s: what {owner} runs there{also}", False
    return f"ended what {owner} ran there{also}", True
