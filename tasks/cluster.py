"""The options by which a task is told its hosts, and how it reaches them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from invoke.tasks import Task

from bench.errors import parse_int, quoted
from bench.sweep import Sweep
from im2rec_tools.terminal import echo
from launch.remote.errors import LaunchError, PreflightError
from tasks.cli import Body, command, task

if TYPE_CHECKING:  # what needs long to load is loaded when a task runs
    from launch.hosts import Host
    from launch.transport.ssh import Ssh

_OPTIONS = {
    "hostfile": "a host a line; see hosts.example",
    "hosts": "in place of a file: 'HOST:DEVICES,HOST:DEVICES'",
    "hosts_format": "what N is in 'HOST:N': dmlc (SSH port) or mpich (devices)",
    "devices_per_node": "training devices of each host, in place of what the file says",
    "interface": "the network that jobs use, by the name of the hosts' interface: ib0",
    "tree": "the checkout on the hosts; default: ~/mxscale there, or else where this one is",
    "ssh_config": "in place of ~/.ssh/config",
    "accept_new": "take the keys of hosts that are not in known_hosts yet",
}


@dataclass(frozen=True, kw_only=True)
class HostOptions:
    """What a person said of the hosts, as typed.

    words   all that was said to the task: what is not so by default, as it can be typed again
    """

    hostfile: str = ""
    hosts: str = ""
    hosts_format: str = ""
    devices_per_node: str = ""
    interface: str = ""
    tree: str = ""
    ssh_config: str = ""
    accept_new: bool = False
    words: tuple[str, ...] = ()


NO_HOST_OPTIONS = HostOptions()


def hosts_task(
    help: dict[str, str] | None = None,
    decorator: Callable[[Body], Body] = command,
    **options: Any,
) -> Callable[[Body], Task[Any]]:
    """As `task`, of a body that takes `host_options`; adds their options to the task's own."""

    def make(body: Body) -> Task[Any]:
        own = [
            one for one in inspect.signature(body).parameters.values() if one.name != "host_options"
        ]
        added = [_option(name) for name in _OPTIONS]
        signature = inspect.Signature(
            [one.replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD) for one in [*own, *added]]
        )

        @decorator
        def wrapped(c: Any, *args: Any, **given: Any) -> None:
            said = signature.bind(c, *args, **given).arguments
            words = tuple(command_words(said, list(signature.parameters.values())[1:]))
            hosts = {name: given.pop(name) for name in _OPTIONS if name in given}
            body(c, *args, host_options=HostOptions(**hosts, words=words), **given)

        wrapped.__name__, wrapped.__doc__ = body.__name__, body.__doc__
        wrapped.__signature__ = signature  # type: ignore[attr-defined] # Invoke reads it
        made: Task[Any] = task(help={**_OPTIONS, **(help or {})}, **options)(wrapped)
        return made

    return make


def _option(name: str) -> inspect.Parameter:
    default = False if name == "accept_new" else ""
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)


def command_words(
    said: Mapping[str, Any], parameters: Iterable[inspect.Parameter]
) -> Iterator[str]:
    """The words that tell a task what was said to it, without what is so by default.

    A long option is one word with its value; one of a single letter has its value after it.
    """
    for one in parameters:
        value = said.get(one.name, one.default)
        if one.default is one.empty:
            yield str(value)
        elif value and value != one.default:
            option = f"--{one.name.replace('_', '-')}"
            for single in value if isinstance(value, list | tuple) else (value,):
                if len(one.name) == 1:
                    yield from (f"-{one.name}", str(single))
                else:
                    yield option if single is True else f"{option}={single}"


def listed_hosts(host_options: HostOptions) -> tuple[Host, ...]:
    """The hosts that a person or the environment listed; none where neither did.

    Says what should be known of the list.
    """
    from launch import hostfile
    from launch.hosts import Host, Login

    listed = hostfile.find(
        host_options.hostfile, host_options.hosts, host_options.hosts_format, os.environ
    )
    if listed and not (host_options.hostfile or host_options.hosts):
        names = ", ".join(one.target for one in listed[:3])
        echo(
            f"note: {len(listed)} host(s) from what the environment says: {names}"
            f"{' ...' if len(listed) > 3 else ''}; --hostfile or --hosts name others",
            err=True,
        )
    devices = host_options.devices_per_node
    count = parse_int("--devices-per-node", devices) if devices else None
    if listed and (count is not None or any(one.slots is not None for one in listed)):
        listed, notes = hostfile.with_devices(listed, count)
        for note in notes:
            echo(f"note: {note}", err=True)
    return tuple(
        Host(
            name=one.target if one.port is None else f"{one.target}:{one.port}",
            address="",
            cpus=one.slots or 0,
            gpus=one.slots or 0,
            login=Login.read(one.target, one.port),
        )
        for one in listed
    )


def required_hosts(host_options: HostOptions) -> tuple[Host, ...]:
    """The hosts that were listed; LaunchError where none were."""
    hosts = listed_hosts(host_options)
    if not hosts:
        raise LaunchError("which hosts? Name them with --hostfile FILE or --hosts HOST:DEVICES,...")
    return hosts


