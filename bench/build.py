"""Which Python and which MXNet a process runs: versions alone do not tell builds apart."""

import hashlib
import platform
import sys
from pathlib import Path


def software() -> dict[str, str]:
    """Python's version; of MXNet, where it is loaded, version, library and what that file holds."""
    found = {"python": platform.python_version(), "python_path": sys.executable}
    mx = sys.modules.get("mxnet")
    if mx is None:
        return found
    library = str(Path(mx.libinfo.find_lib_path()[0]).resolve())
    with Path(library).open("rb") as file:
        digest = hashlib.file_digest(file, "blake2b").hexdigest()[:12]
    return found | {"mxnet": mx.__version__, "mxnet_library": library, "mxnet_digest": digest}
