"""Start-up before MXNet is loaded: rendezvous events and the CPU instruction set.

MXNet reports nothing before the rendezvous is complete, and afterwards only to workers. These
events show which of a hundred processes the others are waiting for.
"""

import atexit
import ctypes
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bench.errors import SpecError, error_line
from bench.events import STREAM_VARIABLE, say

INSTRUCTION_SET_VARIABLE = "DNNL_MAX_CPU_ISA"
_CPUINFO = Path("/proc/cpuinfo")
# From oldest to newest, by oneDNN's names, with the CPU flags that each set needs.
_FLAGS_OF_SETS = {
    "SSE41": ("sse4_1",),
    "AVX": ("avx",),
    "AVX2": ("avx2",),
    "AVX512_CORE": ("avx512f", "avx512bw", "avx512vl", "avx512dq"),
    "AVX512_CORE_VNNI": ("avx512_vnni",),
    "AVX512_CORE_BF16": ("avx512_bf16",),
    "AVX512_CORE_AMX": ("amx_tile", "amx_int8", "amx_bf16"),
}
INSTRUCTION_SETS = tuple(_FLAGS_OF_SETS)
# Linux, asm/prctl.h, x86-64; 18 is the state of the AMX tiles.
_SYS_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _TILE_DATA = 158, 0x1023, 18
_RETRY_SECONDS = 0.2
# MXNet sets this variable in C when the scheduler has assigned the process its rank.
_PLACE_VARIABLE = b"DMLC_RANK"


def cpu_flags() -> frozenset[str]:
    """Return the CPU's flags; empty if Linux does not list them."""
    if not _CPUINFO.exists():
        return frozenset()
    for line in _CPUINFO.read_text(encoding="utf-8").splitlines():
        if line.startswith("flags"):
            return frozenset(line.partition(":")[2].split())
    return frozenset()


def newest_instruction_set(has: frozenset[str], most: str = "ALL") -> str:
    """Return the newest instruction set for these CPU flags, up to `most`; '' if none."""
    allowed = (
        INSTRUCTION_SETS[: INSTRUCTION_SETS.index(most) + 1]
        if most in _FLAGS_OF_SETS
        else INSTRUCTION_SETS
    )
    found = ""
    for name in allowed:
        if not has.issuperset(_FLAGS_OF_SETS[name]):
            break
        found = name
    return found


def prepare_arithmetic(dtype: str) -> str:
    """Prepare this process for its data type; return the instruction set it will use.

    DNNL_MAX_CPU_ISA limits the instruction set. Raises SpecError if the CPU does not support
    bfloat16.
    """
    most = os.environ.get(INSTRUCTION_SET_VARIABLE, "ALL").upper()
    name = newest_instruction_set(cpu_flags(), most)
    if dtype != "bfloat16":  # newer sets than AVX512_CORE are for other data types
        return min(name, "AVX512_CORE", key=INSTRUCTION_SETS.index).lower() if name else ""
    if name == "AVX512_CORE_AMX" and not ask_for_tiles():
        name = "AVX512_CORE_BF16"
    if not name.startswith("AVX512_CORE"):
        raise SpecError(
            error_line(
                "dtype",
                expected="a CPU with AVX-512 for bfloat16",
                got=name or "no known instruction set",
                fix="Use float32",
            )
        )
    os.environ[INSTRUCTION_SET_VARIABLE] = name
    return name.lower()


def ask_for_tiles() -> bool:
    """Request permission to use AMX from Linux (5.16+); return whether it is granted.

    Without permission, the first use of AMX is fatal.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.syscall(_SYS_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _TILE_DATA) == 0)


def announce_rendezvous() -> None:
    """Send `reached` as soon as the scheduler answers this process; returns at once.

    The scheduler itself sends it when it listens. A server or worker sends `registered` as soon as
    it has its rank.
    """
    if STREAM_VARIABLE in os.environ and "DMLC_PS_ROOT_URI" in os.environ:
        role = os.environ.get("DMLC_ROLE", "")
        threading.Thread(target=_follow, args=(role,), daemon=True).start()


def _connect() -> None:
    port = os.environ["DMLC_PS_ROOT_PORT"]
    if os.environ.get("DMLC_LOCAL", "0") != "0":  # MXNet's rendezvous then uses sockets in /tmp
        with socket.socket(socket.AF_UNIX) as local:
            local.connect(f"/tmp/{port}")
        return
    address = os.environ["DMLC_PS_ROOT_URI"], int(port)
    socket.create_connection(address, timeout=_RETRY_SECONDS).close()


def _follow(role: str) -> None:
    while True:
        try:
            _connect()
        except OSError:
            time.sleep(_RETRY_SECONDS)
        else:
            say("reached")
            break
    if role != "scheduler":
        report = _rank_report()
        # A server whose workers leave at once ends before the next check.
        atexit.register(report)
        while not report():
            time.sleep(_RETRY_SECONDS)


def _rank_report() -> Callable[[], bool]:
    """Return a function that sends `registered` once there is a rank.

    It returns whether there is one.
    """
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    lock, sent = threading.Lock(), threading.Event()

    def report() -> bool:
        with lock:
            if not sent.is_set() and getenv(_PLACE_VARIABLE) is not None:
                say("registered")
                sent.set()
        return sent.is_set()

    return report
