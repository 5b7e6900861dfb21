"""World: the first process of the namespaces around a local test cluster.

The cluster ends with it, and it ends with its owner. Standard library only: it runs with `-S`.
"""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from launch.practice.mounts import mount

APART = ("unshare", "--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "--kill-child")
USER = "bench"
_FIRST_UID, _LAST_UID = 20000, 60000


def environment() -> dict[str, str]:
    """Return the variables of the cluster's programs.

    PATH includes Debian's folders for root.
    """
    # With a safe path, `python -m` would not find the checkout.
    kept = {name: text for name, text in os.environ.items() if name != "PYTHONSAFEPATH"}
    path = os.pathsep.join((kept.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
    return kept | {"PATH": path}


def main() -> None:
    """Send the parent's pid, start the hosts read from stdin, and stay.

    Until it reads 'stay', it ends when its standard input closes.
    """
    os.umask(0o022)
    # The machine's /proc is still mounted, with pids of the outer namespace.
    outer = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[1]
    say({"outer": int(outer)})
    settings = json.loads(sys.stdin.readline())
    own_etc(settings["names"])
    for host in settings["hosts"]:
        _start(host, settings["folder"])
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps ended processes
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    _stay([int(fd) for fd in sys.argv[1:]])


def say(message: dict[str, Any]) -> None:
    """Send the controller a message in one write: all hosts share the pipe."""
    os.write(1, f"{json.dumps(message)}\n".encode())


def own_etc(names: str) -> None:
    """Cover /etc with a copy that has the hosts' user and names.

    A copy, because a file mounted over /etc/passwd is lost when a rename replaces that file.
    """
    old = os.open("/etc", os.O_PATH)
    mount("tmpfs", "/etc", "tmpfs", 0, "mode=755")
    subprocess.run(["cp", "-a", f"/proc/self/fd/{old}/.", "/etc"], pass_fds=(old,), check=True)
    os.close(old)
    etc = Path("/etc")
    users = _without(etc / "passwd")
    taken = {int(line.split(":")[2]) for line in users.splitlines() if line.count(":") == 6}
    uid = next(number for number in range(_FIRST_UID, _LAST_UID) if number not in taken)
    (etc / "passwd").write_text(f"{users}{USER}:x:{uid}:{uid}::/home/{USER}:/bin/bash\n")
    (etc / "group").write_text(f"{_without(etc / 'group')}{USER}:x:{uid}:\n")
    # '*' is no password; '!' would lock the account, and sshd would reject its key, too.
    (etc / "shadow").write_text(f"{_without(etc / 'shadow')}{USER}:*:19000:0:99999:7:::\n")
    (etc / "hosts").unlink(missing_ok=True)
    (etc / "hosts").write_text(f"127.0.0.1 localhost\n{names}")


def _without(path: Path) -> str:
    """Return the file without the hosts' user, if the machine has one of that name."""
    lines = path.read_text().splitlines()
    return "".join(f"{line}\n" for line in lines if not line.startswith(f"{USER}:"))


def _start(host: dict[str, Any], folder: str) -> None:
    with (Path(folder) / f"{host['name']}.log").open("wb") as log:
        started = subprocess.Popen(
            [*APART, sys.executable, "-S", "-m", "launch.practice.host"],
            stdin=subprocess.PIPE,
            stderr=log,
        )
    assert started.stdin is not None
    started.stdin.write(json.dumps(host).encode())
    started.stdin.close()


def _stay(owners: list[int]) -> None:
    """Wait until an owner's pidfd reports its end, or the input closes too early."""
    watched = select.poll()
    for fd in (0, *owners):
        watched.register(fd, select.POLLIN)
    while True:
        for fd, _ in watched.poll():
            if fd != 0 or sys.stdin.readline() != "stay\n":
                return
            watched.unregister(0)


if __name__ == "__main__":
    main()
