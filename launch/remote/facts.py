"""Facts of a host: its machine, and the checkout's code, Python and MXNet."""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import errno
import fcntl
import hashlib
import json
import os
import pwd
import re
import socket
import struct
import subprocess
import sys
import time

from launch.remote import limits
from launch.remote.code_hash import code_hash

TYPE_CHECKING = False  # as in launch/remote/lease.py
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_SIOCGIFADDR = 0x8915
_ASKED = "index,name,memory.total,memory.used,compute_cap,mig.mode.current,driver_version"
_NAMES = ("index", "name", "memory", "used", "compute_cap", "mig", "driver")
_PROBE_BYTES = 1 << 20


def _boot_id() -> str:
    """Return an id that containers and namespaces of a machine share.

    Empty if not available.
    """
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123
            return file.read().strip()
    except OSError:
        return ""


def machine_facts(folder: str) -> dict[str, Any]:
    """Return facts of this machine; the disk is that of an existing or planned folder."""
    memory, system = _kernel_table("/proc/meminfo"), os.uname()  # in KiB
    processor = _kernel_table("/proc/cpuinfo")
    return {
        "hostname": socket.gethostname(),
        "user": user(),
        "machine": _boot_id(),
        "system": f"{system.sysname} {system.release}",
        "architecture": system.machine,
        "processor": processor.get("model name", system.machine),
        "cpu_flags": processor.get("flags", "").split(),
        "cores": sorted(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
        "memory_mib": int(memory.get("MemTotal", "0").split()[0]) // 1024,
        "available_mib": int(memory.get("MemAvailable", "0").split()[0]) // 1024,
        "addresses": addresses(),
        "reached": reached(),
        "master": master(),
        **_disk(folder),
        **gpus(),
    }


_TICKS, _USAGE_SECONDS = os.sysconf("SC_CLK_TCK"), 0.4
# A program below this share of a core is not counted; its time is.
_LEAST_SHARE = 0.05
# Share of all processors above which other programs matter; a controller and its display stay
# below it.
OTHERS_SHARE = 0.1


def usage(seconds: float = _USAGE_SECONDS) -> dict[str, Any]:
    """Measure how many other programs use how many of this machine's processors."""
    began, before, busy = time.monotonic(), _program_ticks(), _busy_ticks()
    time.sleep(seconds)
    ticks = (time.monotonic() - began) * _TICKS
    used = _busy_ticks() - busy
    shares = [(now - before.get(pid, now)) / ticks for pid, now in _program_ticks().items()]
    return {
        "programs": sum(share >= _LEAST_SHARE for share in shares),
        "cores": max(0, used) / ticks,
        "of": os.cpu_count() or 1,
    }


def _busy_ticks() -> int:
    """Return the processor time of all programs and the kernel, as in telemetry.py."""
    with open("/proc/stat", encoding="ascii") as file:  # noqa: PTH123
        user, nice, system, _, _, irq, softirq = map(int, file.readline().split()[1:8])
    return user + nice + system + irq + softirq


def _program_ticks() -> dict[int, int]:
    """Return the processor time of each program so far, without this one."""
    found = {}
    for name in os.listdir("/proc"):  # noqa: PTH208
        try:
            if name.isdigit() and int(name) != os.getpid():
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                    fields = file.read().rpartition(b")")[2].split()
                found[int(name)] = int(fields[11]) + int(fields[12])
        except (OSError, IndexError):  # it has ended
            continue
    return found


def user() -> str:
    """Return the user's name, or number if it has none."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _login_shell() -> str:
    """Return the user's login shell; /bin/sh if it has none, as in a container."""
    try:
        return pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh"
    except KeyError:
        return "/bin/sh"


def variables(starts: list[str]) -> dict[str, str]:
    """Return only the environment variables whose names start with one of these."""
    found = sorted(os.environ.items())
    return {name: value for name, value in found if name.startswith(tuple(starts))}


def _kernel_table(path: str) -> dict[str, str]:
    """Read lines 'name: value' of a file under /proc; the first line of a name counts."""
    with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        pairs = [line.partition(":")[::2] for line in file]
    return {name.strip(): value.strip() for name, value in reversed(pairs)}


def reached() -> list[str]:
    """Return the address by which the controller reached this machine, if it is known."""
    return os.environ.get("SSH_CONNECTION", "").split()[2:3]


def master() -> list[str]:
    """Return the address from which SSH came, if it did."""
    return os.environ.get("SSH_CONNECTION", "").split()[:1]


def addresses() -> dict[str, str]:
    """Return the IPv4 address of each network interface that has one."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                packed = struct.pack("256s", name.encode()[:15])
                found[name] = socket.inet_ntoa(
                    fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, packed)[20:24]
                )
            except OSError:
                continue
    return found


def _disk(folder: str) -> dict[str, Any]:
    """Return the free bytes of a folder's disk, and whether it can be written."""
    place = os.path.abspath(os.path.expanduser(folder))  # noqa: PTH100,PTH111
    while not os.path.isdir(place):  # noqa: PTH112
        place = os.path.dirname(place)  # noqa: PTH120
    disk = os.statvfs(place)
    problem, denied = "", False
    try:
        descriptor = _nameless(place)
        try:
            os.write(descriptor, bytes(_PROBE_BYTES))
            os.fsync(descriptor)  # without it a full disk accepts the data
        finally:
            os.close(descriptor)
    except OSError as error:
        problem = error.strerror or str(error)
        denied = error.errno in (errno.EROFS, errno.EACCES, errno.EPERM)
    free = disk.f_bavail * disk.f_frsize
    return {"disk": place, "free_bytes": free, "disk_problem": problem, "disk_denied": denied}


def _nameless(folder: str) -> int:
    """Open a new file that disappears when it is closed."""
    try:
        return os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o600)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT):
            raise
    name = os.path.join(folder, f".mxscale-{os.getpid()}-{os.urandom(8).hex()}")  # noqa: PTH118
    descriptor = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    os.unlink(name)  # noqa: PTH108
    return descriptor


