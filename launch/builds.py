"""Other Pythons that trials name, with the MXNet they have: looked at before anything starts."""

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from typing import Any

from bench.environment import VARIABLES
from bench.secrets import masked
from bench.trial import Trial
from launch.errors import LaunchError
from launch.hosts import Host
from launch.talk import PROBE, Talk
from launch.together import together
from launch.transport import Start

# To import MXNet for the first time, from a cold disk, takes long.
_SECONDS = 150.0


def check_pythons(trials: Sequence[Trial], hosts: Sequence[Host], start: Start) -> None:
    """LaunchError where the Python that a trial names cannot run it on one of its hosts."""
    named = [one for one in trials if one.python and one.engine == "mxnet"]
    kinds = {(one.python, one.device, one.hosts, one.servers > 0): one for one in named}
    for trial in kinds.values():
        job = hosts[: trial.hosts]
        found = together(partial(look, trial.python, start), job)
        for host, facts in zip(job, found, strict=True):
            if why := _why_not(trial, facts, found[0]):
                raise LaunchError(f"python={trial.python}: on {host.name} {why}")


def look(python: str, start: Start, host: Host) -> dict[str, Any]:
    """What a host has, and that Python on it; LaunchError where it does not answer."""
    ask = {"do": "look", "trees": [host.tree], "python": python, "folder": host.tree}
    ask |= {"variables": list(VARIABLES)}
    with closing(Talk(host, start, PROBE)) as probe:
        facts = probe.ask(ask, _SECONDS, "facts")
    return {**facts, "variables": masked(facts.get("variables"))}


def _why_not(trial: Trial, facts: dict[str, Any], first: dict[str, Any]) -> str:
    if facts["python_problem"]:
        return f"it cannot be used: {facts['python_problem']}"
    if trial.servers and not facts["dist_kvstore"]:
        return f"its MXNet {facts['mxnet']} was built without DIST_KVSTORE"
    if trial.device == "gpu" and not facts["cuda"]:
        return f"its MXNet {facts['mxnet']} has no CUDA"
    if facts["mxnet"] != first["mxnet"]:
        return f"it has MXNet {facts['mxnet']}, on the first host {first['mxnet']}"
    return ""
