"""Makes the environment of a checkout on a host, by the checkout's own tools/environment.sh.

Standard library only and Python 3.8 or newer, sent over a line as the agent is.
"""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import json
import os
import signal
import subprocess
import sys
import threading
from typing import Any

from launch import lease
from launch.errors import LaunchError


def main() -> None:
    """Does what one line asks and says how it went; ends everything when the line closes."""
    asked = json.loads(sys.stdin.readline())
    try:
        lease.hold(asked["who"])
    except LaunchError as error:
        _say({"code": 1, "lines": [str(error)]}, asked)
        return
    tree = os.path.expanduser(asked["tree"])  # noqa: PTH111
    env = {**os.environ, **asked["env"]}
    if asked["wheels"]:
        wheels = os.path.join(tree, asked["wheels"])  # noqa: PTH118
        env.update(PIP_NO_INDEX="1", PIP_FIND_LINKS=wheels)
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
    _, said = child.communicate()
    _say(_told(child.returncode, said), asked)
    os._exit(0)  # the thread waits for the line still


def _say(done: dict[str, Any], asked: dict[str, Any]) -> None:
    print(json.dumps({"say": "done", **done, "n": asked.get("n")}), flush=True)


def _told(code: int, said: bytes) -> dict[str, Any]:
    lines = [line for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    return {"code": code, "lines": lines[-5:]}


def _end_with_line(child: subprocess.Popen[bytes]) -> None:
    sys.stdin.read()
    _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    os.killpg(child.pid, signal.SIGKILL)
    os._exit(1)
