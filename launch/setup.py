"""Setup of a sweep: its hosts, listed, connected and checked."""

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from shutil import which
from typing import Any

from bench.engines.catalog import ENGINES
from bench.engines.command.program import PLACEHOLDER
from bench.environment import installed_version
from bench.errors import error_line, parse_int, quoted
from bench.settings import secrets
from bench.settings.secrets import is_secret, masked_word
from bench.sweep import Sweep
from bench.training.startup import cpu_flags
from bench.trial import Trial
from im2rec_tools.terminal import echo
from launch import hostfile
from launch.data_shares import manifests
from launch.hosts import ROOT, Host, HostOptions, Login, pretend, rehearse, this_machine
from launch.install import own_code
from launch.preflight.check import check_interpreters, interpreter_facts
from launch.preflight.findings import HostReport, Requirements, problem_lines, without_avx512
from launch.preflight.table import reported
from launch.remote.errors import LaunchError, PreflightError
from launch.sweep import ClusterSetup
from launch.transport.dial import PREFIX, Dial, DialPlace
from launch.transport.line import Starter, start_local
from launch.transport.protocol import is_ipv4
from launch.transport.ssh import Ssh
from launch.transport.via import Template, Via


def listed_hosts(options: HostOptions, *, only_named: bool = False) -> tuple[Host, ...]:
    """Return the hosts that options or the environment list; none if neither does.

    With `only_named` those of the environment do not count, unless a template reaches them. Prints
    notes on the list.
    """
    template = DialPlace.parse(options.via) if _dials(options) else _template(options)
    named = options.hostfile or options.hosts
    if only_named and not named and template is None:
        return ()
    listed = hostfile.find(options.hostfile, options.hosts, options.hosts_format, os.environ)
    if listed and not named:
        names = ", ".join(one.target for one in listed[:3])
        echo(
            f"note: using {len(listed)} host{'s' * (len(listed) > 1)} from the environment: {names}"
            f"{' ...' if len(listed) > 3 else ''}; --hostfile or --hosts override it",
            err=True,
        )
    if template is not None:
        _check_names(listed)
    devices = options.devices_per_node
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


def _dials(options: HostOptions) -> bool:
    if dials := options.via.startswith(PREFIX):
        _refuse_ssh(options)
    return dials


def _template(options: HostOptions) -> Template | None:
    """Return the template of --via; LaunchError if it is wrong or SSH has options."""
    if not options.via:
        return None
    _refuse_ssh(options)
    template = Template.parse(options.via)
    for word in template.words:
        option = word.startswith("-") or "=" in word
        shown = masked_word(word)
        if shown != word or (option and is_secret(word.partition("=")[0])):
            fix = "Other users see command lines. Put it into the program's own configuration"
            got = quoted(shown)
            raise LaunchError(error_line("--via", expected="no secret", got=got, fix=fix))
    return template


def _refuse_ssh(options: HostOptions) -> None:
    """Raise LaunchError for options of SSH, which --via replaces."""
    for flag, given in (("--ssh-config", options.ssh_config), ("--accept-new", options.accept_new)):
        if given:
            problem = "--via replaces SSH"
            raise LaunchError(error_line(flag, problem=problem, fix=f"Remove {flag} or --via"))


def _check_names(listed: Sequence[hostfile.HostEntry]) -> None:
    """Raise LaunchError if there is no host for --via, or one has a user or port."""
    if not listed:
        fix = "Name them with --hostfile FILE or --hosts HOST:DEVICES,..."
        raise LaunchError(error_line("--via", expected="hosts", got="none", fix=fix))
    for one in listed:
        if "@" in one.target or one.port is not None:
            raise LaunchError(
                error_line(
                    "--via",
                    expected="hosts without an SSH user or port",
                    got=quoted(one.target if one.port is None else f"{one.target}:{one.port}"),
                    fix="List the host by its name alone",
                )
            )


def connections_to(listed: Sequence[hostfile.HostEntry], options: HostOptions) -> Ssh | Via | Dial:
    """Return the connections to listed hosts; LaunchError if --via cannot reach one."""
    if options.via:
        _check_names(listed)
    return _connections(options, [one.target for one in listed])


def _connections(options: HostOptions, names: Sequence[str]) -> Ssh | Via | Dial:
    """Return the connections to hosts, over SSH or by --via."""
    if _dials(options):
        place = DialPlace.parse(options.via)
        dial = Dial(place, names)
        count = f"{len(names)} host{'s' * (len(names) != 1)}"
        echo(f"note: waiting for {count} to join; their pass: {place.file}", err=True)
        return dial
    if (template := _template(options)) is not None:
        return Via(template)
    return Ssh(options.ssh_config, accept_new=options.accept_new)


