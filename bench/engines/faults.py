"""Faults that the simulated engine injects: ROLE[-INDEX]:KIND[@WINDOW][:first].

    absent  never joins the rendezvous           hang   stops making progress
    exit    exits with code 3                    kill   is killed by SIGKILL
    raise   raises an exception                  stop   is stopped by SIGSTOP

in workers only:

    early   exits before it is done              mute   exits with 0 without sending events
    nan     its loss is not a number             hash   ends with different weights
    alone   is in a job of its own, as with the wrong kind of kvstore
    slow    computes a fifth longer than the others

`:first` limits a fault to the first try of a repeat.
"""

import re
from dataclasses import dataclass

from bench.errors import SpecError, error_line, quoted

_ANYWHERE = ("absent", "exit", "hang", "kill", "raise", "stop")
_WORKERS_ONLY = ("alone", "early", "hash", "mute", "nan", "slow")
KINDS = tuple(sorted(_ANYWHERE + _WORKERS_ONLY))
_FORM = re.compile(r"(worker|server|scheduler)(?:-(\d{1,9}))?:([a-z]+)(?:@(\d{1,9}))?(:first)?")
_AT_A_WINDOW = ("early", "exit", "hang", "kill", "nan", "raise", "stop")


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault of a role: of all its processes if `index` is None.

    Workers have it at `window`; `first_try` limits it to the first try of a repeat.
    """

    role: str
    index: int | None
    kind: str
    window: int
    first_try: bool = False

    def is_in(self, role: str, index: int) -> bool:
        """Return whether this process has the fault."""
        return self.role == role and self.index in {None, index}


def fault(text: str, *, roles: dict[str, int], windows: int) -> Fault:
    """Parse a fault for a job with these processes per role and windows per worker.

    Raises SpecError if the job has no such process, kind or window.
    """
    match = _FORM.fullmatch(text)
    where = f"fault {quoted(text)}"
    if match is None or match[3] not in KINDS:
        form = "ROLE[-INDEX]:KIND[@WINDOW][:first]"
        roles_and_kinds = f"ROLE: worker, server, scheduler. KIND: {', '.join(KINDS)}"
        raise SpecError(error_line(where, expected=form, fix=roles_and_kinds))
    role, kind = match[1], match[3]
    index, window = (None if part is None else int(part) for part in (match[2], match[4]))
    if not roles.get(role) or (index is not None and index >= roles[role]):
        there = ", ".join(
            f"{count} {name}{'s' * (count > 1)}" for name, count in roles.items() if count
        )
        raise SpecError(error_line(where, expected=f"a process of the job ({there})"))
    if role != "worker" and (kind in _WORKERS_ONLY or window is not None):
        kinds = f"one of {', '.join(_ANYWHERE)}, without a window, for a {role}"
        raise SpecError(error_line(where, expected=kinds))
    if window is not None and (kind not in _AT_A_WINDOW or window >= windows):
        kinds = f"{', '.join(_AT_A_WINDOW)} at a window from 0 to {windows - 1}"
        raise SpecError(error_line(where, expected=kinds))
    return Fault(role=role, index=index, kind=kind, window=window or 0, first_try=bool(match[5]))
