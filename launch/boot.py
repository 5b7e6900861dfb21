"""Which start of which machine this is.

Standard library only and Python 3.8 or newer: it is sent to hosts.
"""

from __future__ import annotations  # the syntax of the types below, on Python 3.8


def boot_id() -> str:
    """The same for containers and namespaces of one machine; empty if the kernel does not say."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123
            return file.read().strip()
    except OSError:
        return ""
