"""Fetch of a data set's shares by the hosts themselves, from a URL."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from bench.data.partition import FILE, HostPartition, text
from im2rec_tools.packing import manifest
from im2rec_tools.transfer.fetch_job import FetchJob, fetch
from im2rec_tools.transfer.file_list import WantedFile, share, wanted_files
from im2rec_tools.transfer.sources import Sources
from im2rec_tools.transfer.urls import Url
from launch.hosts import Host, lease_owner
from launch.push import contents, push
from launch.remote import limits
from launch.remote.errors import LaunchError, error_line
from launch.transport.client import RemoteProgram, catch_errors, map_hosts
from launch.transport.line import Starter

_TRAIN = "train/"


@dataclass(frozen=True, kw_only=True)
class HostShare:
    """The files that one host fetches.

    label: of the shards among them, None if there are none.
    """

    files: tuple[WantedFile, ...]
    label: HostPartition | None


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
    whole = tuple(one for one in files if one not in train)
    shares = [share(train, index, hosts) for index in range(1, hosts + 1)]
    counts = _image_counts(shares, scratch)
    return [
        HostShare(
            files=(*mine, *whole),
            label=HostPartition(index=index, images=counts) if all(counts) else None,
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
    given: Sequence[HostShare], hosts: Sequence[Host], start: Starter, into: str, scratch: Path
) -> list[str]:
    """Let every host fetch its share into a folder; return a line per host.

    into: relative to the checkout on the hosts, or absolute.

    Raises LaunchError at the end, with the errors of all hosts that failed.
    """

    def act(index: int) -> str:
        return f"{hosts[index].name}: {_fetched(given[index], hosts[index], start, into, scratch)}"

    found = map_hosts(catch_errors(act), range(len(hosts)), len(hosts))
    if failed := [str(one) for one in found if isinstance(one, LaunchError)]:
        raise LaunchError("; ".join(failed))
    return [one for one in found if isinstance(one, str)]


def _fetched(given: HostShare, host: Host, start: Starter, into: str, scratch: Path) -> str:
    """Fetch the files of each folder, then push the label; return the last lines."""
    folders: dict[str, list[WantedFile]] = {}
    for one in given.files:
        folders.setdefault(str(PurePosixPath(one.name).parent), []).append(one)
    lines = [_fetched_folder(host, start, into, *each) for each in folders.items()]
    if given.label:
        file = scratch / f"{given.label.index}.{FILE}"
        file.write_text(text(given.label), encoding="utf-8")
        train = next(one.name for one in given.files if one.name.endswith(".rec"))
        name = str(PurePosixPath(train).parent / FILE)
        for _ in push([contents(file, name)], host, start, into):
            pass
        lines.insert(0, given.label.label)
    return "; ".join(lines)


def _fetched_folder(
    host: Host, start: Starter, into: str, folder: str, files: Sequence[WantedFile]
) -> str:
    named = [one.url.text for one in files if not one.optional]
    message = {
        "do": "fetch",
        "tree": host.tree,
        "python": host.python,
        "owner": lease_owner(host),
        "words": [*named, str(PurePosixPath(into, folder))],
    }
    with closing(RemoteProgram(host, start, "environment")) as program:
        done = program.request(message, limits.FETCH_SECONDS, "done")
    last = str(done["lines"][-1]).strip() if done["lines"] else ""
    if done["code"]:
        problem = " | ".join(str(line).strip() for line in done["lines"])
        fix = "Run the same command again to continue"
        raise LaunchError(error_line(host.name, problem=problem, fix=fix))
    return last
