"""The libraries of a worker; `python -m bench.libraries` prints them as JSON.

hosts.check compares hosts by this line, so it holds only facts that equal wheels have in common.
"""

import ctypes
import hashlib
import json
import runpy
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

if not __package__:
    print(
        "error: bench/libraries.py: cannot run as a script. "
        "Run 'python -m bench.libraries' in the checkout",
        file=sys.stderr,
    )
    raise SystemExit(2)

from bench.environment import installed_version
from im2rec_tools.options import ProgramParser

_PACKAGES = ("numpy", "simplejpeg")
# The parts of OpenCV's build information that affect decoding throughput.
_OPENCV = (
    *("Baseline", "Dispatched code generation", "C++ Compiler", "JPEG", "SIMD Support"),
    *("Parallel framework", "Intel IPP"),
)


def facts() -> dict[str, Any]:
    """Return versions and builds of frameworks, OpenCV, CUDA and packages."""
    found = {
        **mxnet(),
        **torch(),
        **{name: installed_version(name) for name in _PACKAGES},
        "opencv": opencv(),
    }
    runtime = cuda_runtime() if found.get("cuda") else ""
    return found | ({"cuda_runtime": runtime} if runtime else {})


def mxnet() -> dict[str, Any]:
    """Return MXNet's version and features; nothing if it is not installed."""
    if find_spec("mxnet") is None:
        return {}
    from bench.training.mxnet_shim import mx  # noqa: PLC0415 - other engines need none

    enabled = sorted(name for name, one in mx.runtime.Features().items() if one.enabled)
    return {
        "mxnet": mx.__version__,
        "dist_kvstore": "DIST_KVSTORE" in enabled,
        "cuda": "CUDA" in enabled,
        "features": enabled,
    }


def torch() -> dict[str, Any]:
    """Return PyTorch's version, and the CUDA and GPU architectures of its build.

    Nothing if it is not installed; "torch_cuda" is empty in a build for CPU, which this does not
    import.
    """
    found = find_spec("torch")
    if found is None or not found.origin:
        return {}
    try:
        values = runpy.run_path(str(Path(found.origin).with_name("version.py")))
    except OSError:
        return {}
    cuda = values.get("cuda") or ""
    built = {"torch_archs": torch_archs()} if cuda else {}
    return {"torch": str(values.get("__version__")), "torch_cuda": cuda, **built}


def torch_archs() -> list[str]:
    """Return the GPU architectures of PyTorch's build; none if unknown."""
    try:
        import torch  # noqa: PLC0415 - takes seconds

        # torch.cuda.get_arch_list() is empty while no GPU is visible, and hosts keep this fact.
        return str(torch._C._cuda_getArchFlags() or "").split()
    except (ImportError, OSError, AttributeError):
        return []


def opencv() -> dict[str, str]:
    """Return OpenCV's version, and the digest and relevant lines of its build."""
    try:
        import cv2  # noqa: PLC0415 - another MXNet may lack it
    except ImportError:
        return {}
    text = cv2.getBuildInformation()
    lines = [line.partition(":") for line in text.splitlines()]
    lines_by_name = {name.strip(): " ".join(value.split()) for name, _, value in reversed(lines)}
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    build = {name: lines_by_name[name] for name in _OPENCV if name in lines_by_name}
    return {"version": cv2.__version__, "digest": digest, **build}


def cuda_runtime() -> str:
    """Return the version of the CUDA runtime that MXNet loaded, as '11.2'; '' if none."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    loaded = {line.split()[-1] for line in maps.splitlines() if "libcudart" in line}
    number = ctypes.c_int(0)
    for path in loaded:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(path).cudaRuntimeGetVersion(ctypes.byref(number))
    return f"{number.value // 1000}.{number.value % 1000 // 10}" if number.value else ""


def parser() -> ProgramParser:
    """Return the parser of `python -m bench.libraries`."""
    return ProgramParser(
        prog="python -m bench.libraries",
        usage="%(prog)s",
        description="Print versions and builds of MXNet and its libraries as a line of JSON.",
    )


if __name__ == "__main__":
    parser().parse_args()
    print(json.dumps(facts()))
