"""ssh's own configuration, as far as it says how hosts are reached."""

import glob
import os
import re
from pathlib import Path

from paramiko.config import SSHConfig

from launch.errors import LaunchError

_OWN, _SYSTEM = Path("~/.ssh/config"), Path("/etc/ssh/ssh_config")
_INCLUDE = re.compile(r"(?im)^[ \t]*include[ \t=]+(.+)$")
_DEEPEST = 16


def read(path: str) -> SSHConfig:
    """The configuration of a file, or of the person and the system where none is named.

    paramiko does not follow Include, which is done here. Raises LaunchError.
    """
    if path and not Path(path).is_file():
        raise LaunchError(f"--ssh-config {path}: no such file")
    files = [Path(path)] if path else [_OWN.expanduser(), _SYSTEM]
    # What the first file says of all hosts must not be of its last Host block.
    text = "\nHost *\n".join(_text(file, 0) for file in files if file.is_file())
    try:
        return SSHConfig.from_text(text)
    except Exception as error:
        where = path or " and ".join(map(str, files))
        raise LaunchError(f"{where}: cannot be read as ssh's configuration: {error}") from error


def _text(file: Path, depth: int) -> str:
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise LaunchError(f"{file}: cannot be read ({error.strerror})") from error
    if depth == _DEEPEST:
        raise LaunchError(f"{file}: Include leads in a circle")

    def included(found: re.Match[str]) -> str:
        names = [os.path.expanduser(word.strip('"')) for word in found[1].split()]  # noqa: PTH111
        home = Path("~/.ssh").expanduser()
        paths = [path for name in names for path in sorted(glob.glob(str(home / name)))]  # noqa: PTH207
        return "\n".join(_text(Path(path), depth + 1) for path in paths)

    return _INCLUDE.sub(included, text)
