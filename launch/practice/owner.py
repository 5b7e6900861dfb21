"""Owner: who a cluster that a person started ends with."""

import os
from pathlib import Path

from launch.practice.state import started


def owner_of_terminal() -> int | None:
    """The leader of the session in which a command was typed; None where that is the command.

    sudo may give its command a session that ends with it: then of the one that sudo was typed in.
    """
    leader = os.getsid(0)
    while started(leader) and _name(leader) in ("sudo", "su", "doas"):
        leader = os.getsid(_parent(leader))
    return leader if started(leader) and leader != os.getpid() else None


def _name(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
