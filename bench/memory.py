"""Out of memory: how MXNet says it, and what helps."""

_SAID = (
    "failed to allocate",  # MXNet, of a processor's
    "out of memory",  # CUDA, of a GPU's
    "bad_alloc",
    "unable to allocate",  # NumPy
    "cannot allocate memory",
    "memoryallocation",
    "could not create a primitive",  # oneDNN, whose scratch memory it does not get
)
START = "out of memory: "


def ran_out(error: BaseException) -> bool:
    """Whether an error says that there was no memory left, of the machine or of a GPU."""
    said = str(error).lower()
    return isinstance(error, MemoryError) or any(words in said for words in _SAID)


def advice(batch: int, devices: int) -> str:
    """One line: what did not fit and the three ways out."""
    return (
        f"{START}a batch of {batch} on {devices} device(s) does not fit; take a smaller batch "
        f"('python -m bench.auto_batch' finds the largest that fits), set "
        f"MXNET_BACKWARD_DO_MIRROR=1, which computes some of it twice, or use fewer devices"
    )
