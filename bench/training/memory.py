"""Out of memory: how MXNet and the libraries below it say so, and what helps."""

from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")

_MESSAGES = (
    "failed to allocate",  # MXNet, of a processor's
    "out of memory",  # CUDA, of a GPU's
    "bad_alloc",
    "unable to allocate",  # NumPy
    "cannot allocate memory",  # the kernel, by any library
    "memory allocation failed",
    "memoryallocation",
    "memoryerror",  # a traceback's last line
    "could not create a primitive",  # oneDNN, whose scratch memory it does not get
    "could not create a memory",
    "failed to map segment",  # the loader, of a library
    "too many memory regions",  # OpenBLAS
    "status_alloc_failed",  # cuBLAS, cuDNN
    "can't start new thread",  # Python: there is no room for a stack
    "thread creation failed",  # libgomp
    "pthread_create failed",  # OpenBLAS
)
# What a C++ program prints that ends because it gets no thread.
_NO_THREAD = ("std::system_error", "resource temporarily unavailable")
START = "out of memory: "


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that there was no memory left, of the machine or of a GPU."""
    return isinstance(error, MemoryError) or is_out_of_memory_text(str(error))


def is_out_of_memory_text(text: str) -> bool:
    """Whether a program's last words say that it got no memory, or no room for a thread."""
    said = text.lower()
    return any(words in said for words in _MESSAGES) or all(words in said for words in _NO_THREAD)


def oom_kills(proc: Path = Path("/proc/vmstat"), cgroup: Path = _CGROUP) -> int | None:
    """Processes that the kernel killed for memory so far; None if it does not count them."""
    found = []
    for path in (proc, cgroup / "memory.events"):
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except OSError:
            continue
        found += [int(line.split()[1]) for line in lines if line.startswith("oom_kill ")]
    return sum(found) if found else None


def advice(batch: int, devices: int) -> str:
    """One line: what did not fit and the three ways out."""
    return (
        f"{START}a batch of {batch} on {devices} device(s) does not fit; take a smaller batch "
        f"('python -m bench.auto_batch' finds the largest that fits), set "
        f"MXNET_BACKWARD_DO_MIRROR=1, which computes some of it twice, or use fewer devices"
    )
