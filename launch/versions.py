"""What this checkout and its Python are, as hosts are compared with them."""

import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from launch.code import code_hash
from launch.hosts import ROOT


@cache
def own_code() -> str:
    """The hash of this checkout's code."""
    return code_hash(ROOT)


@cache
def own_versions() -> dict[str, str]:
    """The Python of this process and its MXNet."""
    try:
        mxnet = version("mxnet")
    except PackageNotFoundError:
        mxnet = "none"
    return {"python": f"{sys.version_info.major}.{sys.version_info.minor}", "mxnet": mxnet}
