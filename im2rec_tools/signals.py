"""Signals that end a program: each interrupts it once, as Ctrl-C does."""

import signal
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def interruptible() -> list[int]:
    """Has signals that end a program raise KeyboardInterrupt; the list will hold which did."""
    caught: list[int] = []

    def interrupt(number: int, _: FrameType | None) -> None:
        for one in _ENDING:  # a second one has nothing left to end
            signal.signal(one, signal.SIG_IGN)
        caught.append(number)
        raise KeyboardInterrupt

    for one in _ENDING:
        if one != signal.SIGHUP or signal.getsignal(one) != signal.SIG_IGN:  # that is nohup
            signal.signal(one, interrupt)
    return caught


def exit_code(caught: list[int]) -> int:
    """The exit code of a program that was interrupted: 128 + n for signal n."""
    return 128 + (caught[0] if caught else signal.SIGINT)
