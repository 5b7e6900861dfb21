"""Debian root made by debootstrap, in which tests run what a container would."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

NOBODY = 65534
# How this machine reaches package indexes; nothing of it is written to the project.
_INDEX = {"PIP_INDEX_URL", *(f"{name}_PROXY" for name in ("HTTP", "HTTPS", "NO"))}
_INDEX |= {name.lower() for name in _INDEX}
_PIP_FILES = (Path("/etc/pip.conf"), Path.home() / ".config/pip/pip.conf")
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_SHARED_MEMORY = "64m"  # Docker's default


def mirror(suite: str) -> str:
    """Return the URL from which apt installs a suite; empty if none."""
    targets = ["apt-get", "indextargets", "--format", "$(SITE) $(RELEASE)"]
    if shutil.which("apt-get") is None:
        return ""
    done = subprocess.run(targets, capture_output=True, text=True, check=False)
    sites = [line.split()[0] for line in done.stdout.splitlines() if line.split()[1:] == [suite]]
    return sites[0] if sites else ""


def missing(suite: str) -> str:
    """Return what this machine lacks for a root of the suite; empty if nothing."""
    if os.geteuid():
        return "needs root"
    for program in ("debootstrap", "unshare", "setpriv"):
        if shutil.which(program) is None:
            return f"needs {program}: apt-get install {program}"
    return "" if mirror(suite) else f"needs an apt source of Debian {suite}"


def make(root: Path, suite: str) -> None:
    """Install the suite's base system in a new folder."""
    command = ["debootstrap", "--variant=minbase", suite, str(root), mirror(suite)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=1200)
    shutil.copy("/etc/resolv.conf", root / "etc")
    shutil.copy(_CERTIFICATES, root / "machine.crt")
    for path in _PIP_FILES:
        if path.exists():
            shutil.copy(path, root / "etc" / "pip.conf")


def run(
    root: Path, script: str, *, seconds: float, bound: Mapping[str, Path] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a shell script in the root.

    Its mounts and processes end with it.

    bound  folders of this machine that the script can write to, by their paths in the root. If
           given, all else but /tmp is read-only and the script runs as nobody
    """
    index = {name: value for name, value in os.environ.items() if name in _INDEX}
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp", "LC_ALL": "C.UTF-8"}
    env |= index | {"PIP_CERT": "/machine.crt"}
    user = f"setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups" if bound else ""
    inner = f"exec chroot {shlex.quote(str(root))} {user} sh -euc {shlex.quote(script)}"
    outer = "\n".join([*_mounts(root, bound or {}), inner])
    return subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-euc", outer],
        env=env,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def _mounts(root: Path, bound: Mapping[str, Path]) -> Sequence[str]:
    place = shlex.quote(str(root))
    commands = []
    if bound:
        commands += [f"mount --bind {place} {place}", f"mount -o remount,ro,bind {place}"]
        commands += [f"mount -t tmpfs tmpfs {place}/tmp"]
    commands += [
        f"mount -t proc proc {place}/proc",
        f"mount --rbind /dev {place}/dev",
        f"mount -t tmpfs -o size={_SHARED_MEMORY} tmpfs {place}/dev/shm",
    ]
    folders = {str(root) + path: folder for path, folder in bound.items()}
    binds = [f"mount --bind {shlex.quote(str(f))} {shlex.quote(p)}" for p, f in folders.items()]
    return commands + binds