def gpus() -> dict[str, Any]:
    """Return nvidia-smi's facts of each GPU and the processes on them."""
    if not os.path.isdir("/proc/driver/nvidia/gpus"):  # noqa: PTH112
        return {"gpus": [], "gpu_problem": "", "gpu_processes": []}
    try:
        rows = _nvidia_smi("--query-gpu=" + _ASKED)
        processes = _nvidia_smi("--query-compute-apps=pid,used_memory")
    except (OSError, subprocess.SubprocessError) as error:
        return {"gpus": [], "gpu_problem": f"nvidia-smi failed: {error}", "gpu_processes": []}
    return {
        "gpus": [dict(zip(_NAMES, row)) for row in rows],  # noqa: B905 - Python 3.8
        "gpu_problem": "",
        "cuda_driver": _cuda_driver(),
        "gpu_processes": [int(row[0]) for row in processes if row[0].isdigit()],
    }


def _cuda_driver() -> str:
    """Return the CUDA version that the driver supports, as 12.4.

    Empty if not available.
    """
    import ctypes  # noqa: PLC0415 - few hosts need it

    number = ctypes.c_int(0)
    try:
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(number))
    except (OSError, AttributeError):
        return ""
    return f"{number.value // 1000}.{number.value % 1000 // 10}"


def _nvidia_smi(query: str) -> list[list[str]]:
    command = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=limits.GPU_QUERY_SECONDS,
        check=True,
    )
    return [[word.strip() for word in line.split(",")] for line in done.stdout.splitlines()]


_WHICH = "command -v python3 && python3 -V"
# Without importlib.util and json, whose import takes as long as the start of Python.
_FIND = (
    "import sys, _frozen_importlib_external as f; "
    "s = [f.PathFinder.find_spec(n) for n in ('mxnet', 'torch', 'cv2')]; "
    "print(sys.version.split()[0], *(one and one.origin or '' for one in s), *sys.path, sep='\\t')"
)
_ERROR = re.compile(r"\w*(Error|Exception)\b")


def checkout_facts(trees: list[str], python: str) -> dict[str, Any]:
    """Return facts of the first tree with a complete environment, or that exists.

    Of the shells.

    An environment is complete once tools/environment.sh has written its stamp.
    """
    found = [tree for tree in map(os.path.expanduser, trees) if os.path.isdir(tree)]  # noqa: PTH112
    ready = [tree for tree in found if os.access(os.path.join(tree, python), os.X_OK)]  # noqa: PTH118
    stamp = os.path.join(os.path.dirname(os.path.dirname(python)), "lock-stamp")  # noqa: PTH118,PTH120
    whole = [tree for tree in ready if os.path.exists(os.path.join(tree, stamp))]  # noqa: PTH110,PTH118
    tree = (whole or ready or found or [""])[0]
    facts: dict[str, Any] = {
        "tree": tree,
        **_code(tree),
        "commit": _commit(tree),
        "shell": _shell(),
        "login_shell": _printed([_login_shell(), "-lc", _WHICH]),
    }
    nothing = {"python": "", "mxnet": "", "dist_kvstore": False, "cuda": False, "libraries": []}
    facts.update(nothing, python_problem="" if ready else "there is none")
    if ready:
        try:
            facts.update(_of_python(tree, python))
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            facts.update(_broken(last_line(error)))
    return facts


