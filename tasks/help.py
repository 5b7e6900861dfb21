"""Help of tasks: usage, arguments, and options in groups with their defaults."""

import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from invoke.parser.argument import Argument
from invoke.tasks import Task

from im2rec_tools.options import OptionHelp

_INDENT = "  "
# A longer option has its text on the next line.
_MOST_SPEC = 26


class DeclaredTask(Task[Any]):
    """Task with the declarations of its arguments, by name."""

    def __init__(
        self, body: Callable[..., Any], *, options: Mapping[str, OptionHelp], **more: Any
    ) -> None:
        """Create the task; raise ValueError unless exactly its arguments are declared."""
        super().__init__(body, auto_shortflags=False, **more)
        self.options = dict(options)
        names = {parameter_of(argument) for argument in self.get_arguments()}
        if wrong := names ^ set(self.options):
            raise ValueError(f"{self.name}: undeclared or unknown: {', '.join(sorted(wrong))}")


def parameter_of(argument: Argument) -> str:
    """Return the name of the parameter that takes an argument."""
    return argument.attr_name or argument.name or ""


def help_lines(name: str, task: "Task[Any]", width: int) -> Iterator[str]:
    """Return the help of a task as lines of at most `width` columns."""
    options: Mapping[str, OptionHelp] = getattr(task, "options", {})
    arguments = {parameter_of(one): one for one in task.get_arguments()}
    by_place = [options[key] for key, one in arguments.items() if one.positional]
    words = [f"fab {name}", *(one.metavar for one in by_place)]
    yield " ".join(["Usage:", *words, *(["[options]"] if len(options) > len(by_place) else [])])
    for paragraph in (inspect.getdoc(task) or "").split("\n\n"):
        yield ""
        yield from textwrap.wrap(paragraph, width)
    sections = {"Arguments": [(one.metavar, one.text) for one in by_place]} if by_place else {}
    for heading, names in option_groups(task).items():
        sections[heading] = [_row(arguments[key], options[key]) for key in names]
    wide = max((len(spec) for rows in sections.values() for spec, _ in rows), default=0)
    for heading, rows in sections.items():
        yield from ("", f"{heading}:")
        yield from _columns(rows, min(wide, _MOST_SPEC), width)


def option_groups(task: "Task[Any]") -> dict[str, list[str]]:
    """Return the parameters of a task's options by heading, in declaration order."""
    by_place = {parameter_of(one) for one in task.get_arguments() if one.positional}
    found: dict[str, list[str]] = {"Options": []}
    for name, known in getattr(task, "options", {}).items():
        if name not in by_place:
            found.setdefault(known.group or "Options", []).append(name)
    return {heading: names for heading, names in found.items() if names}


def _row(argument: Argument, known: OptionHelp) -> tuple[str, str]:
    name = argument.names[0]
    option = f"--{name}" if len(name) > 1 else f"-{name}"
    if argument.optional:
        option = f"{option}[={known.metavar}]"
    elif known.metavar:
        option = f"{option} {known.metavar}"
    repeated = " (repeatable)" if argument.kind is list else ""
    return option, f"{known.described(argument.default)}{repeated}"


def _columns(rows: Sequence[tuple[str, str]], wide: int, width: int) -> Iterator[str]:
    space = " " * (len(_INDENT) + wide + 2)
    for spec, text in rows:
        lines = textwrap.wrap(text, width - len(space), break_on_hyphens=False)
        if len(spec) > wide:
            yield f"{_INDENT}{spec}"
        else:
            yield f"{_INDENT}{spec:<{wide}}  {lines.pop(0)}"
        yield from (space + line for line in lines)
