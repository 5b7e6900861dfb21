"""Hosts that are network namespaces of this machine, for templates of --via."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

_PROGRAMS = ("unshare", "nsenter", "ip")
_ABSENT = [name for name in _PROGRAMS if shutil.which(name) is None]
MISSING = "needs root" if os.geteuid() else f"needs {_ABSENT[0]}" if _ABSENT else ""
HOSTS = ("n1", "n2")


def inside(pid: int, *words: str) -> None:
    subprocess.run(["nsenter", f"--target={pid}", "--net", *words], check=True)


@contextmanager
def connected(folder: Path) -> Iterator[None]:
    """Two hosts with a link between them; their namespaces are files of the folder."""
    with ExitStack() as stack:
        pids = []
        for name in HOSTS:
            script = f"hostname {name}; echo ready; exec sleep infinity"
            words = ["unshare", "--net", "--uts", "sh", "-c", script]
            holder = stack.enter_context(subprocess.Popen(words, stdout=subprocess.PIPE))
            stack.callback(holder.kill)
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"ready\n"
            for kind in ("net", "uts"):
                (folder / f"{name}.{kind}").symlink_to(f"/proc/{holder.pid}/ns/{kind}")
            pids.append(holder.pid)
        link = ("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0")
        inside(pids[0], *link, "netns", str(pids[1]))
        for number, pid in enumerate(pids, 1):
            inside(pid, "ip", "address", "add", f"192.0.2.{number}/24", "dev", "eth0")
            inside(pid, "ip", "link", "set", "eth0", "up")
            inside(pid, "ip", "link", "set", "lo", "up")
        yield
