"""Data commands: their declaration, and how tasks and programs run them."""

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

from im2rec_tools.errors import DataError, error_line, quoted
from im2rec_tools.options import OptionHelp, ProgramParser
from im2rec_tools.progress import Plan, Progress
from im2rec_tools.terminal import echo, echo_error, install_filter
from im2rec_tools.transfer.urls import is_url, shown

Parse = Callable[[str, str], Any]
# Signals that end a program.
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Option:
    """Declaration of an argument of a command.

    An argument without a default is positional; one whose default is False is a flag.

    metavar  placeholder of the value; empty for a flag
    text     its help
    parse    takes the argument's name in messages and the text given; raises DataError
    unit     unit of the default: 'px'
    empty    meaning of an empty default
    group    heading above the option in help
    many     whether it takes several words, which `parse` gets separated by blanks
    """

    name: str
    metavar: str
    text: str
    default: str | bool | None = None
    parse: Parse = lambda _, text: text
    unit: str = ""
    empty: str = ""
    group: str = ""
    many: bool = False

    @property
    def key(self) -> str:
        """The plan's keyword argument for this option."""
        return self.name.replace("-", "_")

    @property
    def help(self) -> OptionHelp:
        """Its help."""
        return OptionHelp(self.metavar, self.text, self.unit, self.empty, self.group)

    @property
    def flag(self) -> bool:
        """Whether it takes no value."""
        return self.default is False

    def value(self, given: str | list[str] | bool | None) -> Any:
        """Parse the text given; an empty text counts as not given."""
        if isinstance(given, list):
            given = " ".join(given)
        if isinstance(given, bool) or given is None:
            return given
        called = self.metavar if self.default is None else f"--{self.name}"
        return self.parse(called, given)


DRY_RUN = OptionHelp("", "Print what would be done and change nothing")


@dataclass(frozen=True, kw_only=True)
class Command:
    """A data command: name, summary, options, and the place of its planner.

    plan     'module.function' below im2rec_tools.commands; it takes the options' values by name
    details  further sentences of its help, after the summary
    example  arguments and options of a typical command
    """

    name: str
    help: str
    details: str = ""
    example: str = ""
    options: tuple[Option, ...]
    plan: str

    @property
    def description(self) -> str:
        """The summary and the details."""
        return f"{self.help} {self.details}".rstrip()

    def planned(self, given: dict[str, Any]) -> Plan:
        """Make the plan from the options given; the others have their defaults."""
        values = {option.key: given.get(option.key, option.default) for option in self.options}
        return self.planner(
            **{option.key: option.value(values[option.key]) for option in self.options}
        )

    @property
    def planner(self) -> Callable[..., Plan]:
        """The function that makes the plan; imports its module, which may take long."""
        module, _, function = self.plan.partition(".")
        found: Callable[..., Plan] = getattr(
            import_module(f"im2rec_tools.commands.{module}"), function
        )
        return found


def run_plan(make: Callable[[], Plan], *, dry_run: bool) -> None:
    """Execute a plan, or print it; an OSError becomes a DataError."""
    try:
        _execute(make(), dry_run)
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataError(error_line(error.filename or "a file", problem=reason)) from error


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


def run_command(command: Command, argv: Sequence[str]) -> int:
    """Run a command as a program.

    The exit code is 0, 2 for bad input, or 128 + n for signal n.
    """
    given = vars(parser(command).parse_args(argv))
    return run_program(lambda: run_plan(lambda: command.planned(given), dry_run=given["dry_run"]))


