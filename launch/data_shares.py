"""Distribution of a data set's shards to hosts, and the check of what each has."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.data.partition import FILE, HostPartition, data_hash, text
from bench.data.shards import count_images
from bench.trial import Trial
from im2rec_tools.formats.lists import even_runs
from im2rec_tools.formats.tree import record_files
from launch.hosts import ROOT, Host
from launch.push import Piece, PushProgress, contents, differences, push, side_by_side, strangers
from launch.remote import limits
from launch.remote.errors import LaunchError, PreflightError, error_line
from launch.transport.client import RemoteProgram, catch_errors, map_hosts
from launch.transport.line import Starter

_PUSH = "Copy the shards with 'fab hosts.push-data'"
_PUSH_ALL = "Push the data again to all hosts at once with 'fab hosts.push-data'"
_AGAIN = "Copy damaged shards again with 'fab hosts.push-data --verify'"


def manifests(trials: Sequence[Trial], hosts: Sequence[Host], start: Starter) -> dict[str, str]:
    """Return the manifest of each trial's data on its hosts, by the trial's key.

    Raises PreflightError if a host lacks data, has other data than the others, or has the share
    of another.
    """
    wanted = sorted({data for one in trials for data in (one.data.train, one.data.val) if data})
    if not wanted:
        return {}
    held = _held(hosts, start, wanted)

    def manifest(trial: Trial) -> str:
        names = [host.name for host in hosts[: trial.worker_hosts]]
        data = [one for one in (trial.data.train, trial.data.val) if one]
        return data_hash(
            line
            for one in data
            for line in _together(one, {name: held[name][wanted.index(one)] for name in names})
        )

    return {one.key: manifest(one) for one in trials}


def _held(
    hosts: Sequence[Host], start: Starter, wanted: Sequence[str], *, verify: bool = False
) -> dict[str, list[dict[str, Any]]]:
    """Return each host's contents of these data sets.

    PreflightError if one lacks some.
    """
    act = catch_errors(partial(_contents, start, wanted, verify))
    found = dict(zip([host.name for host in hosts], map_hosts(act, hosts, len(hosts)), strict=True))
    if wrong := [str(one) for one in found.values() if isinstance(one, LaunchError)]:
        lack = "have missing or damaged data" if verify else "lack data"
        raise PreflightError(f"{len(wrong)} hosts {lack}:", *wrong)
    return {name: one for name, one in found.items() if not isinstance(one, LaunchError)}


def described(
    data: str, hosts: Sequence[Host], start: Starter, *, verify: bool = False
) -> list[str]:
    """Return one line per host on its data. Raises PreflightError as `manifests` does.

    With `verify` each host reads its shards completely, and damaged ones are reported.
    """
    held = _held(hosts, start, [data], verify=verify)
    _together(data, {name: one[0] for name, one in held.items()})
    lines = []
    for name, (one,) in held.items():
        share = f"share {one['share'][0] + 1} of {one['share'][1]}, " if one["share"] else ""
        lines.append(
            f"{name}: {data}: {share}{len(one['lines'])} shards, manifest "
            f"{data_hash(one['lines'])}{', every record verified' if verify else ''}"
        )
    return lines


def _contents(
    start: Starter, wanted: Sequence[str], verify: bool, host: Host
) -> list[dict[str, Any]]:
    message = {"do": "contents", "tree": host.tree, "python": host.python, "data": list(wanted)}
    seconds = limits.VERIFY_ANSWER_SECONDS if verify else limits.CONTENTS_ANSWER_SECONDS
    with closing(RemoteProgram(host, start, "probe")) as program:
        answer = program.request(message | {"verify": verify}, seconds, "contents", "failed")
    if "why" in answer:
        raise LaunchError(
            error_line(host.name, problem=answer["why"], fix=_AGAIN if verify else _PUSH)
        )
    found: list[dict[str, Any]] = answer["contents"]
    if len(found) != len(wanted):
        raise LaunchError(
            error_line(
                host.name,
                expected=f"{len(wanted)} data sets",
                got=len(found),
                fix="Install this checkout there with 'fab hosts.install' and the same hosts",
            )
        )
    return found


def _together(data: str, held: dict[str, dict[str, Any]]) -> list[str]:
    """Return the manifest lines of the data that these hosts hold together."""
    first, *others = held
    shares: dict[tuple[int, int], str] = {}
    for name, one in held.items():
        share = tuple(one["share"] or ())
        if share in shares:
            problem = f"{data} is the same share as that of {shares[share]}"
            raise PreflightError(error_line(name, problem=problem, fix=_PUSH_ALL))
        if share:
            shares[share] = name
    for name in others:
        if not shares and held[name]["lines"] != held[first]["lines"]:
            problem = f"{data} has other shards than on {first}"
            raise PreflightError(error_line(name, problem=problem, fix=_PUSH))
    if len({of for _, of in shares}) > 1 or 0 < len(shares) < len(held):
        problem = "hosts have shares of different pushes"
        raise PreflightError(error_line(data, problem=problem, fix=_PUSH_ALL))
    return sorted({line for one in held.values() for line in one["lines"]})


_BESIDE = (".rec", ".idx", ".json", ".lst", ".bad.tsv")


@dataclass(frozen=True, kw_only=True)
class Parcel:
    """Files for one host: its share of the training shards, and all other shards.

    `others` are the training shards of the other hosts, which must not be in its folder.
    """

    share: HostPartition
    pieces: tuple[Piece, ...]
    others: tuple[str, ...]


def target(source: Path, into: str) -> str:
    """Return the folder on the hosts: `into`, or the source's path in the checkout."""
    if into:
        return into
    if source.absolute().is_relative_to(ROOT):
        return str(source.absolute().relative_to(ROOT))
    raise LaunchError(
        error_line(
            source,
            expected="a folder in the checkout",
            fix="Name the folder on the hosts with --into DIR",
        )
    )


