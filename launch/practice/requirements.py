"""Needs: why a machine or a user cannot have a practice cluster."""

import os
import shutil
import subprocess

from launch.practice.namespaces import APART
from launch.remote import limits

_PACKAGES = {
    "util-linux": ("unshare", "nsenter", "setpriv", "setsid"),
    "iproute2": ("ip", "tc"),
    "openssh-server": ("sshd",),
    "openssh-client": ("ssh", "ssh-keygen"),
}
_NETWORK = b"link add dev switch type bridge\nlink add dev x0 type veth peer name x1\n"


def environment() -> dict[str, str]:
    """What the cluster's programs are started with: also where Debian has those for root."""
    # With a safe path `python -m` would not find the checkout.
    kept = {name: text for name, text in os.environ.items() if name != "PYTHONSAFEPATH"}
    path = os.pathsep.join((kept.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
    return kept | {"PATH": path}


def program(name: str) -> str:
    """The path of a program, '' where there is none."""
    return shutil.which(name, path=environment()["PATH"]) or ""


def missing() -> str:
    """What keeps this user on this machine from having a practice cluster; '' for nothing."""
    if os.geteuid() != 0:
        return "a practice cluster needs root: try with sudo"
    lacking = [package for package, names in _PACKAGES.items() if not all(map(program, names))]
    if lacking:
        return f"a practice cluster needs: apt-get install {' '.join(lacking)}"
    try:
        done = subprocess.run(
            [*APART, "ip", "-batch", "-"],
            input=_NETWORK,
            env=environment(),
            capture_output=True,
            timeout=limits.COMMAND_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        seconds = limits.COMMAND_SECONDS
        return f"a practice cluster needs namespaces: unshare did not end within {seconds} s"
    if done.returncode:
        line = done.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        return f"a practice cluster needs namespaces, bridges and veth of the kernel: {line}"
    return ""
