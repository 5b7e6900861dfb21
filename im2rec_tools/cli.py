"""Data commands: declaration, and running as a task or as a program."""

import argparse
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

from im2rec_tools.commands import NAMES
from im2rec_tools.errors import DataError, quoted
from im2rec_tools.progress import Plan, Progress
from im2rec_tools.terminal import echo, echo_error, install_filter

Parse = Callable[[str, str], Any]
# Signals that end a program.
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Option:
    """An argument: by its place where it has no default, a flag where the default is False.

    `parse` takes what messages call it and its text, and raises DataError.
    """

    name: str
    help: str
    default: str | bool | None = None
    parse: Parse = lambda _, text: text

    @property
    def key(self) -> str:
        """The keyword of the plan that takes it."""
        return self.name.replace("-", "_")

    @property
    def help_text(self) -> str:
        """The help, with the default where there is one."""
        return f"{self.help} [{self.default}]" if self.default else self.help

    @property
    def flag(self) -> bool:
        """Whether it stands alone, without a value."""
        return self.default is False

    def value(self, given: str | bool | None) -> Any:
        """What it was given, parsed; an empty text is the same as not given."""
        if isinstance(given, bool) or given is None:
            return given
        called = self.name.upper() if self.default is None else f"--{self.name}"
        return self.parse(called, given)


@dataclass(frozen=True, kw_only=True)
class Command:
    """What it is called, what it takes, and what makes its plan of that."""

    name: str
    help: str
    options: tuple[Option, ...]
    plan: Callable[..., Plan]

    def planned(self, given: dict[str, Any]) -> Plan:
        """The plan for options as they were typed; those that were not have their defaults."""
        values = {option.key: given.get(option.key, option.default) for option in self.options}
        return self.plan(
            **{option.key: option.value(values[option.key]) for option in self.options}
        )


def run_plan(make: Callable[[], Plan], *, dry_run: bool) -> None:
    """Does a plan, or says what it would do; what the system refuses is a DataError too."""
    try:
        _execute(make(), dry_run)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise DataError(f"{error.filename or 'a file'}: {error.strerror or error}") from error


def _execute(plan: Plan, dry_run: bool) -> None:
    if dry_run:
        echo(*plan.says)
        return
    from im2rec_tools.bars import Bars  # noqa: PLC0415 - takes long to load

    with Bars() as bars:
        for update in plan.work():
            if isinstance(update, Progress):
                bars.follow(update)
            else:
                bars.say(update)


def load(name: str) -> Command:
    """The command of this name, with the libraries that it needs."""
    module = import_module(f"im2rec_tools.commands.{NAMES[name]}")
    command: Command = getattr(module, name.upper().replace("-", "_"))
    return command


def run_command(command: Command, argv: Sequence[str]) -> int:
    """Runs a command as a program; the exit code is 0, 2 for bad input, 128 + n for signal n."""
    parser = argparse.ArgumentParser(
        prog=f"python -m im2rec_tools {command.name}",
        description=command.help,
        allow_abbrev=False,
    )
    for option in command.options:
        if option.default is None:
            parser.add_argument(option.key, metavar=option.name.upper(), help=option.help)
        elif option.flag:
            parser.add_argument(f"--{option.name}", action="store_true", help=option.help)
        else:
            parser.add_argument(f"--{option.name}", default=option.default, help=option.help_text)
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, no more")
    given = vars(parser.parse_args(argv))
    return run_program(lambda: run_plan(lambda: command.planned(given), dry_run=given["dry_run"]))


def run_program(work: Callable[[], None]) -> int:
    """Does the work of a program; says in a line what a person has to mend."""
    install_filter()
    if sys.stdout is None:
        echo("error: standard output is closed: expected a place to print to", err=True)
        return 2
    caught = interruptible()
    try:
        work()
        sys.stdout.flush()
    except DataError as error:
        echo_error(error)
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except KeyboardInterrupt:
        echo("interrupted; what is finished is kept, run it again to go on", err=True)
        return exit_code(caught)
    return 0


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


def integer(least: int, most: int = 2**53) -> Parse:
    """A whole number from least to most."""

    def parse(called: str, text: str) -> int:
        if not re.fullmatch("[0-9]{1,16}", text) or not least <= int(text) <= most:
            upto = f"{least} or more" if most == 2**53 else f"{least} to {most}"
            raise DataError(f"{called}: expected a whole number, {upto}, got {quoted(text)}")
        return int(text)

    return parse


def tree_root(called: str, text: str) -> Path:
    """A folder whose name others are made from: ROOT_val, ROOT_rec."""
    _refuse_option(called, text)
    path = Path(os.path.normpath(text))
    if path.name in {"", ".", ".."}:
        raise DataError(f"{called}: expected a folder with a name of its own, got {quoted(text)}")
    return path


def path(called: str, text: str) -> Path:
    """A path; an empty one is refused."""
    _refuse_option(called, text)
    if not text or "\0" in text:
        raise DataError(f"{called}: expected a path, got {quoted(text)}")
    return Path(text)


def _refuse_option(called: str, text: str) -> None:
    """DataError for what was meant as an option: Invoke takes `--help` for a path."""
    if text.startswith("--"):
        raise DataError(
            f"{called}: expected a path, got {quoted(text)} ('fab --help data.NAME' helps)"
        )


def path_or_none(called: str, text: str) -> Path | None:
    """A path, None where the option was not given."""
    return path(called, text) if text else None


def percentage(called: str, text: str) -> float:
    """A share from 0 to 1, typed in percent."""
    match = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,9})?) ?%?", text)
    if not match or float(match[1]) > 100:
        raise DataError(f"{called}: expected percent, 0 to 100, got {quoted(text)}")
    return float(match[1]) / 100


def choice(*words: str) -> Parse:
    """One of these words."""

    def parse(called: str, text: str) -> str:
        if text not in words:
            raise DataError(f"{called}: expected {' or '.join(words)}, got {quoted(text)}")
        return text

    return parse