@contextmanager
def reached(
    options: HostOptions, *, required: bool = False
) -> Iterator[tuple[tuple[Host, ...], Starter]]:
    """The hosts listed, or this machine if none is, and how programs start there.

    LaunchError if none is and that is `required`. Connections are closed at the end.
    """
    hosts = listed_hosts(options)
    if required and not hosts:
        fix = "Name them with --hostfile FILE or --hosts HOST:DEVICES,..."
        raise LaunchError(error_line("hosts", expected="one or more", got="none", fix=fix))
    with closing(_connections(options, [one.name for one in hosts])) as connections:
        yield (hosts, connections.start) if hosts else ((this_machine(),), start_local)


@contextmanager
def ready_hosts(options: HostOptions) -> Iterator[tuple[tuple[Host, ...], Starter]]:
    """Yield the listed hosts, connected and with a checkout, and their starter."""
    with reached(options, required=True) as (hosts, start):
        found = reported(hosts, start, Requirements(tree=options.tree, engines=()))
        check_reports(found)
        yield tuple(one.host for one in found), start


def check_reports(found: list[HostReport]) -> None:
    """Raise PreflightError with all problems of checked hosts."""
    problems = problem_lines((one.host.name, each) for one in found for each in one.problems)
    if problems:
        bad = sum(bool(one.problems) for one in found)
        raise PreflightError(f"{bad} of {len(found)} hosts are not ready:", *problems)


def _check_hostless(options: HostOptions, what: Sweep) -> None:
    """Raise LaunchError for options of hosts if there are none; a simulation has any."""
    if all(one.scripted for one in what.trials):
        return
    given = {"--interface": options.interface, "--devices-per-node": options.devices_per_node}
    for flag, value in given.items():
        if value:
            fix = f"Name them with --hostfile FILE or --hosts HOST:DEVICES,..., or leave {flag} out"
            raise LaunchError(error_line(flag, expected="hosts", got="none", fix=fix))


# Values of --scheduler; the second is that of earlier versions.
_CONTROLLER = ("controller", "master")


@contextmanager
def job_setup(
    hosts: tuple[Host, ...], options: HostOptions, what: Sweep, scheduler: str = "first"
) -> Iterator[ClusterSetup]:
    """Check the hosts of a sweep and yield its setup.

    PreflightError if one is not fit.

    Without `hosts` it is this machine, or this machine as all hosts of a simulation. `scheduler`
    is 'first' (the first host) or 'controller', also called 'master'. Connections close at the end.
    """
    if not hosts:
        _check_hostless(options, what)
        yield local_setup(what)
        return
    _check_scheduler(scheduler)
    used = {name for trial in what.trials for name in trial.engines}
    wanted = Requirements(
        tree=options.tree,
        interface=options.interface,
        code=own_code(),
        engines=tuple(one for one in ENGINES.values() if one.package and one.name in used),
        device="gpu" if any(trial.layout.device == "gpu" for trial in what.trials) else "cpu",
        bfloat16=any(map(_needs_avx512, what.trials)),
    )
    with closing(_connections(options, [one.name for one in hosts])) as connections:
        start = connections.start
        found = reported(hosts, start, wanted)
        check_reports(found)
        fit = tuple(one.host for one in found)
        check_interpreters(what.trials, fit, start)
        yield ClusterSetup(
            hosts=fit,
            start=start,
            data=manifests(what.trials, fit, start),
            scheduler=_controller(found) if scheduler in _CONTROLLER else None,
            facts={one.host.name: one.facts for one in found},
        )


def local_setup(what: Sweep) -> ClusterSetup:
    """Return the setup of this machine alone, or as all hosts of a simulation."""
    fake = all(trial.scripted for trial in what.trials)
    count = max(trial.hosts for trial in what.trials)
    devices = max(trial.layout.devices_per_host for trial in what.trials)
    hosts = rehearse(count, devices) if fake else (this_machine(),)
    check_interpreters(what.trials, hosts, start_local)
    _check_packages(what.trials)
    if not fake:
        _check_arithmetic(what.trials, hosts[0])
    facts: dict[str, Any] = {}
    if not fake:
        host = hosts[0]
        with suppress(LaunchError):  # without an answer there are no facts
            facts = {host.name: interpreter_facts(host.python, start_local, host)}
    return ClusterSetup(hosts=hosts, facts=facts)


