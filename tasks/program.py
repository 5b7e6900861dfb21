"""How fab itself answers here: help for every task, and exit code 2 for what it does not know.

Fabric's own program takes `fab TASK -h` for an argument of the task where the task has a
positional one, and ends with 1 for an unknown task or option, which is the code of a bug.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import fabric.main
from fabric.main import Fab
from invoke.exceptions import Exit, ParseError
from invoke.parser.context import ParserContext

from bench.secrets import masked_word
from im2rec_tools.terminal import guard, printable

_HELP = {"-h", "--help"}
_DRY = {"-R", "--dry"}
_QUOTED = re.compile(r"'([^']*)'")


class Program(Fab):
    """Fabric's program with the exit codes and the help of this project."""

    def parse_tasks(self) -> None:
        """Parse the words after fab's own options; `-h` and `-R` count behind a task too.

        Invoke would take them for the value of an argument that has none yet.
        """
        guard()
        words: list[str] = self.core.unparsed
        own = words[: words.index("--")] if "--" in words else words[:]
        if _DRY & set(own):
            self.core[0].args["dry"].value = True
            words[: len(own)] = own = [word for word in own if word not in _DRY]
        name = _helped(own)
        if name is not None:
            self.core[0].args["help"].value = name
            words.clear()
        with _usage_errors():
            super().parse_tasks()
            _check_values(self.tasks)

    def parse_cleanup(self) -> None:
        """Print help or the list of tasks where they are asked for."""
        with _usage_errors():
            super().parse_cleanup()


def _helped(words: list[str]) -> str | None:
    """The task whose help is asked for by `-h` or `--help` behind it; None if none is."""
    place = next((n for n, word in enumerate(words) if word in _HELP), 0)
    return words[0] if place else None


def _check_values(tasks: Iterable[ParserContext]) -> None:
    """Raises ParseError for an unknown option that Invoke took for the value of an argument."""
    for task in tasks:
        for one in task.positional_args:
            if isinstance(one.value, str) and one.value.startswith("-"):
                raise ParseError(f"No idea what {one.value!r} is!", task)


@contextmanager
def _usage_errors() -> Iterator[None]:
    """End with 2 and one line for what fab cannot parse, and quietly where the reader left."""
    try:
        yield
    except ParseError as error:
        name = error.context.name if error.context else ""
        told = _QUOTED.sub(lambda found: repr(masked_word(found[1])), str(error).rstrip("!"))
        where = f"{name}: " if name and name not in told else ""
        fix = f"'fab --help {name}' lists its options" if name else "'fab --list' lists the tasks"
        raise Exit(f"error: {printable(f'{where}{told}. {fix}.')}", code=2) from error
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise Exit(code=141) from None
    except Exit as error:
        raise Exit(error.message, code=2 if error.message else error.code) from error


def install() -> None:
    """Have the program that is loading the fabfile behave as `Program`."""
    fabric.main.program.__class__ = Program