def parser(command: Command) -> argparse.ArgumentParser:
    """Return the parser of `python -m im2rec_tools NAME`."""
    by_place = [option.metavar for option in command.options if option.default is None]
    program = f"python -m im2rec_tools {command.name}"
    made = ProgramParser(
        prog=program,
        usage=" ".join(["%(prog)s", *by_place, "[options]"]),
        description=command.description,
        epilog=f"Example: {program} {command.example}" if command.example else None,
        formatter_class=argparse.HelpFormatter,  # the declarations describe the defaults
    )
    groups: dict[str, Any] = {"": made}
    for option in command.options:
        if option.group not in groups:
            groups[option.group] = made.add_argument_group(option.group)
        add = groups[option.group].add_argument
        text = option.help.described(option.default).replace("%", "%%")
        if option.default is None:
            metavar = option.metavar.removesuffix("...")
            add(option.key, metavar=metavar, nargs="+" if option.many else None, help=text)
        elif option.flag:
            add(f"--{option.name}", action="store_true", help=text)
        else:
            add(f"--{option.name}", default=option.default, metavar=option.metavar, help=text)
    made.add_argument("--dry-run", action="store_true", help=DRY_RUN.described(False))
    return made


def run_program(work: Callable[[], None]) -> int:
    """Run a program; print an error as one line and return the exit code."""
    install_filter()
    if sys.stdout is None:
        echo("error: standard output: closed. Redirect it: >/dev/null", err=True)
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
        echo("interrupted; finished work is kept. Run the command again to continue", err=True)
        return exit_code(caught)
    return 0


def interruptible() -> list[int]:
    """Make SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt.

    The returned list receives the signal's number.
    """
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
    """Return the exit code of an interrupted program: 128 + n for signal n."""
    return 128 + (caught[0] if caught else signal.SIGINT)


def integer(least: int, most: int = 2**53) -> Parse:
    """Parse a whole number from least to most."""

    def parse(called: str, text: str) -> int:
        if not re.fullmatch("[0-9]{1,16}", text) or not least <= int(text) <= most:
            upto = f"{least} or more" if most == 2**53 else f"{least} to {most}"
            raise DataError(
                error_line(called, expected=f"a whole number, {upto}", got=quoted(text))
            )
        return int(text)

    return parse


def tree_root(called: str, text: str) -> Path:
    """Parse a folder from whose name others are derived: ROOT_val, ROOT_rec."""
    _check_local(called, text)
    path = Path(os.path.normpath(text))
    if path.name in {"", ".", ".."}:
        raise DataError(
            error_line(called, expected="a folder with a name of its own", got=quoted(text))
        )
    return path


def path(called: str, text: str) -> Path:
    """Parse a path; an empty one is an error."""
    _check_local(called, text)
    if not text or "\0" in text:
        raise DataError(error_line(called, expected="a path", got=quoted(text)))
    return Path(text)


def _check_local(called: str, text: str) -> None:
    """Raise DataError for a URL, or an option, which Invoke takes for a path."""
    if is_url(text):
        fix = (
            "Fetch it first with 'fab data.fetch URL DIR', or upload results with "
            "'fab data.upload DIR URL'"
        )
        raise DataError(error_line(called, expected="a local path", got=shown(text), fix=fix))
    if text.startswith("--"):
        raise DataError(
            error_line(
                called,
                expected="a path",
                got=f"the option {quoted(text)}",
                fix="See 'fab --help data.NAME'",
            )
        )


def path_or_none(called: str, text: str) -> Path | None:
    """Parse a path; None if the option is not given."""
    return path(called, text) if text else None


def percentage(called: str, text: str) -> float:
    """Parse a percentage; return it as a fraction from 0 to 1."""
    match = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,9})?) ?%?", text)
    if not match or float(match[1]) > 100:
        raise DataError(error_line(called, expected="a percentage from 0 to 100", got=quoted(text)))
    return float(match[1]) / 100


def choice(*words: str) -> Parse:
    """Parse one of these words."""

    def parse(called: str, text: str) -> str:
        if text not in words:
            raise DataError(
                error_line(
                    called,
                    expected=" or ".join(words),
                    got=quoted(text),
                    fix=f"Give {called} {words[0]}",
                )
            )
        return text

    return parse