def _broken(why: str) -> dict[str, Any]:
    """Return why a Python cannot be used, with the variables that affect every Python."""
    names = [name for name in ("PYTHONHOME", "PYTHONPATH") if os.environ.get(name)]
    listed = " and ".join(f"{name}={os.environ[name]}" for name in names)
    may = f"; {listed} is set, perhaps by a start-up file such as ~/.bashrc" if names else ""
    return {"python_problem": why + may, "python_variables": names}


def _code(tree: str) -> dict[str, str]:
    """Return the hash of a checkout's code, or why it has none."""
    try:
        return {"code": code_hash(tree) if tree else "", "code_problem": ""}
    except OSError as error:
        name = error.filename if isinstance(error.filename, str) else tree
        return {"code": "", "code_problem": f"{name}: {error.strerror or error}"}


def _shell() -> str:
    """Return path and version of the python3 on PATH, which may run this program."""
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(folder, "python3")  # noqa: PTH118
        if os.access(path, os.X_OK) and os.path.isfile(path):  # noqa: PTH113
            if os.path.realpath(path) == os.path.realpath(sys.executable):
                return f"{path} {sys.version.split()[0]}"
            break
    return _printed(["/bin/sh", "-c", _WHICH])


def _printed(command: list[str]) -> str:
    """Return the path and version that a command prints, or the reason of its failure."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limits.COMMAND_SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"failed: {error}"
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    return " ".join(lines[-2:]).replace("Python ", "") if done.returncode == 0 else "none"


def _commit(tree: str) -> str:
    """Return the short commit of a checkout, with + if files differ.

    Empty without git.
    """
    if not tree or not os.path.exists(os.path.join(tree, ".git")):  # noqa: PTH110,PTH118
        return ""
    git = ["git", "-C", tree, "describe", "--always", "--dirty=+", "--exclude=*"]
    printed = _printed(git)
    return "" if printed == "none" or printed.startswith("failed") else printed


def _of_python(tree: str, python: str) -> dict[str, Any]:
    path = os.path.join(tree, python)  # noqa: PTH118
    try:
        version, origin, torch, opencv = _answer(tree, path)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        return _broken(f"not a working Python ({last_line(error)})")
    if not origin and not torch:
        return {"python": version}
    # CUDA's libraries from wheels, for processes that load MXNet only.
    packages = os.path.dirname(os.path.dirname(origin))  # noqa: PTH120
    nvidia = os.path.join(packages, "nvidia")  # noqa: PTH118
    names = os.listdir(nvidia) if origin and os.path.isdir(nvidia) else []  # noqa: PTH112,PTH208
    folders = [os.path.join(nvidia, name, "lib") for name in sorted(names)]  # noqa: PTH118
    libraries = [folder for folder in folders if os.path.isdir(folder)]  # noqa: PTH112
    found = _libraries(tree, path, [origin, torch, opencv], libraries)
    return {"python": version, "libraries": libraries, **found}


def _answer(tree: str, path: str) -> list[str]:
    """Return a Python's version and the files of its MXNet, PyTorch and OpenCV.

    Cached until the Python, its search folders or the variables that affect it change, because
    starting a Python takes longer than the rest of a probe.
    """
    variables = sorted(one for one in os.environ.items() if one[0].startswith(("PYTHON", "LD_")))
    cache = _cache("python", [tree, path, variables])
    kept = _kept(cache)
    answer: Any = kept.get("found")
    files: Any = kept.get("files")
    whole = isinstance(answer, list) and len(answer) == 4 and isinstance(files, dict)
    if whole and files == _statuses(files):
        return list(answer)
    *found, folders = _run([path, "-c", _FIND], tree, limits.COMMAND_SECONDS, []).split("\t", 4)
    searched = folders.split("\t")
    above = [os.path.dirname(folder) for folder in searched]  # noqa: PTH120 - libpython, if shared
    _keep(cache, {"found": found, "files": _statuses([path, *searched, *above, *found[1:]])})
    return found


def _statuses(files: Iterable[str]) -> dict[str, list[int]]:
    """Return values that change with a file or a folder's contents.

    Empty if it is missing.
    """
    found: dict[str, list[int]] = {}
    for file in files:
        try:
            one = os.stat(file)  # noqa: PTH116
            found[file] = [one.st_ino, one.st_size, one.st_mtime_ns]
        except OSError:
            found[file] = []
    return found


def _libraries(tree: str, path: str, origins: list[str], libraries: list[str]) -> dict[str, Any]:
    """Return the facts that need an import, cached by the files and PYTHONPATH."""
    mxnet, torch, opencv = origins
    library = os.path.join(os.path.dirname(mxnet), "libmxnet.so")  # noqa: PTH118,PTH120
    version = os.path.join(os.path.dirname(torch), "version.py")  # noqa: PTH118,PTH120
    named = [library if mxnet else "", torch, version if torch else "", opencv]
    files = [name for name in named if os.path.exists(name)]  # noqa: PTH110
    statuses = [os.stat(file) for file in files]  # noqa: PTH116
    sizes = [f"{one.st_size} {one.st_mtime_ns}" for one in statuses]
    # A module in a folder of PYTHONPATH may replace an import.
    searched = filter(os.path.isdir, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    times = [[folder, os.stat(folder).st_mtime_ns] for folder in searched]  # noqa: PTH116
    cache = _cache("libraries", [files, sizes, times])
    found = _kept(cache)
    if not found:
        found = json.loads(
            _run([path, "-m", "bench.libraries"], tree, limits.IMPORT_SECONDS, libraries)
        )
        _keep(cache, found)
    return found


def _cache(kind: str, key: list[Any]) -> str:
    """Return the cache file for facts that a host keeps between probes."""
    name = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]
    return os.path.expanduser(f"~/.cache/mxscale/{kind}-{name}.json")  # noqa: PTH111


def _kept(cache: str) -> dict[str, Any]:
    try:
        with open(cache, encoding="utf-8") as file:  # noqa: PTH123
            kept = json.load(file)
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _keep(cache: str, found: dict[str, Any]) -> None:
    try:
        os.makedirs(os.path.dirname(cache), exist_ok=True)  # noqa: PTH103,PTH120
        with open(cache, "w", encoding="utf-8") as file:  # noqa: PTH123
            json.dump(found, file)
    except OSError:
        pass  # without a cache the next probe is only slower


def _run(command: list[str], tree: str, seconds: float, libraries: list[str]) -> str:
    """Run a command and return the last line that it printed."""
    found = {"LD_LIBRARY_PATH": os.pathsep.join(libraries)} if libraries else {}
    paths = [tree, *filter(None, [os.environ.get("PYTHONPATH")])]  # as for a worker
    found.update(PYTHONPATH=os.pathsep.join(paths), PYTHONDONTWRITEBYTECODE="1")
    done = subprocess.run(
        command,
        cwd=tree,
        env={**os.environ, **found},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds,
        stdin=subprocess.DEVNULL,
        check=True,
    )
    lines = done.stdout.strip().splitlines()
    if not lines:
        raise ValueError("no output")
    return lines[-1]


def contents(tree: str, python: str, data: list[str], verify: bool) -> Any:
    """Return shards and share of each data set, by bench.data.partition.

    `verify` reads all.
    """
    path = os.path.join(tree, python)  # noqa: PTH118
    words = ["--verify"] * verify
    seconds = limits.VERIFY_SECONDS if verify else limits.CONTENTS_SECONDS
    return json.loads(_run([path, "-m", "bench.data.partition", *words, *data], tree, seconds, []))


def disk(tree: str, python: str, data: str) -> Any:
    """Return the throughput of the disk of a data set, by bench.data.disk."""
    path = os.path.join(tree, python)  # noqa: PTH118
    return json.loads(
        _run([path, "-m", "bench.data.disk", data], tree, limits.CONTENTS_SECONDS, [])
    )


def last_line(error: Exception) -> str:
    """Return the last line that a failed program printed, or the error itself."""
    printed = getattr(error, "stderr", None)
    lines = printed.strip().splitlines() if isinstance(printed, str) else []
    # A Python that cannot start prints its threads below the error.
    errors = [line for line in lines if _ERROR.match(line)] or lines
    return errors[-1][:1000] if errors else str(error)[:300]
