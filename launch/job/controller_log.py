"""The controller's own log: a file of the run folder, and lines on standard error."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path

from bench.errors import SpecError, error_line, quoted
from bench.settings.secrets import masked_text
from im2rec_tools.terminal import echo, printable
from results.run_folder import CONTROLLER_LOG

VARIABLE = "MXSCALE_LOG_LEVEL"
LEVELS = ("debug", "info", "warning", "error")
# The packages whose modules log. Those of other libraries may log what users type.
_PACKAGES = ("launch", "results")
# Two files together: the newest lines and those before.
MOST_BYTES = 4 << 20
_MOST_LETTERS = 4000
# Mark of entries about what the command itself prints: only the file, and levels below 'warning',
# repeat it.
PRINTED = {"printed": True}


class _OneLine(logging.Formatter):
    """One line per entry with a time in UTC."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of an entry."""
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        return clean(f"{when} {record.levelname} {record.name}: {record.getMessage()}")


def clean(text: str) -> str:
    """Return a text for a log: one printable line of limited length, secrets masked."""
    text = text.encode("utf-8", "replace").decode()
    # Mask before and after the cut: a secret may lose its end, or its name.
    text = printable(masked_text(text))
    return text if len(text) <= _MOST_LETTERS else f"{masked_text(text[:_MOST_LETTERS])}..."


class _File(RotatingFileHandler):
    """The log file; a full disk ends no sweep, and the sweep itself reports it."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - of the base class
        """Skip an entry that cannot be written."""


class _Screen(logging.Handler):
    """Lines on standard error, above the live table if there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the entry."""
        if hasattr(record, "printed") and self.level >= logging.WARNING:
            return
        with suppress(OSError, ValueError):
            echo(f"{record.levelname.lower()}: {clean(record.getMessage())}", err=True)


def parse_level(text: str) -> str:
    """Return the level of --log-level, else of MXSCALE_LOG_LEVEL, else 'warning'."""
    for where, value in (("--log-level", text), (VARIABLE, os.environ.get(VARIABLE, ""))):
        if value and value.lower() not in LEVELS:
            fix = f"Use one of {', '.join(LEVELS)}"
            raise SpecError(error_line(where, expected="a level", got=quoted(value), fix=fix))
        if value:
            return value.lower()
    return "warning"


def print_log(level: str) -> None:
    """Print entries of this level and above on standard error."""
    for logger in map(logging.getLogger, _PACKAGES):
        for old in [one for one in logger.handlers if isinstance(one, _Screen)]:
            logger.removeHandler(old)
        screen = _Screen()
        screen.setLevel(level.upper())
        logger.addHandler(screen)
        logger.setLevel(logging.DEBUG)


@contextmanager
def controller_log(folder: Path) -> Iterator[None]:
    """Write entries to the controller.log of a run folder until the block ends."""
    try:
        file = _File(
            folder / CONTROLLER_LOG, maxBytes=MOST_BYTES // 2, backupCount=1, encoding="utf-8"
        )
    except OSError:  # the sweep reports a folder that cannot be written
        yield
        return
    file.setFormatter(_OneLine())
    loggers = [logging.getLogger(name) for name in _PACKAGES]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(file)
        logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.removeHandler(file)
            logger.setLevel(level)
        with suppress(OSError):  # a full disk, which the sweep reports
            file.close()
