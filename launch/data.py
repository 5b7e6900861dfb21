"""The data of a sweep as its hosts have them: all the same, or each its own share."""

from collections.abc import Sequence
from contextlib import closing
from typing import Any

from bench.data.partition import manifest
from bench.trial import Trial
from launch.errors import LaunchError, PreflightError
from launch.hosts import Host
from launch.talk import PROBE, Talk
from launch.together import together
from launch.transport import Start

# To read a share of a large data set may take hours; a host that is gone ends the wait at once.
_SECONDS, _VERIFY_SECONDS = 120.0, 25 * 3600.0
_PUSH = "'fab hosts.push-data' brings them"
_AGAIN = "'fab hosts.push-data --verify' reads all and copies again what differs"


def manifests(trials: Sequence[Trial], hosts: Sequence[Host], start: Start) -> dict[str, str]:
    """The manifest of each trial's data, by its key, as the trial's hosts have them.

    Raises PreflightError where a host lacks data, has other data than the others, or holds the
    share of another.
    """
    wanted = sorted({data for one in trials for data in (one.data_train, one.data_val) if data})
    if not wanted:
        return {}
    told = _asked(hosts, start, wanted)
    return {one.key: _manifest(one, wanted, hosts[: one.worker_hosts], told) for one in trials}


def _asked(
    hosts: Sequence[Host], start: Start, wanted: Sequence[str], *, verify: bool = False
) -> dict[str, list[dict[str, Any]]]:
    """What each host, by name, holds of these data; PreflightError where one lacks some."""
    found = together(lambda host: _contents(host, start, wanted, verify), hosts, len(hosts))
    if wrong := [one for one in found if isinstance(one, str)]:
        lack = "have missing or damaged data" if verify else "lack data"
        raise PreflightError(f"{len(wrong)} hosts {lack}:", *wrong)
    names = [host.name for host in hosts]
    return {n: one for n, one in zip(names, found, strict=True) if not isinstance(one, str)}


def described(data: str, hosts: Sequence[Host], start: Start, *, verify: bool = False) -> list[str]:
    """A line for each host: what it holds of the data. Raises PreflightError as `manifests`.

    With `verify` each host reads its shards whole, and one that is damaged is named.
    """
    told = _asked(hosts, start, [data], verify=verify)
    _together(data, {name: one[0] for name, one in told.items()})
    lines = []
    for name, (one,) in told.items():
        share = f"share {one['share'][0] + 1} of {one['share'][1]}, " if one["share"] else ""
        lines.append(
            f"{name}: {data}: {share}{len(one['lines'])} shards, manifest "
            f"{manifest(one['lines'])}{', every record read and whole' if verify else ''}"
        )
    return lines


def _contents(
    host: Host, start: Start, wanted: Sequence[str], verify: bool
) -> list[dict[str, Any]] | str:
    ask = {"do": "contents", "tree": host.tree, "python": host.python, "data": list(wanted)}
    try:
        with closing(Talk(host, start, PROBE)) as talk:
            seconds = _VERIFY_SECONDS if verify else _SECONDS
            answer = talk.ask(ask | {"verify": verify}, seconds, "contents", "failed")
    except LaunchError as error:
        return str(error)
    if "why" in answer:
        return f"{host.name}: {answer['why']}; {_AGAIN if verify else _PUSH}"
    found: list[dict[str, Any]] = answer["contents"]
    if len(found) != len(wanted):
        return f"{host.name}: expected {len(wanted)} data sets, it described {len(found)}"
    return found


def _manifest(
    trial: Trial, wanted: Sequence[str], hosts: Sequence[Host], told: dict[str, Any]
) -> str:
    listed: list[str] = []
    for data in (one for one in (trial.data_train, trial.data_val) if one):
        at = wanted.index(data)
        listed += _together(data, {host.name: told[host.name][at] for host in hosts})
    return manifest(listed)


def _together(data: str, held: dict[str, dict[str, Any]]) -> list[str]:
    """The lines of the data that these hosts hold together."""
    first, *others = held
    shares: dict[tuple[int, int], str] = {}
    for name, one in held.items():
        share = tuple(one["share"] or ())
        if share in shares:
            raise PreflightError(
                f"{shares[share]} and {name} hold the same share of {data}; push the data again "
                f"with 'fab hosts.push-data' and these hosts"
            )
        if share:
            shares[share] = name
    for name in others:
        if not shares and held[name]["lines"] != held[first]["lines"]:
            raise PreflightError(f"{name}: {data} has other shards than on {first}; {_PUSH}")
    if len({of for _, of in shares}) > 1 or 0 < len(shares) < len(held):
        raise PreflightError(
            f"{data}: hosts hold shares of different pushes; {_PUSH}, to all of them at once"
        )
    return sorted({line for one in held.values() for line in one["lines"]})
