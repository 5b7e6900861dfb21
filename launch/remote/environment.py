"""Programs of a checkout on a host: tools/environment.sh, and the fetch of data.

    to it    {"do": "environment", "tree", "env", "owner", "folder", "lock", "wheels", "pushed"}
             | {"do": "fetch", "tree", "python", "owner", "request"}
    from it  {"say": "progress", "step", "done", "total"} ... {"say": "done", "code", "lines"}
             | {"say": "lacking"}

`wheels` is a folder of the checkout, empty if the host uses a package index. Wheels are removed
after the script; the environment's `folder` keeps the `lock` that they were for. If it differs, and
the wheels have not been `pushed`, the answer is "lacking".
"""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import contextlib
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
    },
    "fetch": {
        "n": int,
        "tree": str,
        "python": str,
        "owner": {dict, commands.NOTHING},
        "request": str,
    },
}

# Lines of a program that are reported.
_KEPT = 5


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
    if asked["do"] == "fetch":
        _say(_fetched(asked, tree), asked)
        os._exit(0)  # the thread still waits for the connection
    _make(asked, tree)


def _make(asked: dict[str, Any], tree: str) -> None:
    """Make the environment of the checkout and report it."""
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
    done = _ran(["/bin/sh", "tools/environment.sh"], tree, env)
    if wheels:
        shutil.rmtree(wheels, ignore_errors=True)
        if not done["code"] and stamp.parent.is_dir():
            stamp.write_text(asked["lock"], encoding="ascii")
    _say(done, asked)
    os._exit(0)  # the thread still waits for the connection


def _ran(words: list[str], tree: str, env: dict[str, str]) -> dict[str, Any]:
    """Run a program in the checkout.

    Return its code and the last lines of its standard error.
    """
    try:
        child = subprocess.Popen(
            words,
            cwd=tree,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        return _not_started(error)
    _end_on_request(child)
    _, printed = child.communicate()
    return {"code": child.returncode, "lines": _lines(printed)[-_KEPT:]}


def _fetched(asked: dict[str, Any], tree: str) -> dict[str, Any]:
    """Run the fetch and report its progress.

    Return its code and the last lines of its text.
    """
    python = os.path.join(tree, asked["python"])  # noqa: PTH118
    try:
        child = subprocess.Popen(
            [python, "-m", "im2rec_tools.transfer.host_program"],
            cwd=tree,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        return _not_started(error)
    _end_on_request(child)
    lines: list[str] = []
    given, printed = child.stdin, child.stdout
    assert given is not None  # a pipe
    assert printed is not None
    with contextlib.suppress(BrokenPipeError), given:  # what it prints has the reason
        given.write(asked["request"].encode())
    for line in printed:
        if line.startswith(b'{"step"'):
            _say({"say": "progress", **json.loads(line)}, asked)
        else:
            lines = [*lines, *_lines(line)][-_KEPT:]
    return {"code": child.wait(), "lines": lines}


def _not_started(error: OSError) -> dict[str, Any]:
    return {"code": 1, "lines": [f"{error.filename}: {error.strerror}"]}


def _lines(printed: bytes) -> list[str]:
    return [line for line in printed.decode("utf-8", "replace").splitlines() if line.strip()]


def _end_on_request(child: subprocess.Popen[bytes]) -> None:
    """End the program when the connection closes, or by 'fab hosts.stop'."""
    signal.signal(signal.SIGUSR1, lambda *_: _end(child))
    threading.Thread(target=_end_with_line, args=(child,), daemon=True).start()


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
