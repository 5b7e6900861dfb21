"""Mounts: the parts of the machine that a host of a local test cluster sees."""

import ctypes
import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from launch.hosts import ROOT
from launch.remote.errors import LaunchError, error_line

# Each host has its own.
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
    """Paths of the machine and their contents on a host.

    covers  folder: options of the file system in memory that hides it
    shown   folders that stay visible, read-only
    links   symbolic link: its target; those that lead to visible folders
    """

    covers: dict[str, str]
    shown: tuple[str, ...]
    links: dict[str, str]


def mount_plan(home: str) -> MountPlan:
    """Plan mounts that let a host's user run this interpreter in this checkout.

    `home` is the size of /home for tmpfs, such as 2g. Raises LaunchError if other users cannot
    read one of the folders.
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
                error_line(
                    folder,
                    expected="a folder that the hosts' user can read",
                    got=f"mode {mode:o}",
                    fix=f"Run: chmod o+rx {folder}",
                )
            )


def links_to(path: Path) -> dict[Path, str]:
    """Return the symbolic links on the way to a path, with their targets."""
    for part in (*reversed(path.parents), path):
        if part.is_symlink():
            says = str(part.readlink())
            target = Path(os.path.normpath(part.parent / says))
            return {part: says} | links_to(target / path.relative_to(part))
    return {}


def _below(path: Path, folders: dict[str, str]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _topmost(paths: "dict[str, str] | list[str]") -> tuple[str, ...]:
    """Return the paths that are below no other of them."""
    parents = set(paths)
    return tuple(
        path
        for path in sorted(parents)
        if not parents.intersection(str(parent) for parent in Path(path).parents)
    )


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Mount by mount(2); OSError if the kernel refuses."""
    words = (source.encode(), target.encode(), kind.encode())
    if _libc.mount(*words, ctypes.c_ulong(flags), options.encode()):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def take(plan: MountPlan) -> None:
    """Mount as planned in this process's own mount namespace."""
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
    # Keeps sshd's records of logins, and all other files, off the machine.
    mount("", "/", flags=_MS_REMOUNT | _MS_BIND | _MS_RDONLY)