def _folders(source: Path) -> tuple[Path, tuple[Path, ...]]:
    """Return the folder whose shards are distributed, and those that all hosts get."""
    if not any(source.glob("*.rec")) and any((source / "train").glob("*.rec")):
        val = source / "val"
        return source / "train", (val,) if any(val.glob("*.rec")) else ()
    return source, ()


def _files(recs: Sequence[Path], source: Path) -> list[Piece]:
    """Return shards with the files beside them."""
    found = [rec.with_suffix(end) for rec in recs for end in _BESIDE]
    return [contents(path, str(path.relative_to(source))) for path in found if path.exists()]


def everything(source: Path) -> list[Piece]:
    """Return all shards of a data set with the files beside them."""
    train, whole = _folders(source)
    return [piece for folder in (train, *whole) for piece in _files(record_files(folder), source)]


def parcels(source: Path, hosts: int, folder: Path) -> list[Parcel]:
    """Return the files for each host.

    The labels of the shares are written to `folder`.

    Raises LaunchError if there are fewer shards than hosts.
    """
    train, whole = _folders(source)
    shards = record_files(train)
    if len(shards) < hosts:
        raise LaunchError(
            error_line(
                train,
                expected=f"at least one shard per host ({hosts})",
                got=len(shards),
                fix=(
                    f"Pack with --train-shards {hosts} or more, or use --shared if the hosts share "
                    "a file system"
                ),
            )
        )
    cut = [[shards[at] for at in run] for run in even_runs(len(shards), hosts)]
    images = tuple({rec.name: count_images((rec,)) for rec in mine} for mine in cut)
    newest = max(rec.stat().st_mtime_ns for rec in shards)
    all_get = [piece for one in whole for piece in _files(record_files(one), source)]
    found = []
    for index, mine in enumerate(cut):
        share, file = HostPartition(index=index, images=images), folder / f"{index}.json"
        file.write_text(text(share), encoding="utf-8")
        os.utime(file, ns=(newest, newest))  # the same shards give the same file
        label = contents(file, str((train / FILE).relative_to(source)))
        found.append(
            Parcel(
                share=share,
                # The label first: it shows which shards are missing.
                pieces=(label, *_files(mine, source), *all_get),
                others=tuple(str(rec.relative_to(source)) for rec in shards if rec not in mine),
            )
        )
    return found


def _each(hosts: Sequence[Host], ask: Callable[[int], list[str]]) -> Iterator[tuple[Host, str]]:
    """Ask all hosts in parallel; yield those with a finding, and the first finding."""
    for host, found in zip(hosts, map_hosts(ask, range(len(hosts))), strict=True):
        if found:
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            yield host, found[0] + more


def hand_out(
    given: Sequence[Parcel],
    hosts: Sequence[Host],
    start: Starter,
    into: str,
    *,
    verify: bool = False,
) -> Iterator[PushProgress]:
    """Push each host its parcel, after a check that it has no shard of another host.

    With `verify` existing files are read and compared. Raises LaunchError, which names the host.
    """
    for host, name in _each(hosts, lambda at: strangers(given[at].others, hosts[at], start, into)):
        raise LaunchError(
            error_line(
                host.name,
                problem=f"{into}/{name} is not of its share, and no push wrote it",
                fix=(
                    "If the host shares this machine's file system, use --shared; else choose "
                    "another folder with --into DIR"
                ),
            )
        )
    yield from side_by_side(
        [
            push(one.pieces, host, start, into, exact=True, verify=verify)
            for one, host in zip(given, hosts, strict=True)
        ]
    )
    for host, why in _each(hosts, lambda at: differences(given[at].pieces, hosts[at], start, into)):
        raise LaunchError(
            error_line(
                host.name,
                problem=f"{into}/{why} after the push to all hosts",
                fix="If the hosts share a file system, remove the folder and use --shared",
            )
        )


def not_seen(
    pieces: Sequence[Piece],
    hosts: Sequence[Host],
    start: Starter,
    into: str,
    *,
    verify: bool = False,
) -> list[str]:
    """Return one line per host whose folder lacks these files.

    With `verify` all are read.
    """
    found = _each(hosts, lambda at: differences(pieces, hosts[at], start, into, whole=verify))
    return [f"{host.name}: {into}/{why}" for host, why in found]