def ssh_of(host_options: HostOptions) -> Ssh:
    """The SSH by which those hosts are reached; nothing is connected yet."""
    from launch.transport.ssh import Ssh

    return Ssh(host_options.ssh_config, accept_new=host_options.accept_new)


if TYPE_CHECKING:  # what needs long to load is loaded when a task runs
    from launch.hosts import Host
    from launch.preflight.findings import HostReport
    from launch.sweep import ClusterSetup
    from launch.transport.line import Starter


@contextmanager
def local_setup(what: Sweep) -> Iterator[ClusterSetup]:
    """This machine alone, or playing all the hosts that a rehearsal needs."""
    from launch.hosts import rehearse, this_machine
    from launch.preflight.check import check_interpreters
    from launch.sweep import ClusterSetup
    from launch.transport.line import start_local

    fake = all(trial.engine == "fake" for trial in what.trials)
    most = max(what.trials, key=lambda trial: trial.hosts)
    hosts = rehearse(most.hosts, most.layout.devices_per_host) if fake else (this_machine(),)
    check_interpreters(what.trials, hosts, start_local)
    yield ClusterSetup(hosts=hosts, facts={} if fake else _local_facts(hosts[0]))


def _local_facts(host: Host) -> dict[str, Any]:
    """What this machine has, told as by hosts of a cluster; nothing where it does not answer."""
    from launch.preflight.check import interpreter_facts
    from launch.transport.line import start_local

    try:
        return {host.name: interpreter_facts(host.python, start_local, host)}
    except LaunchError:
        return {}


def _controller(found: list[HostReport]) -> Host:
    """This machine by the address that the hosts see it at."""
    from launch.hosts import this_machine
    from launch.transport.protocol import is_ipv4

    seen = {"".join(one.facts["master"]) for one in found}
    machine = this_machine()
    if len(seen) != 1 or not is_ipv4(*seen):
        raise LaunchError(
            f"--scheduler master: hosts see this machine as {', '.join(sorted(seen))}; expected "
            f"one IPv4 address; leave the scheduler on the first host"
        )
    return replace(machine, name=f"{machine.name} (master)", address=seen.pop())


@contextmanager
def cluster_setup(
    hosts: tuple[Host, ...], host_options: HostOptions, what: Sweep, scheduler: str = "first"
) -> Iterator[ClusterSetup]:
    """The hosts of a cluster, each found fit for the sweep; PreflightError where one is not.

    `scheduler` is where that runs: 'first' host or 'master'. Connections are closed at the end.
    """
    if scheduler not in {"first", "master"}:
        raise LaunchError(f"--scheduler: expected first or master, got {quoted(scheduler)}")

    from launch.data_shares import manifests
    from launch.install import own_code
    from launch.preflight.check import check_interpreters
    from launch.preflight.findings import Requirements
    from launch.preflight.table import reported
    from launch.sweep import ClusterSetup

    wanted = Requirements(
        tree=host_options.tree,
        interface=host_options.interface,
        code=own_code(),
        mxnet=any(trial.engine == "mxnet" for trial in what.trials),
        device="gpu" if any(trial.layout.device == "gpu" for trial in what.trials) else "cpu",
    )
    with closing(ssh_of(host_options)) as ssh:
        found = reported(hosts, ssh.start, wanted)
        check_reports(found)
        facts = {one.host.name: one.facts for one in found}
        fit = tuple(one.host for one in found)
        check_interpreters(what.trials, fit, ssh.start)
        data = manifests(what.trials, fit, ssh.start)
        at = _controller(found) if scheduler == "master" else None
        yield ClusterSetup(hosts=fit, start=ssh.start, scheduler=at, facts=facts, data=data)


@contextmanager
def ready_hosts(host_options: HostOptions) -> Iterator[tuple[tuple[Host, ...], Starter]]:
    """The hosts that were listed, reached and with a checkout, and how programs start there."""
    from launch.preflight.findings import Requirements
    from launch.preflight.table import reported

    hosts = required_hosts(host_options)
    with closing(ssh_of(host_options)) as ssh:
        found = reported(hosts, ssh.start, Requirements(tree=host_options.tree, mxnet=False))
        check_reports(found)
        yield tuple(one.host for one in found), ssh.start


def check_reports(found: list[HostReport]) -> None:
    """Raises PreflightError with every problem of hosts that were looked at."""
    said = [f"{one.host.name}: {problem}" for one in found for problem in one.problems]
    if said:
        bad = sum(bool(one.problems) for one in found)
        raise PreflightError(f"{bad} of {len(found)} hosts are not ready:", *said)


def with_listed_address(host: Host) -> Host:
    """The host by the address that it was listed with, or by its name, to look at a plan with."""
    assert host.login is not None
    return replace(host, address=host.login.host, tree="~/mxscale")


def cluster_hosts(host_options: HostOptions, *, only_named: bool) -> tuple[Host, ...]:
    """The hosts that were listed; without `only_named` also those that the environment names."""
    if only_named and not (host_options.hostfile or host_options.hosts):
        return ()
    return listed_hosts(host_options)
