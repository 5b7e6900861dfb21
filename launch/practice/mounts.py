"""Mounts: what a practice host sees of the machine that it is on."""

import ctypes
import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from launch.hosts import ROOT
from launch.remote.errors import LaunchError

# Each host has these to itself.
_OWN = {
    "/dev/shm": "mode=1777",
    "/home": "mode=755",
    "/run": "mode=755",
    "/tmp": "mode=1777",
    "/var/tmp": "mode=1777",
}
_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC = 1, 32, 4096, 16384

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, kw_only=True)
class MountPlan:
    """Paths of the machine, and what a host has there.

    covers  folder: options of the file system in memory that hides it
    shown   folders that are there all the same, read-only
    links   symbolic link: where it points; those that lead to what is shown
    """

    covers: dict[str, str]
    shown: tuple[str, ...]
    links: dict[str, str]


def mount_plan(home: str) -> MountPlan:
    """What lets a host's user run this interpreter on this checkout, wherever they are.

    home is the size of /home as tmpfs takes it, such as 2g. Raises LaunchError for a folder that
    is itself closed to others.
    """
    programs = [Path(sys.executable), Path(getattr(sys, "_base_executable", sys.executable))]
    folders = [ROOT, Path(sys.prefix), Path(sys.base_prefix)]
    shown = {folder.resolve() for folder in [*folders, *(one.parent for one in programs)]}
    links: dict[Path, str] = {}
    for path in (*programs, *folders):
        links |= links_to(path)
    _check_open(shown)
    parents = {parent for path in {*shown, *links} for parent in path.parents}
    covers = {str(folder): "mode=755" for folder in parents if not folder.stat().st_mode & 0o001}
    covers |= {
        str(Path(path).resolve()): options for path, options in _OWN.items() if Path(path).is_dir()
    }
    covers[str(Path("/home").resolve())] += f",size={home}"
    covers = {path: covers[path] for path in _topmost(covers)}
    hidden = [str(path) for path in shown if _below(path, covers)]
    return MountPlan(
        covers=covers,
        shown=_topmost([str(ROOT), *hidden]),
        links={str(link): to for link, to in links.items() if _below(link, covers)},
    )


def _check_open(folders: set[Path]) -> None:
    for folder in sorted(folders):
        if folder.stat().st_mode & 0o005 != 0o005:
            mode = stat.S_IMODE(folder.stat().st_mode)
            raise LaunchError(
                f"{folder}: the hosts' user must be able to read it, and its mode is {mode:o}; "
                f"chmod o+rx {folder}"
            )


def links_to(path: Path) -> dict[Path, str]:
    """The symbolic links on the way from a path to where it really is, with what they say."""
    for part in (*reversed(path.parents), path):
        if part.is_symlink():
            says = str(part.readlink())
            target = Path(os.path.normpath(part.parent / says))
            return {part: says} | links_to(target / path.relative_to(part))
    return {}


def _below(path: Path, folders: dict[str, str]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _topmost(paths: "dict[str, str] | list[str]") -> tuple[str, ...]:
    """Those that lie below no other of them."""
    parents = set(paths)
    return tuple(
        path
        for path in sorted(parents)
        if not parents.intersection(str(parent) for parent in Path(path).parents)
    )


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Mounts by mount(2); OSError where the kernel refuses."""
    words = (source.encode(), target.encode(), kind.encode())
    if _libc.mount(*words, ctypes.c_ulong(flags), options.encode()):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def take(plan: MountPlan) -> None:
    """Mounts as planned in this mount namespace, which must be of this process's own."""
    opened = {folder: os.open(folder, os.O_PATH) for folder in plan.shown}
    for folder, options in plan.covers.items():
        mount("tmpfs", folder, "tmpfs", 0, options)
    for folder, fd in opened.items():
        Path(folder).mkdir(parents=True, exist_ok=True)
        mount(f"/proc/self/fd/{fd}", folder, flags=_MS_BIND | _MS_REC)
        os.close(fd)
        mount("", folder, flags=_MS_REMOUNT | _MS_BIND | _MS_RDONLY)
    for link, target in plan.links.items():
        if not os.path.lexists(link):
            Path(link).parent.mkdir(parents=True, exist_ok=True)
            Path(link).symlink_to(target)
    # Nor may sshd's records of logins, or anyone's files, end up on the machine.
    mount("", "/", flags=_MS_REMOUNT | _MS_BIND | _MS_RDONLY)
