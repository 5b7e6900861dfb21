"""Fetch of a data set's shares by the hosts themselves, from a URL."""

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from bench.data.partition import FILE, HostPartition, text
from im2rec_tools.packing import manifest
from im2rec_tools.transfer.fetch_job import FetchJob, fetch
from im2rec_tools.transfer.file_list import TooFewError, WantedFile, share, wanted_files
from im2rec_tools.transfer.sources import Sources
from im2rec_tools.transfer.urls import Url
from launch.hosts import Host, lease_owner
from launch.push import Pushing, PushProgress, contents, push, side_by_side
from launch.remote import limits
from launch.remote.errors import LaunchError, error_line
from launch.transport.client import RemoteProgram
from launch.transport.line import Starter

_TRAIN = "train/"


@dataclass(frozen=True, kw_only=True)
class HostShare:
    """The files that one host fetches.

    others: names of the files of other shares. label: of the shards among them, None if there are
    none. scratch: an own folder here.
    """

    files: tuple[WantedFile, ...]
    others: tuple[str, ...]
    label: HostPartition | None
    scratch: Path


def host_shares(urls: Sequence[Url], hosts: int, scratch: Path) -> list[HostShare]:
    """Return each host's share of train/ if it exists, else of all files.

    All hosts get the other files. The manifests of the shards are read to `scratch`, because
    every host needs the image counts of all. Raises DataError, and LaunchError for a URL with
    credentials.
    """
    for url in urls:
        if str(url) != url.text:
            fix = "Use the hosts' own credentials, or fetch here and push the folder"
            problem = "a URL with credentials does not go to hosts"
            raise LaunchError(error_line(url, problem=problem, fix=fix))
    with Sources() as sources:
        files = wanted_files(urls, None, sources)
    train = [one for one in files if one.name.startswith(_TRAIN)] or files
    names = {one.name for one in train}
    whole = tuple(one for one in files if one.name not in names)
    try:
        shares = [share(train, index, hosts) for index in range(1, hosts + 1)]
    except TooFewError:
        expected, fix = f"a file or shard for each of {hosts} hosts", "Name fewer hosts"
        raise LaunchError(
            error_line("SOURCE", expected=expected, got="fewer files", fix=fix)
        ) from None
    counts = _image_counts(shares, scratch)
    return [
        HostShare(
            files=(*mine, *whole),
            others=tuple(sorted(names - {one.name for one in mine})),
            label=HostPartition(index=index, images=counts) if all(counts) else None,
            scratch=scratch,
        )
        for index, mine in enumerate(shares)
    ]


def _image_counts(
    shares: Sequence[Sequence[WantedFile]], scratch: Path
) -> tuple[dict[str, int], ...]:
    """Return the images per shard of each share, by the manifests."""
    recs = [[one.url for one in mine if one.name.endswith(".rec")] for mine in shares]
    beside = [url.sibling(url.name.removesuffix(".rec") + ".json") for mine in recs for url in mine]
    folder = scratch / "manifests"  # scratch itself is locked by its owner
    if beside:
        list(fetch(FetchJob(urls=tuple(beside), folder=folder)))
    return tuple({url.name: _images(folder / url.name) for url in mine} for mine in recs)


def _images(rec: Path) -> int:
    made = manifest.read(rec)
    assert made is not None  # it was fetched
    return made.images


def fetch_on_hosts(
    given: Sequence[HostShare],
    hosts: Sequence[Host],
    start: Starter,
    into: str,
    done: dict[str, str],
) -> Iterator[PushProgress]:
    """Let every host fetch its share into a folder; yield the progress of all.

    into: relative to the checkout on the hosts, or absolute. done: gets the result of each host.

    Raises LaunchError at the end, with the errors of all hosts that failed.
    """
    pairs = zip(given, hosts, strict=True)
    running = [_fetched(one, host, start, into, done) for one, host in pairs]
    return side_by_side(running, len(hosts))


def _fetched(
    given: HostShare, host: Host, start: Starter, into: str, done: dict[str, str]
) -> Pushing:
    """Fetch the files of a host, then push the label of its shards."""
    files = [_asked(one) for one in given.files]
    request = {"folder": into, "files": files, "others": given.others}
    message = {
        "do": "fetch",
        "tree": host.tree,
        "python": host.python,
        "owner": lease_owner(host),
        "request": json.dumps(request),
    }
    count, lines = len(given.files), list[str]()
    with closing(RemoteProgram(host, start, "environment")) as program:
        for answer in program.answers(message, limits.FETCH_SECONDS, "progress", "done"):
            if answer["say"] == "done":
                lines = [str(line).strip() for line in answer["lines"]]
                break
            step, moved, total = answer["step"], answer["done"], answer["total"]
            yield PushProgress(host=host.name, step=step, files=count, done=moved, total=total)
    if answer["code"]:
        reason = " | ".join(lines).removeprefix("error: ")  # which ends with its own fix
        fix = "" if lines else "Run the same command again to continue"
        problem = reason or f"the fetch ended with code {answer['code']}"
        raise LaunchError(error_line(host.name, problem=problem, fix=fix))
    result = lines[-1] if lines else ""
    if given.label:
        file = given.scratch / f"{given.label.index}.{FILE}"
        file.write_text(text(given.label), encoding="utf-8")
        train = next(one.name for one in given.files if one.name.endswith(".rec"))
        yield from push(
            [contents(file, str(PurePosixPath(train).parent / FILE))], host, start, into
        )
        result = f"{given.label.label}; {result}"
    done[host.name] = f"{host.name}: {result}"


def _asked(one: WantedFile) -> dict[str, Any]:
    """Return a file of a request: im2rec_tools/transfer/host_program.py."""
    return {
        "url": one.url.text,
        "name": one.name,
        "size": one.listed.size,
        "digests": dict(one.listed.digests),
        "optional": one.optional,
    }
