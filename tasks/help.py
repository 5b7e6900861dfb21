"""Help of tasks and of fab, and the list of tasks."""

import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from invoke.collection import Collection
from invoke.parser.argument import Argument
from invoke.tasks import Task

from im2rec_tools.options import REQUIRED, OptionHelp

_INDENT = "  "
# A longer option has its text on the next line.
_MOST_SPEC = 26


class DeclaredTask(Task[Any]):
    """Task with the declarations of its arguments, by name."""

    def __init__(
        self,
        body: Callable[..., Any],
        *,
        options: Mapping[str, OptionHelp],
        example: str = "",
        **more: Any,
    ) -> None:
        """Create the task; raise ValueError unless exactly its arguments are declared.

        example  arguments and options of a typical command, printed at the end of its help
        """
        super().__init__(body, auto_shortflags=False, **more)
        self.options, self.example = dict(options), example
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
    needed = [_row(arguments[key], one)[0] for key, one in options.items() if one.empty == REQUIRED]
    words = [f"fab {name}", *(one.metavar for one in by_place), *needed]
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
    if example := getattr(task, "example", ""):
        yield from ("", "Example:", f"{_INDENT}fab {name} {example}")


def core_lines(groups: Iterable[str], width: int) -> Iterator[str]:
    """Return the help of `fab` itself as lines of at most `width` columns."""
    yield from ("Usage: fab TASK [ARGUMENTS] [options]", "", "Run a task of mxscale.")
    rows = [
        ("-l, --list[=GROUP]", f"List the tasks of a group: {', '.join(groups)} [all tasks]"),
        (
            "-h, --help[=TASK]",
            "Print the help of a task; the same as 'fab TASK --help' [this text]",
        ),
        ("-R, --dry", "Do a dry run of the task; fail if it has none [off]"),
        ("-V, --version", "Print the versions of Fabric and its libraries and exit"),
        (
            "--print-completion-script SHELL",
            "Print a completion script for bash, zsh or fish and exit",
        ),
    ]
    yield from ("", "Options:", *_columns(rows, _MOST_SPEC, width), "")
    yield from textwrap.wrap(
        "The tasks ignore Fabric's other options. To name hosts, use the options of the task, such "
        "as --hostfile FILE.",
        width,
    )
    yield from ("", "Example:", f"{_INDENT}fab bench.sweep smoke")


def list_lines(tasks: Collection, group: str, width: int) -> Iterator[str]:
    """Return the tasks of a group, or of all groups (''), one per line."""
    yield "Run a task: fab TASK. Print its arguments and options: fab TASK --help"
    found = {"": tasks, **tasks.collections}
    sections = {
        name: list(_task_rows(name, one))
        for name, one in found.items()
        if group in ("", name) and one.tasks
    }
    wide = max(len(name) for rows in sections.values() for name, _ in rows)
    for name, rows in sections.items():
        yield from ("", f"{(found[name].__doc__ if name else '') or 'First steps'}:")
        yield from _columns(rows, wide, width)


def _task_rows(group: str, tasks: Collection) -> Iterator[tuple[str, str]]:
    prefix = f"{group}." if group else ""
    for name in sorted(tasks.tasks):
        yield f"{prefix}{name}", (inspect.getdoc(tasks.tasks[name]) or "").partition("\n")[0]
        also = [f"{prefix}{alias}" for alias in tasks.tasks[name].aliases]
        also += [group] if tasks.default == name else []
        yield from ((alias, f"Same as {prefix}{name}.") for alias in also)


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
