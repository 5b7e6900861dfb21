"""Python environment of a checkout on a host, made by tools/environment.sh.

    to it    {"do": "environment", "tree", "env", "owner", "folder", "lock", "wheels", "pushed"}
    from it  {"say": "done", "code", "lines"} | {"say": "lacking"}

`wheels` is a folder of the checkout, empty if the host uses a package index. Wheels are removed
after the script; the environment's `folder` keeps the `lock` that they were for. If it differs, and
the wheels have not been `pushed`, the answer is "lacking".
"""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from launch.remote import commands, lease
from launch.remote.errors import LaunchError

_ASKS: dict[str, dict[str, Any]] = {
    "environment": {
        "n": int,
        "tree": str,
        "env": {str: str},
        "owner": {dict, commands.NOTHING},
        "folder": str,
        "lock": str,
        "wheels": str,
        "pushed": bool,
    }
}


def main() -> None:
    """Carry out the request of one line and report it.

    End all when the connection closes.
    """
    asked: dict[str, Any] = {}
    try:
        asked = commands.parsed(sys.stdin.readline(), _ASKS)
        lease.hold(asked["owner"])
    except LaunchError as error:
        _say({"code": 1, "lines": [str(error)]}, asked)
        return
    tree = os.path.abspath(os.path.expanduser(asked["tree"]))  # noqa: PTH100,PTH111
    env = {**os.environ, **asked["env"]}
    wheels = os.path.join(tree, asked["wheels"]) if asked["wheels"] else ""  # noqa: PTH118
    stamp = Path(tree, asked["folder"], "wheels-stamp")
    if wheels:
        if not asked["pushed"] and not _is_made(stamp, asked["lock"]):
            _say({"say": "lacking"}, asked)
            return
        # pip reads a path with spaces as several folders.
        link = Path(wheels).as_uri() if len(wheels.split()) > 1 else wheels
        env.update(PIP_NO_INDEX="1", PIP_FIND_LINKS=link)
    child = subprocess.Popen(
        ["/bin/sh", "tools/environment.sh"],
        cwd=tree,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    signal.signal(signal.SIGUSR1, lambda *_: _end(child))  # by 'fab hosts.stop'
    threading.Thread(target=_end_with_line, args=(child,), daemon=True).start()
    _, printed = child.communicate()
    if wheels:
        shutil.rmtree(wheels, ignore_errors=True)
        if not child.returncode and stamp.parent.is_dir():
            stamp.write_text(asked["lock"], encoding="ascii")
    lines = [line for line in printed.decode("utf-8", "replace").splitlines() if line.strip()]
    _say({"code": child.returncode, "lines": lines[-5:]}, asked)
    os._exit(0)  # the thread still waits for the connection


def _is_made(stamp: Path, lock: str) -> bool:
    """Whether the existing environment was made of wheels for this lock."""
    made = stamp.with_name("lock-stamp").is_file() and stamp.is_file()
    return made and stamp.read_text(encoding="ascii", errors="replace") == lock


def _say(done: dict[str, Any], asked: dict[str, Any]) -> None:
    print(json.dumps({"say": "done", **done, "n": asked.get("n")}), flush=True)


def _end_with_line(child: subprocess.Popen[bytes]) -> None:
    sys.stdin.read()
    _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    os.killpg(child.pid, signal.SIGKILL)
    os._exit(1)
