"""First process of a host of a local test cluster, in its own namespaces.

Standard library only: it runs with `-S`.
"""

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from launch.practice.mounts import MountPlan, mount, take
from launch.practice.namespaces import USER, say

_RUN = Path("/run/practice")
# As close to a package's default configuration as possible.
_SSHD = f"""\
HostKey {_RUN}/host_key
PidFile none
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PrintMotd no
AcceptEnv LANG LC_*
Subsystem sftp internal-sftp
"""


def main() -> None:
    """Send the outer namespace's pid, set up the host read from stdin, and stay."""
    os.umask(0o022)
    settings = json.load(sys.stdin)
    # The machine's /proc is still in place.
    pid = int(os.readlink("/proc/self"))  # noqa: PTH115 - the link's own text
    say({"name": settings["name"], "pid": pid})
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    socket.sethostname(settings["name"])
    mount("proc", "/proc", "proc")
    mount("devpts", "/dev/pts", "devpts", 0, "newinstance,ptmxmode=666,mode=620,gid=5")
    take(MountPlan(**settings["mounts"]))
    os.chdir("/")
    _start_sshd(settings)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps ended processes
    while True:
        signal.pause()


def _start_sshd(settings: dict[str, Any]) -> None:
    for folder in (_RUN, Path("/run/sshd")):  # the second is sshd's privilege separation folder
        folder.mkdir()
    (_RUN / "sshd_config").write_text(_SSHD)
    (_RUN / "host_key").touch(0o600)
    (_RUN / "host_key").write_text(settings["host_key"])
    user = pwd.getpwnam(USER)
    home = Path(user.pw_dir)
    shutil.copytree("/etc/skel", home) if Path("/etc/skel").is_dir() else home.mkdir()
    (home / ".ssh").mkdir(0o700)
    (home / ".ssh" / "authorized_keys").write_text(settings["client_key"])
    for path in (home, *home.rglob("*")):
        os.lchown(path, user.pw_uid, user.pw_gid)
    subprocess.Popen([settings["sshd"], "-D", "-e", "-f", str(_RUN / "sshd_config")])


if __name__ == "__main__":
    main()
