"""Check of all hosts in parallel: their facts, and the problems that exclude jobs."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

from bench.engines.catalog import ENGINES
from bench.engines.engine import Engine, Needs
from bench.environment import VARIABLES
from bench.settings.secrets import masked
from bench.trial import Trial
from launch.hosts import ROOT, Host, this_machine
from launch.install import own_versions
from launch.preflight.addresses import address_of, same_machine, sharing
from launch.preflight.findings import (
    HostReport,
    Requirements,
    compare_hosts,
    installed_engines,
    missing_packages,
    notes,
    problems,
    unusable,
)
from launch.remote import limits
from launch.remote.errors import LaunchError, error_line
from launch.transport.client import RemoteProgram, as_completed, map_hosts
from launch.transport.line import Starter

_CHECK = "Open every port between the hosts, then run 'fab hosts.check' with the same hosts"
_INTERFACE = "Choose another address with --interface NAME"


def tcp_bandwidth(hosts: Sequence[Host], start: Starter) -> float:
    """Measure 10^6 bytes per second from the first host to the last.

    Raises LaunchError if one cannot listen or the other cannot connect.
    """
    sender, receiver = hosts[0], hosts[-1]
    with (
        closing(RemoteProgram(receiver, start, "probe")) as listening,
        closing(RemoteProgram(sender, start, "probe")) as sending,
    ):
        listen = {"do": "listen", "address": receiver.address}
        answer = listening.request(listen, limits.BANDWIDTH_SECONDS, "listening", "failed")
        if "port" not in answer:
            problem = f"cannot listen on {receiver.address} ({answer.get('why', '')})"
            raise LaunchError(error_line(receiver.name, problem=problem, fix=_CHECK))
        measure = {"do": "measure", "target": [receiver.address, answer["port"]]}
        answer = sending.request(measure, limits.BANDWIDTH_SECONDS, "measured", "failed")
    if "mb_s" not in answer:
        problem = f"cannot connect to {receiver.name} ({answer.get('why', '')})"
        raise LaunchError(error_line(sender.name, problem=problem, fix=_CHECK))
    return float(answer["mb_s"])


def check_interpreters(trials: Sequence[Trial], hosts: Sequence[Host], start: Starter) -> None:
    """Raise LaunchError if a trial's own Python cannot run it on one of its hosts."""
    named = [one for one in trials if one.mxnet.python and ENGINES[one.engine].package]
    kinds = {(one.mxnet.python, one.layout.device, one.hosts, one.comm): one for one in named}
    for trial in kinds.values():
        job = hosts[: trial.hosts]
        found = map_hosts(partial(interpreter_facts, trial.mxnet.python, start), job)
        for host, facts in zip(job, found, strict=True):
            if why := _why_not(trial, facts, found[0]):
                problem = f"python={trial.mxnet.python} {why}"
                fix = f"Choose a Python with {ENGINES[trial.engine].title} by the setting python"
                raise LaunchError(error_line(host.name, problem=problem, fix=fix))


def interpreter_facts(python: str, start: Starter, host: Host) -> dict[str, Any]:
    """Return the facts of a host and of a Python on it.

    LaunchError if it does not answer.
    """
    with closing(RemoteProgram(host, start, "probe")) as probe:
        return _request_facts(probe, [host.tree], python)


def _request_facts(probe: RemoteProgram, trees: Sequence[str], python: str) -> dict[str, Any]:
    message = {"do": "facts", "trees": trees, "python": python, "folder": trees[0]}
    message |= {"variables": list(VARIABLES)}
    facts = probe.request(message, limits.FACTS_SECONDS, "facts")
    return {**facts, "variables": masked(facts.get("variables"))}


