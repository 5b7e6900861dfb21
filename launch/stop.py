"""End of all processes that controllers started on hosts."""

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial

from launch.hosts import Host
from launch.remote import limits
from launch.remote.errors import LaunchError, error_line
from launch.remote.lease import listed
from launch.transport.client import RemoteProgram, catch_errors, map_hosts
from launch.transport.line import Starter


def stop(hosts: Sequence[Host], start: Starter, say: Callable[[str], None]) -> int:
    """End the leases' processes on all hosts in parallel.

    Return the number of failed hosts.
    """
    found = map_hosts(catch_errors(partial(_stop, start)), hosts, len(hosts))
    for host, line in zip(hosts, found, strict=True):
        say(f"{host.name}: {str(line).removeprefix(f'{host.name}: ')}")
    return sum(isinstance(one, LaunchError) for one in found)


def _stop(start: Starter, host: Host) -> str:
    """End the processes of one host and return a report.

    LaunchError if one still runs.
    """
    with closing(RemoteProgram(host, start, "stop")) as program:
        answer = program.request({"do": "end"}, limits.END_SECONDS, "ended")
    owner, others = answer["owner"], listed(answer.get("others", []))
    also = f"; other users' leases are left alone: {others}" if others else ""
    if not owner:
        return f"no mxscale process runs on this host{also}"
    if answer.get("left"):
        seconds = limits.END_SECONDS
        problem = f"processes of {owner} did not end within {seconds:.0f} s{also}"
        fix = "Run the same command again; if they remain, restart the host"
        raise LaunchError(error_line(host.name, problem=problem, fix=fix))
    return f"ended the processes of {owner}{also}"
