"""hosts.*: what the hosts of a cluster are, and what of ours runs on them."""

import json
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from invoke.exceptions import Exit

from im2rec_tools.terminal import echo
from launch.remote.errors import LaunchError
from tasks.cluster import Asked, hosts_task, listed_hosts, needed_hosts, ssh_of

_PROBLEMS = 3


@hosts_task(
    help={
        "json": "print JSON in place of the table",
        "bandwidth": "measure latency and bandwidth between every two hosts: two seconds a pair",
        "gpu": "the hosts have to train on GPUs",
        "data": "shards that the hosts should have: a path there, relative to the checkout",
        "verify": "with --data: read every record of them and compare it with what was packed",
    }
)
def hosts_check(
    c: Any,
    asked: Asked,
    json: bool = False,
    bandwidth: bool = False,
    gpu: bool = False,
    data: str = "",
    verify: bool = False,
) -> None:
    """Look at hosts side by side, or at this machine where none is listed; exit 3: problems."""
    from launch.hosts import this_machine
    from launch.install import own_code
    from launch.preflight.findings import Wanted
    from launch.preflight.table import reported, show
    from launch.transport.line import here

    if verify and not data:
        raise LaunchError("--verify: expected --data DIR, found none; name the shards to read")
    wanted = Wanted(
        tree=asked.tree,
        interface=asked.interface,
        code=own_code(),
        device="gpu" if gpu else "cpu",
        bandwidth=bandwidth,
    )
    hosts = listed_hosts(asked)
    held: list[str] = []
    with closing(ssh_of(asked)) as ssh:
        start = ssh.start if hosts else here
        found = reported(hosts or [this_machine()], start, wanted)
        if data and not any(one.problems for one in found):
            from launch.data_shares import described

            held = described(data, [one.host for one in found], start, verify=verify)
    if json:
        echo(*_as_json(found).splitlines())
    else:
        show(found)
        echo(*held)
    if any(one.problems for one in found):
        raise Exit(code=_PROBLEMS)


@hosts_task(
    help={"wheelhouse": "folder of wheels here, for hosts that reach no package index"},
)
def hosts_install(c: Any, asked: Asked, wheelhouse: str = "") -> None:
    """Put this checkout and its environment on every host; nothing is done where all is there."""
    from launch.install import Installing, install

    hosts = needed_hosts(asked)
    folder = Path(wheelhouse) if wheelhouse else None
    what = Installing(tree=asked.tree or "~/mxscale", wheelhouse=folder)
    with closing(ssh_of(asked)) as ssh:
        if install(hosts, ssh.start, what, echo):
            raise Exit(code=_PROBLEMS)


@hosts_task()
def hosts_stop(c: Any, asked: Asked) -> None:
    """End whatever a master of this program runs on the hosts, or on this machine."""
    from launch.hosts import this_machine
    from launch.stop import stop
    from launch.transport.line import here

    hosts = listed_hosts(asked)
    if not hosts:
        failed = stop([this_machine()], here, echo)
    else:
        with closing(ssh_of(asked)) as ssh:
            failed = stop(hosts, ssh.start, echo)
    if failed:
        raise Exit(code=_PROBLEMS)


def _as_json(found: list[Any]) -> str:
    return json.dumps([asdict(one) for one in found], indent=1)