def _why_not(trial: Trial, facts: dict[str, Any], first: dict[str, Any]) -> str:
    engine, loaded = ENGINES[trial.engine], [ENGINES[name] for name in trial.engines]
    if why := unusable(facts, loaded):
        return f"cannot be used: {why}"
    needs = Needs(spans=trial.comm.spans, gpu=trial.layout.device == "gpu")
    if lack := engine.lacks(facts, needs):
        return f"has {engine.software(facts)}, which was built without {lack}"
    for one in loaded:
        if one.software(facts) != one.software(first):
            expected = first[one.package]
            return f"has {one.software(facts)}; expected {expected}, as on the first host"
    return ""


Report = Callable[[HostReport], None]


def examine(
    hosts: Sequence[Host],
    start: Starter,
    wanted: Requirements,
    report: Report = lambda _: None,
) -> list[HostReport]:
    """Check every host; return their reports in the order given.

    `report` gets each host when it is connected, without facts or problems, and again when it has
    answered or failed, before hosts are compared and connected with each other. An interrupt ends
    the check at once.
    """
    probes = [_Probe(host, start, wanted, report) for host in hosts]
    count = len(probes)
    try:
        for place, _ in as_completed(_Probe.find, probes, count):
            report(probes[place].examined())
        _add_shared(probes)
        found = [one for one in probes if one.facts]
        engines = wanted.engines
        if engines is None:
            facts = [one.facts for one in found]
            engines = installed_engines(facts, wanted.device)
            for one, lacking in zip(found, missing_packages(facts), strict=True):
                one.add_engines(engines, lacking)
        map_hosts(_Probe.measure_usage, found, count)  # other hosts' probes are idle by now
        found = [one for one in probes if one.facts]
        map_hosts(_Probe.listen, found, count)
        targets = {one.host.name: [one.host.address, one.port] for one in found if one.port}
        map_hosts(lambda one: one.reach(targets), found, count)
        if wanted.bandwidth:  # one pair after another: they may share a switch
            for one in found:
                one.measure(targets)
    except BaseException:
        for one in probes:
            one.abandon()
        raise
    map_hosts(_Probe.close, probes, count)
    return compare_hosts(
        [one.examined() for one in probes],
        {**own_versions(), **_unused(engines), "code": wanted.code},
    )


def _unused(engines: Sequence[Engine]) -> dict[str, str]:
    """Return empty versions of other engines' packages, which may differ."""
    others = {one.package for one in ENGINES.values() if one.package and one not in engines}
    return dict.fromkeys(others, "")


def _add_shared(probes: "Sequence[_Probe]") -> None:
    """Add the problems of hosts that are the same machine, or share an address."""
    addresses = {one.host.name: one.host.address for one in probes if one.host.address}
    # Different on any two hosts, and on any two containers of one machine.
    machines = {
        one.host.name: f"{one.facts['hostname']} {one.facts['machine']}"
        for one in probes
        if one.facts
    }
    shared = same_machine(machines) | sharing(addresses)
    for one in probes:
        if one.host.name in shared:
            one.problems.append(shared[one.host.name])


