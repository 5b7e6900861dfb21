"""Whether the disks of hosts deliver enough images for the devices."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

from launch.hosts import Host
from launch.remote import limits
from launch.remote.errors import LaunchError, PreflightError, error_line
from launch.transport.client import RemoteProgram, catch_errors, map_hosts
from launch.transport.line import Starter

# Data that stay in memory by more than this are not read from the disk.
_COLD_BELOW = 0.05
# Less is read from the memory of a disk, or in a moment.
_LEAST_BYTES = 64 * 10**6


class DiskVerdict(Enum):
    """Whether a disk delivers enough, or why that is unknown."""

    FAST = "fast enough"
    SLOW = "too slow"
    CACHED = "no verdict: the data stay in memory"
    HIDDEN = "no verdict: the page cache is unknown"
    SMALL = "no verdict: too little data"


@dataclass(frozen=True, kw_only=True)
class DiskReport:
    """Throughput of a host's disk, in images and bytes per second, cold if it can be.

    needed   images per second that the host's devices need
    ordered  files read from the first byte on
    random   whole records in a random order, as training reads them
    """

    host: str
    needed: float
    images_ordered: float
    images_random: float
    bytes_ordered: float
    bytes_random: float
    bytes_read: int
    verdict: DiskVerdict


def disk_report(host: str, found: Mapping[str, Any], needed: float) -> DiskReport:
    """Return the report of a host's answer, `bench.data.disk.DiskThroughput`."""
    ordered = found["ordered_bytes"] / max(found["ordered_seconds"], 1e-9)
    seconds = max(found["random_seconds"], 1e-9)
    per_image = found["data_bytes"] / max(found["data_images"], 1)
    images = found["random_images"] / seconds
    verdict = DiskVerdict.FAST if images >= needed else DiskVerdict.SLOW
    if found["random_bytes"] < _LEAST_BYTES and found["random_images"] >= found["data_images"]:
        verdict = DiskVerdict.SMALL
    if found["cached"] is None:
        verdict = DiskVerdict.HIDDEN
    elif found["cached"] > _COLD_BELOW:
        verdict = DiskVerdict.CACHED
    return DiskReport(
        host=host,
        needed=needed,
        images_ordered=ordered / max(per_image, 1.0),
        images_random=images,
        bytes_ordered=ordered,
        bytes_random=found["random_bytes"] / seconds,
        bytes_read=found["random_bytes"],
        verdict=verdict,
    )


def disk_reports(
    data: str, hosts: Sequence[Host], start: Starter, needed: float
) -> list[DiskReport]:
    """Measure all hosts' disks at once, so that a shared one serves all of them.

    Raises PreflightError, with a line per host, if one cannot read its shards.
    """
    act = catch_errors(partial(_asked, data, start))
    found = dict(zip([host.name for host in hosts], map_hosts(act, hosts, len(hosts)), strict=True))
    if wrong := [str(one) for one in found.values() if isinstance(one, LaunchError)]:
        raise PreflightError(f"{len(wrong)} hosts cannot read the data:", *wrong)
    return [
        disk_report(name, one, needed)
        for name, one in found.items()
        if not isinstance(one, LaunchError)
    ]


def _asked(data: str, start: Starter, host: Host) -> dict[str, Any]:
    message = {"do": "disk", "tree": host.tree, "python": host.python, "data": data}
    with closing(RemoteProgram(host, start, "probe")) as program:
        answer = program.request(message, limits.CONTENTS_ANSWER_SECONDS, "disk", "failed")
    if "why" in answer:
        fix = "Copy the shards with 'fab hosts.push-data'"
        raise LaunchError(error_line(host.name, problem=answer["why"], fix=fix))
    return answer


def disk_lines(found: Sequence[DiskReport]) -> Iterator[str]:
    """Yield two lines per host: what its disk delivers, and the verdict."""
    for one in found:
        yield (
            f"{one.host}: disk: {one.images_random:.0f} images/s in random order "
            f"({one.bytes_random / 1e6:.0f} MB/s), {one.images_ordered:.0f} images/s in file order "
            f"({one.bytes_ordered / 1e6:.0f} MB/s)"
        )
        yield f"{one.host}: disk: {_sentence(one)}"


def _sentence(one: DiskReport) -> str:
    if one.verdict == DiskVerdict.FAST:
        times = one.images_random / one.needed
        return f"fast enough: {times:.1f} times the {one.needed:g} images/s needed"
    if one.verdict == DiskVerdict.SLOW:
        share = 100 * one.images_random / one.needed
        return f"too slow: {share:.0f} % of the {one.needed:g} images/s needed"
    if one.verdict == DiskVerdict.CACHED:
        return f"{one.verdict.value}, so the figures are not the disk's"
    if one.verdict == DiskVerdict.HIDDEN:
        return f"{one.verdict.value}, because another user owns the data"
    return f"{one.verdict.value}, only {one.bytes_read / 1e6:.0f} MB"
