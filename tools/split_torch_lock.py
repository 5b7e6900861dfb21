"""Move the libraries of CUDA out of requirements-torch.lock.

An installation for CPU needs none of them. Adds the hashes of builds for CPU, too, which are in
requirements-torch.in.
"""

import re
from pathlib import Path

_LOCK, _CUDA = Path("requirements-torch.lock"), Path("requirements-torch-cuda.lock")
_BUILDS = Path("requirements-torch.in")


def split(lock: str, builds: str) -> tuple[str, str]:
    """Return the lock with the builds' hashes, and that of CUDA's libraries."""
    pins = [pin for pin in re.split(r"^(?=[a-z])", lock, flags=re.MULTILINE) if pin]
    cuda = [pin for pin in pins if pin.startswith(("cuda-", "nvidia-", "triton="))]
    hashes = dict(re.findall(r"(--hash=(\S+))", builds))
    rest = []
    for pin in pins:
        if pin in cuda:
            continue
        new = [one for one in hashes if one not in pin] if pin.startswith("torch==") else []
        rest.append(" \\\n    ".join([pin.rstrip("\n"), *new]) + "\n")
    return "".join(rest), "".join(cuda)


if __name__ == "__main__":
    torch, libraries = split(_LOCK.read_text(), _BUILDS.read_text())
    _LOCK.write_text(torch)
    _CUDA.write_text(libraries)
