"""Facts about the machine and the software of a measurement, for environment.json."""

import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bench.settings.secrets import NAMES, masked

_END = 1 << 20


def software() -> dict[str, str]:
    """Return versions of Python and loaded frameworks, and MXNet's library."""
    found = {"python": platform.python_version(), "python_path": sys.executable}
    if torch := sys.modules.get("torch"):
        found["torch"] = str(torch.__version__)
    mx = sys.modules.get("mxnet")
    if mx is None:
        return found
    library = str(Path(mx.libinfo.find_lib_path()[0]).resolve())
    loaded = {"mxnet": mx.__version__, "mxnet_library": library, "mxnet_digest": _digest(library)}
    return found | loaded


def _digest(library: str) -> str:
    """Hash a library's size, first MiB and last MiB.

    The first MiB holds the linker's build ID. Hashing all of it would add half a second between the
    last window and the end of the job.
    """
    with Path(library).open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _END))
        last = file.read()
        file.seek(0)
        return hashlib.blake2b(b"%d" % size + file.read(_END) + last).hexdigest()[:12]


_PACKAGES = ("numpy", "opencv-python-headless", "simplejpeg", "fabric")
# The variables that affect a job; others may be private and are not stored.
VARIABLES = ("OMP_", "KMP_", "GOMP_", "MXNET_", "DNNL_", "MKL_", "NCCL_", "CUDA_")
# The variables that change a worker's throughput; addresses of servers differ by process.
_COMPUTING = ("OMP_", "KMP_", "GOMP_", "MXNET_", "DNNL_", "MKL_", "NCCL_")


def computing() -> dict[str, str]:
    """Return this process's variables that change its throughput."""
    return _named(_COMPUTING)


def describe(root: Path, engines: Iterable[str] = ()) -> dict[str, Any]:
    """Return facts about this machine, the checkout at `root` and installed packages.

    engines  packages of the engines that measure; MXNet if there is none
    """
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(root),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        **{
            name: installed_version(name, "not installed")
            for name in (*(engines or ("mxnet",)), *_PACKAGES)
        },
        "variables": _named(VARIABLES),
    }


def _named(starts: tuple[str, ...]) -> dict[str, str]:
    found = {name: value for name, value in sorted(os.environ.items()) if name.startswith(starts)}
    return masked(found, os.environ.get(NAMES, "").split(","))


def installed_version(package: str, missing: str = "") -> str:
    """Return a package's installed version; `missing` if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return missing


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _commit(root: Path) -> str:
    """Return the checkout's short commit, with + if modified; '' outside git."""
    try:
        head = _git(root, "rev-parse", "--short", "HEAD")
        changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return ""
    return head + ("+" if changed else "")


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
