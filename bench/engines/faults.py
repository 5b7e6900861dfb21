"""Faults that the fake engine plays: ROLE[-INDEX]:KIND[@WINDOW].

    absent  never comes to the rendezvous        hang   makes no progress any more
    exit    ends with code 3                     kill   is killed by SIGKILL
    raise   raises an exception                  stop   is stopped by SIGSTOP

and in workers only

    early   returns before it is done            mute   ends well without a word
    nan     its loss is not a number             hash   ends with other weights
    alone   is in a job of its own, as with the wrong kind of kvstore
    slow    computes a fifth longer than the others
"""

import re
from dataclasses import dataclass

from bench.errors import SpecError, quoted

_ANYWHERE = ("absent", "exit", "hang", "kill", "raise", "stop")
_WORKERS_ONLY = ("alone", "early", "hash", "mute", "nan", "slow")
KINDS = tuple(sorted(_ANYWHERE + _WORKERS_ONLY))
_FORM = re.compile(r"(worker|server|scheduler)(?:-(\d{1,9}))?:([a-z]+)(?:@(\d{1,9}))?")
_AT_A_WINDOW = ("early", "exit", "hang", "kill", "nan", "raise", "stop")


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault: in all processes of the role where `index` is None; workers at `window`."""

    role: str
    index: int | None
    kind: str
    window: int

    def is_in(self, role: str, index: int) -> bool:
        """Whether this process has it."""
        return self.role == role and self.index in {None, index}


def fault(text: str, *, roles: dict[str, int], windows: int) -> Fault:
    """The fault of this text in a job of so many processes a role and windows a worker.

    Raises SpecError where there is no such process, kind or window.
    """
    match = _FORM.fullmatch(text)
    if match is None or match[3] not in KINDS:
        raise SpecError(
            f"fault {quoted(text)}: expected ROLE[-INDEX]:KIND[@WINDOW] with a role of worker, "
            f"server, scheduler and a kind of {', '.join(KINDS)}"
        )
    role, kind = match[1], match[3]
    index, window = (None if part is None else int(part) for part in (match[2], match[4]))
    if not roles.get(role) or (index is not None and index >= roles[role]):
        there = ", ".join(f"{count} {name}(s)" for name, count in roles.items() if count)
        raise SpecError(f"fault {quoted(text)}: no such process in a job of {there}")
    if role != "worker" and (kind in _WORKERS_ONLY or window is not None):
        raise SpecError(
            f"fault {quoted(text)}: a {role} can be {', '.join(_ANYWHERE)}, once all have met; the "
            f"other kinds, and windows, are for workers"
        )
    if window is not None and (kind not in _AT_A_WINDOW or window >= windows):
        raise SpecError(
            f"fault {quoted(text)}: {', '.join(_AT_A_WINDOW)} can happen at a window, "
            f"0 to {windows - 1}"
        )
    return Fault(role=role, index=index, kind=kind, window=window or 0)
