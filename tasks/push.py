"""hosts.push-data: a data set's shards to the hosts that train on them."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from im2rec_tools.terminal import echo
from launch.hosts import Host
from launch.remote.errors import LaunchError
from launch.transport.line import Start
from tasks.cluster import NOT_ASKED, hosts_task
from tasks.scratch import scratch
from tasks.where import found_hosts

if TYPE_CHECKING:
    from launch.push import Moved


def show(updates: "Iterable[Moved]") -> "dict[str, Moved]":
    """Shows how far each host's push is, in MB; returns the last of each."""
    from im2rec_tools.bars import Bars

    last: dict[str, Moved] = {}
    with Bars() as bars:
        for moved in updates:
            last[moved.host] = moved
            step = f"{moved.host}: {moved.step}"
            if moved.total:
                bars.show(step, moved.done // 10**6, -(-moved.total // 10**6), "MB")
    return last


@hosts_task(
    help={
        "source": "a folder of .rec files, or one with train/ and val/ below it",
        "into": "folder there, relative to the checkout; default: where it is in this one",
        "shared": "copy nothing: see that all hosts have the same files",
        "verify": "read every byte on the hosts, and copy again what differs from the files here",
    },
)
def push_data(  # type: ignore[no-untyped-def]
    c, source, asked=NOT_ASKED, into="", shared=False, verify=False
):
    """Copy each host its own share of a data set's shards; run again, it copies what is missing."""
    from launch.data_shares import target

    folder = target(Path(source), into)
    with found_hosts(asked) as (hosts, start):
        serve = _compare if shared else _copy
        serve(Path(source), hosts, start, folder, verify=verify)


def _compare(source: Path, hosts: Sequence[Host], start: Start, into: str, *, verify: bool) -> None:
    from launch.data_shares import everything, not_seen

    pieces = everything(source)
    wrong = not_seen(pieces, hosts, start, into, verify=verify)
    for line in wrong:
        echo(line)
    if wrong:
        raise LaunchError(
            f"{len(wrong)} of {len(hosts)} hosts have other files in {into}; leave --shared out to "
            f"give each host its share"
        )
    read = ", every byte compared" if verify else ""
    echo(f"{len(hosts)} host(s) have the same {len(pieces)} files in {into}{read}")


def _copy(source: Path, hosts: Sequence[Host], start: Start, into: str, *, verify: bool) -> None:
    from launch.data_shares import hand_out, parcels

    with scratch() as labels:
        given = parcels(source, len(hosts), labels)
        last = show(hand_out(given, hosts, start, into, verify=verify))
    for one, host in zip(given, hosts, strict=True):
        moved, size = last[host.name], sum(piece.size for piece in one.pieces)
        for name in moved.other:
            echo(f"{host.name}: {into}/{name} differed from the file here; copied again")
        echo(
            f"{host.name}: {one.share.said}, {size / 1e6:.1f} MB in {into}; copied "
            f"{moved.files} of {len(one.pieces)} files, {moved.total / 1e6:.1f} MB"
        )
