"""A data set's shards to hosts: who gets which, and whether they have arrived."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from bench.data.partition import FILE, Share, text
from bench.data.shards import count_images
from im2rec_tools.commands.shard import share
from im2rec_tools.formats.tree import recs
from launch.compare import differences, strangers
from launch.errors import LaunchError
from launch.hosts import ROOT, Host
from launch.push import Moved, Piece, contents, push, side_by_side
from launch.transport import Start

_BESIDE = (".rec", ".idx", ".json", ".lst", ".bad.tsv")
_AT_ONCE = 8


@dataclass(frozen=True, kw_only=True)
class Parcel:
    """What one host gets: its share of the training shards, all of the others.

    `others` are the shards that other hosts get, which must not lie beside its own.
    """

    share: Share
    pieces: tuple[Piece, ...]
    others: tuple[str, ...]


def target(source: Path, into: str) -> str:
    """The folder on the hosts: `into`, or where the source lies in the checkout here."""
    if into:
        return into
    if source.absolute().is_relative_to(ROOT):
        return str(source.absolute().relative_to(ROOT))
    raise LaunchError(f"{source}: does not lie in the checkout; say where it goes with --into DIR")


def _folders(source: Path) -> tuple[Path, tuple[Path, ...]]:
    """The folder whose shards are shared out, and those whose shards all hosts get."""
    if not any(source.glob("*.rec")) and any((source / "train").glob("*.rec")):
        val = source / "val"
        return source / "train", (val,) if any(val.glob("*.rec")) else ()
    return source, ()


def _files(recs: Sequence[Path], source: Path) -> list[Piece]:
    """Shards and what lies beside them."""
    found = [rec.with_suffix(end) for rec in recs for end in _BESIDE]
    return [contents(path, str(path.relative_to(source))) for path in found if path.exists()]


def everything(source: Path) -> list[Piece]:
    """All shards of a data set, with what lies beside them."""
    train, whole = _folders(source)
    return [piece for folder in (train, *whole) for piece in _files(recs(folder), source)]


def parcels(source: Path, hosts: int, folder: Path) -> list[Parcel]:
    """What each of so many hosts gets; files that say which share it is are written to `folder`.

    Raises LaunchError where there are fewer shards than hosts.
    """
    train, whole = _folders(source)
    shards = recs(train)
    if len(shards) < hosts:
        raise LaunchError(
            f"{train}: {len(shards)} shard(s) cannot feed {hosts} hosts; pack with --train-shards "
            f"{hosts} or more, or give --shared where the hosts see one file system"
        )
    cut = [share(shards, hosts, index) for index in range(hosts)]
    images = tuple({rec.name: count_images((rec,)) for rec in mine} for mine in cut)
    newest = max(rec.stat().st_mtime_ns for rec in shards)
    all_get = [piece for one in whole for piece in _files(recs(one), source)]
    found = []
    for index, mine in enumerate(cut):
        said = folder / f"{index}.json"
        said.write_text(text(Share(index=index, images=images)), encoding="utf-8")
        os.utime(said, ns=(newest, newest))  # of the same shards, it is the same file
        label = contents(said, str((train / FILE).relative_to(source)))
        found.append(
            Parcel(
                share=Share(index=index, images=images),
                # The label first: where shards are missing, it tells that they are.
                pieces=(label, *_files(mine, source), *all_get),
                others=tuple(str(rec.relative_to(source)) for rec in shards if rec not in mine),
            )
        )
    return found


def _each(hosts: Sequence[Host], ask: Callable[[int], list[str]]) -> Iterator[tuple[Host, str]]:
    """The hosts that find something, side by side, with the first of what they find."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for host, found in zip(hosts, pool.map(ask, range(len(hosts))), strict=True):
            if found:
                more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
                yield host, found[0] + more


def hand_out(
    given: Sequence[Parcel],
    hosts: Sequence[Host],
    start: Start,
    into: str,
    *,
    verify: bool = False,
) -> Iterator[Moved]:
    """Pushes each host its parcel, after a check that no shard of another lies there.

    With `verify` what lies there is read and compared, whatever earlier pushes noted. Raises
    LaunchError, naming the host.
    """
    for host, name in _each(hosts, lambda at: strangers(given[at].others, hosts[at], start, into)):
        raise LaunchError(
            f"{host.name}: {into}/{name} is not of its share and no push put it there. If the host "
            f"sees this machine's files, give --shared; else choose another folder with --into"
        )
    yield from side_by_side(
        [
            push(one.pieces, host, start, into, exact=True, verify=verify)
            for one, host in zip(given, hosts, strict=True)
        ]
    )
    for host, how in _each(hosts, lambda at: differences(given[at].pieces, hosts[at], start, into)):
        raise LaunchError(
            f"{host.name}: {into}/{how} after all hosts were served; if they see one file system, "
            f"remove the folder and give --shared"
        )


def not_seen(
    pieces: Sequence[Piece], hosts: Sequence[Host], start: Start, into: str, *, verify: bool = False
) -> list[str]:
    """A line for each host whose folder does not have these files; with `verify` all are read."""
    found = _each(hosts, lambda at: differences(pieces, hosts[at], start, into, whole=verify))
    return [f"{host.name}: {into}/{how}" for host, how in found]