def _check_packages(trials: Sequence[Trial]) -> None:
    """Raise LaunchError if this environment lacks the package of a trial's engine."""
    for trial in (one for one in trials if one.reported):
        _check_program(trial)
    for trial, name in ((one, name) for one in trials for name in one.engines):
        engine = ENGINES[name]
        if engine.package and not trial.mxnet.python and not installed_version(engine.package):
            got = "none in this environment"
            borrowed = name != trial.engine
            where = f"kvstore {trial.comm.name!r}" if borrowed else f"engine {name!r}"
            raise LaunchError(error_line(where, expected=engine.title, got=got, fix=engine.install))


def local_warnings(trials: Sequence[Trial]) -> list[str]:
    """Return a warning for each reason that stops a sweep on this machine."""
    machine, found = this_machine(), dict[str, None]()
    for trial in (one for one in trials if not one.scripted):
        try:
            _check_packages([trial])
            _check_arithmetic([trial], machine)
        except LaunchError as error:
            found[f"warning: {error}"] = None
    return list(found)


def _check_arithmetic(trials: Sequence[Trial], machine: Host) -> None:
    """Raise LaunchError if this machine's CPU lacks AVX-512 for bfloat16."""
    if any(map(_needs_avx512, trials)):
        for problem in without_avx512(cpu_flags()):
            raise LaunchError(error_line(machine.name, problem=problem))


def _needs_avx512(trial: Trial) -> bool:
    """Return whether a worker of the trial rejects a CPU without AVX-512."""
    if trial.scripted or trial.reported or trial.mode not in {"synthetic", "real"}:
        return False
    return trial.training.dtype == "bfloat16" and trial.layout.device == "cpu"


def _check_program(trial: Trial) -> None:
    """Raise LaunchError if this machine lacks the program of a trial."""
    name = trial.program.command[0]
    path = secrets.variables(trial.layout.env).get("PATH", os.environ.get("PATH", os.defpath))
    place = ROOT / name if os.sep in name else name
    if not PLACEHOLDER.search(name) and which(place, path=path) is None:
        fix = "Install it, or give its path, relative to the checkout or absolute"
        problem = "there is no such program on this machine"
        if (ROOT / name).is_dir():
            problem, fix = "it is a folder, not a program", "Give the path of a file in it"
        elif (ROOT / name).is_file() and os.sep in name:
            problem, fix = "it is not executable", f"Run: chmod +x {shlex.quote(name)}"
        elif (ROOT / name).is_file():
            problem, fix = "PATH has no such program", f"Write ./{name} for the checkout's file"
        raise LaunchError(error_line(f"command {quoted(name)}", problem=problem, fix=fix))


def planned_hosts(hosts: tuple[Host, ...], what: Sweep) -> tuple[tuple[Host, ...], list[str]]:
    """Return the hosts of a printed plan, and a note on their addresses.

    They are the listed hosts with their listed addresses or names; if none is listed, this
    machine, or example hosts.
    """
    count = max(trial.hosts for trial in what.trials)
    devices = max(trial.layout.devices_per_host for trial in what.trials)
    if not hosts and (count > 1 or any(one.layout.device == "gpu" for one in what.trials)):
        note = f"# no --hostfile: {count} example hosts with {devices} devices each"
        return pretend(count, devices), [note]
    named = tuple(
        replace(one, address=one.login.host, tree="~/mxscale") for one in hosts if one.login
    )
    note = "# listed names in place of addresses; a sweep looks up the numeric addresses"
    return (named, [note]) if named else ((this_machine(),), [])


def planned_scheduler(scheduler: str) -> Host | None:
    """Return the scheduler's host of a printed plan, if not the first.

    LaunchError if the place is unknown.
    """
    _check_scheduler(scheduler)
    machine = this_machine()
    name = f"{machine.name} (controller)"
    return replace(machine, name=name, address=machine.name) if scheduler in _CONTROLLER else None


def _check_scheduler(scheduler: str) -> None:
    if scheduler not in {"first", *_CONTROLLER}:
        raise LaunchError(
            error_line("--scheduler", expected="first or controller", got=quoted(scheduler))
        )


def _controller(found: list[HostReport]) -> Host:
    """Return this machine with the address by which the hosts see it."""
    addresses = {"".join(one.facts["master"]) for one in found}
    machine = this_machine()
    if len(addresses) != 1 or not is_ipv4(*addresses):
        raise LaunchError(
            error_line(
                "--scheduler controller",
                expected="one IPv4 address by which hosts see this machine",
                got=", ".join(sorted(addresses)),
                fix="Leave out --scheduler to use the first host",
            )
        )
    return replace(machine, name=f"{machine.name} (controller)", address=addresses.pop())
