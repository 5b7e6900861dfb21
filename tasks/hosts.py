"""hosts.*: what is done on every host of a list."""

import os
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from invoke.tasks import task

from launch.errors import LaunchError
from launch.hostfile import find
from launch.hosts import Host, Login
from launch.push import Moved
from launch.transport import Start
from tasks.door import door


def listed(hostfile: str) -> tuple[Host, ...]:
    """The hosts of a file, or of what the environment says; LaunchError where there are none."""
    found = find(hostfile, "", "", os.environ)
    if not found:
        raise LaunchError("--hostfile: expected a file with a host a line, got none")
    return tuple(
        Host(
            name=one.target,
            address="",
            cpus=one.slots or 1,
            gpus=one.slots or 1,
            login=Login.read(one.target, one.port),
        )
        for one in found
    )


def show(updates: Iterable[Moved]) -> dict[str, Moved]:
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


@task(
    auto_shortflags=False,
    help={
        "source": "a folder of .rec files, or one with train/ and val/ below it",
        "hostfile": "a host a line; default: what the environment says",
        "into": "folder there, relative to the checkout; default: where it is in this one",
        "shared": "copy nothing: see that all hosts have the same files",
        "ssh_config": "instead of ~/.ssh/config",
        "accept_new": "take the key of a host that is not known yet",
    },
)
@door
def push_data(  # type: ignore[no-untyped-def]
    c, source, hostfile="", into="", shared=False, ssh_config="", accept_new=False
):
    """Copy each host its own share of a data set's shards; run again, it copies what is missing."""
    from launch.ssh import Settings, Ssh
    from tasks.shares import target

    hosts, folder = listed(hostfile), target(Path(source), into)
    with closing(Ssh(Settings(config=ssh_config, accept_new=accept_new))) as ssh:
        serve = _compare if shared else _copy
        serve(Path(source), hosts, ssh.start, folder)


def _compare(source: Path, hosts: Sequence[Host], start: Start, into: str) -> None:
    from tasks.shares import everything, not_seen

    pieces = everything(source)
    wrong = not_seen(pieces, hosts, start, into)
    for line in wrong:
        print(line)
    if wrong:
        raise LaunchError(
            f"{len(wrong)} of {len(hosts)} hosts have other files in {into}; leave --shared out to "
            f"give each host its share"
        )
    print(f"{len(hosts)} host(s) have the same {len(pieces)} files in {into}")


def _copy(source: Path, hosts: Sequence[Host], start: Start, into: str) -> None:
    from tasks.shares import hand_out, parcels

    with TemporaryDirectory() as labels:
        given = parcels(source, len(hosts), Path(labels))
        last = show(hand_out(given, hosts, start, into))
    for one, host in zip(given, hosts, strict=True):
        moved, size = last[host.name], sum(piece.size for piece in one.pieces)
        print(
            f"{host.name}: {one.share.said}, {size / 1e6:.1f} MB in {into}; copied "
            f"{moved.files} of {len(one.pieces)} files, {moved.total / 1e6:.1f} MB"
        )