class _Probe:
    """Probe of one host and its results; a host that fails is not asked again."""

    def __init__(self, host: Host, start: Starter, wanted: Requirements, report: Report) -> None:
        self.host, self.port = host, 0
        self._start, self._wanted, self._report = start, wanted, report
        self._program: RemoteProgram | None = None
        self.facts: dict[str, Any] = {}
        self.problems: list[str] = []
        self._notes: list[str] = []
        self._reach: dict[str, dict[str, float]] = {}

    def examined(self) -> HostReport:
        return HostReport(
            host=self.host,
            facts=self.facts,
            problems=tuple(self.problems),
            notes=(*notes(self.facts), *self._notes) if self.facts else (),
            reach=self._reach,
        )

    def find(self) -> None:
        """Connect, and collect the facts of the host."""
        trees = [self._wanted.tree] if self._wanted.tree else ["~/mxscale", str(ROOT)]
        python = this_machine().python
        try:
            self._program = RemoteProgram(self.host, self._start, "probe")
            self._report(self.examined())
            began = time.time()
            facts = _request_facts(self._program, trees, python)
        except LaunchError as error:
            self._fail(error)
            return
        # Bounds of the clock difference: the host stamped its answer while this waited for it.
        ahead, since_began = facts["time"] - time.time(), facts["time"] - began
        facts["clock_skew"] = ahead if ahead > 0 else min(0.0, since_began)
        self.facts = facts
        if self._wanted.engines is not None:
            self.problems += problems(facts, self._wanted, local=self.host.login is None)
        self.host = replace(
            self.host,
            address=self._address(),
            cpus=len(facts["cores"]),
            gpus=len(facts["gpus"]),
            cores=tuple(facts["cores"]),
            machine=facts["machine"],
            python=python,
            tree=facts["tree"],
            libraries=tuple(facts["libraries"]),
        )

    def add_engines(self, engines: Sequence[Engine], lacking: Sequence[str]) -> None:
        """Add the problems and notes of the facts, with engines that all facts determine."""
        wanted = replace(self._wanted, engines=tuple(engines))
        self.problems[:0] = problems(self.facts, wanted, local=self.host.login is None)
        self._notes += [f"it has no {package}, which other hosts have" for package in lacking]

    def _address(self) -> str:
        if self.host.login is None:
            return self.host.address
        try:
            reached = "".join(self.facts["reached"])
            return address_of(self.facts["addresses"], reached, self._wanted.interface)
        except LaunchError as error:
            self.problems.append(str(error))
            return ""

    def measure_usage(self) -> None:
        """Measure what other programs use of the host."""
        answer = self._ask({"do": "usage"}, "usage")
        if self.facts:
            self.facts["usage"] = {name: answer[name] for name in ("programs", "cores", "of")}

    def listen(self) -> None:
        """Let the host listen on a random port, as the processes of a job do."""
        if self.facts and self.host.address:
            answer = self._ask({"do": "listen", "address": self.host.address}, "listening")
            self.port = answer.get("port", 0)
            if "why" in answer:
                problem = f"cannot listen on {self.host.address} ({answer['why']})"
                self.problems.append(error_line("", problem=problem, fix=_INTERFACE))

    def reach(self, targets: dict[str, list[Any]]) -> None:
        """Let the host connect to every other."""
        others = {name: where for name, where in targets.items() if name != self.host.name}
        if self.facts and others:
            failed = self._ask({"do": "reach", "targets": others}, "reached").get("failed", {})
            self.problems += [
                _unreached(name, others[name], failed[name]) for name in others if name in failed
            ]

    def measure(self, targets: dict[str, list[Any]]) -> None:
        """Let the host measure latency and bandwidth to every other, one after another."""
        for name, where in targets.items():
            if name == self.host.name or not self.facts:
                continue
            answer = self._ask({"do": "measure", "target": where}, "measured")
            if "ms" in answer:
                self._reach[name] = {"ms": answer["ms"], "mb_s": answer["mb_s"]}

    def close(self) -> None:
        """End the probe."""
        if self._program is not None:
            self._program.close()

    def abandon(self) -> None:
        """End the probe without waiting for it."""
        if self._program is not None:
            self._program.abandon()

    def _ask(self, message: dict[str, Any], answer: str) -> dict[str, Any]:
        assert self._program is not None
        try:
            return self._program.request(message, limits.PROBE_SECONDS, answer, "failed")
        except LaunchError as error:
            self._fail(error)
            self.facts = {}
            return {}

    def _fail(self, error: LaunchError) -> None:
        self.problems.append(str(error).removeprefix(f"{self.host.name}: "))


def _unreached(name: str, where: list[Any], why: str) -> str:
    return error_line(
        "",
        problem=(
            f"cannot connect to {name} ({where[0]} port {where[1]}: {why}); MXNet needs every port "
            f"open between hosts"
        ),
        fix="Open the firewall, or choose another network with --interface NAME",
    )
