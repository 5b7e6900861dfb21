"""What a machine has and is busy with, read without anything of ours installed.

Standard library only and Python 3.8 or newer: it is sent to hosts.
"""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import errno
import fcntl
import os
import pwd
import socket
import struct
import subprocess


def boot_id() -> str:
    """The same for containers and namespaces of one machine; empty if the kernel does not say."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123
            return file.read().strip()
    except OSError:
        return ""


TYPE_CHECKING = False  # as in launch/remote/lease.py
if TYPE_CHECKING:
    from typing import Any

_SIOCGIFADDR = 0x8915
_ASKED = "index,name,memory.total,memory.used,compute_cap,mig.mode.current,driver_version"
_NAMES = ("index", "name", "memory", "used", "compute_cap", "mig", "driver")
_PROBE_BYTES = 1 << 20


def facts(folder: str) -> dict[str, Any]:
    """Of this machine, with the disk of a folder that is there or could be made."""
    memory, system = _memory(), os.uname()
    return {
        "hostname": socket.gethostname(),
        "user": user(),
        "machine": boot_id(),
        "system": f"{system.sysname} {system.release}",
        "architecture": system.machine,
        "processor": _processor(),
        "cores": sorted(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
        "memory_mib": memory.get("MemTotal", 0) // 1024,
        "available_mib": memory.get("MemAvailable", 0) // 1024,
        "addresses": addresses(),
        "reached": reached(),
        "master": master(),
        **_disk(folder),
        **gpus(),
    }


def user() -> str:
    """The user's name, or number if it has none."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def variables(starts: list[str]) -> dict[str, str]:
    """The variables of this process whose names start so; of others nothing is told."""
    found = sorted(os.environ.items())
    return {name: value for name, value in found if name.startswith(tuple(starts))}


def _processor() -> str:
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return names[0] if names else os.uname().machine


def _memory() -> dict[str, int]:
    """/proc/meminfo, in KiB."""
    with open("/proc/meminfo", encoding="ascii") as file:  # noqa: PTH123
        lines = [line.split() for line in file]
    return {words[0].rstrip(":"): int(words[1]) for words in lines}


def reached() -> list[str]:
    """The address by which SSH reached this machine, if it did."""
    return os.environ.get("SSH_CONNECTION", "").split()[2:3]


def master() -> list[str]:
    """The address that SSH came from, if it did."""
    return os.environ.get("SSH_CONNECTION", "").split()[:1]


def addresses() -> dict[str, str]:
    """The IPv4 address of each network interface that has one."""
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
    """Free bytes where the folder is or would be, and whether a file can be written there."""
    place = os.path.abspath(os.path.expanduser(folder))  # noqa: PTH100,PTH111
    while not os.path.isdir(place):  # noqa: PTH112
        place = os.path.dirname(place)  # noqa: PTH120
    disk = os.statvfs(place)
    told: dict[str, Any] = {"disk": place, "free_bytes": disk.f_bavail * disk.f_frsize}
    try:
        descriptor = _nameless(place)
        try:
            os.write(descriptor, bytes(_PROBE_BYTES))
            os.fsync(descriptor)  # without it a full disk takes what is written
        finally:
            os.close(descriptor)
    except OSError as error:
        return {**told, "disk_problem": error.strerror or str(error)}
    return {**told, "disk_problem": ""}


def _nameless(folder: str) -> int:
    """A new file that is gone when it is closed."""
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
    """What nvidia-smi says of each GPU and of the processes on them."""
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
    """The CUDA that the driver can run, as 12.4; empty where it does not say."""
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
        command, capture_output=True, text=True, errors="replace", timeout=20, check=True
    )
    return [[word.strip() for word in line.split(",")] for line in done.stdout.splitlines()]
