"""Where a sweep runs: this machine, hosts it plays, or the hosts of a cluster, looked at first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bench.errors import quoted
from bench.sweep import Sweep
from launch.remote.errors import LaunchError, PreflightError
from tasks.cluster import Asked, listed_hosts, needed_hosts, ssh_of

if TYPE_CHECKING:  # what needs long to load is loaded when a task runs
    from launch.hosts import Host
    from launch.preflight.findings import Examined
    from launch.sweep import Where
    from launch.transport.line import Start


@contextmanager
def on_this_machine(what: Sweep) -> Iterator[Where]:
    """This machine alone, or playing all the hosts that a rehearsal needs."""
    from launch.hosts import rehearse, this_machine
    from launch.preflight.check import check_pythons
    from launch.sweep import Where
    from launch.transport.line import here

    fake = all(trial.engine == "fake" for trial in what.trials)
    most = max(what.trials, key=lambda trial: trial.hosts)
    hosts = rehearse(most.hosts, most.devices_per_host) if fake else (this_machine(),)
    check_pythons(what.trials, hosts, here)
    yield Where(hosts=hosts, facts={} if fake else _found_here(hosts[0]))


def _found_here(host: Host) -> dict[str, Any]:
    """What this machine has, told as by hosts of a cluster; nothing where it does not answer."""
    from launch.preflight.check import look
    from launch.transport.line import here

    try:
        return {host.name: look(host.python, here, host)}
    except LaunchError:
        return {}


def _master(found: list[Examined]) -> Host:
    """This machine by the address that the hosts see it at."""
    from launch.hosts import this_machine
    from launch.preflight.addresses import is_ipv4

    seen = {"".join(one.facts["master"]) for one in found}
    here = this_machine()
    if len(seen) != 1 or not is_ipv4(*seen):
        raise LaunchError(
            f"--scheduler master: hosts see this machine as {', '.join(sorted(seen))}; expected "
            f"one IPv4 address; leave the scheduler on the first host"
        )
    return replace(here, name=f"{here.name} (master)", address=seen.pop())


@contextmanager
def on_hosts(
    hosts: tuple[Host, ...], asked: Asked, what: Sweep, scheduler: str = "first"
) -> Iterator[Where]:
    """The hosts of a cluster, each found fit for the sweep; PreflightError where one is not.

    `scheduler` is where that runs: 'first' host or 'master'. Connections are closed at the end.
    """
    if scheduler not in {"first", "master"}:
        raise LaunchError(f"--scheduler: expected first or master, got {quoted(scheduler)}")

    from launch.data_shares import manifests
    from launch.install import own_code
    from launch.preflight.check import check_pythons
    from launch.preflight.findings import Wanted
    from launch.preflight.table import reported
    from launch.sweep import Where

    wanted = Wanted(
        tree=asked.tree,
        interface=asked.interface,
        code=own_code(),
        mxnet=any(trial.engine == "mxnet" for trial in what.trials),
        device="gpu" if any(trial.device == "gpu" for trial in what.trials) else "cpu",
    )
    with closing(ssh_of(asked)) as ssh:
        found = reported(hosts, ssh.start, wanted)
        check(found)
        facts = {one.host.name: one.facts for one in found}
        fit = tuple(one.host for one in found)
        check_pythons(what.trials, fit, ssh.start)
        data = manifests(what.trials, fit, ssh.start)
        at = _master(found) if scheduler == "master" else None
        yield Where(hosts=fit, start=ssh.start, scheduler=at, facts=facts, data=data)


@contextmanager
def found_hosts(asked: Asked) -> Iterator[tuple[tuple[Host, ...], Start]]:
    """The hosts that were listed, reached and with a checkout, and how programs start there."""
    from launch.preflight.findings import Wanted
    from launch.preflight.table import reported

    hosts = needed_hosts(asked)
    with closing(ssh_of(asked)) as ssh:
        found = reported(hosts, ssh.start, Wanted(tree=asked.tree, mxnet=False))
        check(found)
        yield tuple(one.host for one in found), ssh.start


def check(found: list[Examined]) -> None:
    """Raises PreflightError with every problem of hosts that were looked at."""
    said = [f"{one.host.name}: {problem}" for one in found for problem in one.problems]
    if said:
        bad = sum(bool(one.problems) for one in found)
        raise PreflightError(f"{bad} of {len(found)} hosts are not ready:", *said)


def addressed(host: Host) -> Host:
    """The host by the address that it was listed with, or by its name, to look at a plan with."""
    assert host.login is not None
    return replace(host, address=host.login.host, tree="~/mxscale")


def cluster_of(asked: Asked, *, only_named: bool) -> tuple[Host, ...]:
    """The hosts that were listed; without `only_named` also those that the environment names."""
    if only_named and not (asked.hostfile or asked.hosts):
        return ()
    return listed_hosts(asked)
