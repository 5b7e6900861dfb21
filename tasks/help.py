"""Help of tasks and of fab, the list of tasks, and the words of a command."""

import difflib
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from invoke.collection import Collection
from invoke.exceptions import ParseError
from invoke.parser.argument import Argument
from invoke.parser.context import ParserContext
from invoke.tasks import Task

from im2rec_tools.errors import quoted
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
        by_place: Sequence[str] = (),
        many: bool = False,
        **more: Any,
    ) -> None:
        """Create the task; raise ValueError unless exactly its arguments are declared.

        example   arguments and options of a typical command, printed at the end of its help
        by_place  options that can also be given as words after the required arguments
        many      whether the first argument takes several words, which it gets with blanks between
        """
        super().__init__(body, auto_shortflags=False, **more)
        self.options, self.example, self.by_place = dict(options), example, tuple(by_place)
        self.many = many
        names = {parameter_of(argument) for argument in self.get_arguments()}
        if wrong := names ^ set(self.options):
            raise ValueError(f"{self.name}: undeclared or unknown: {', '.join(sorted(wrong))}")

    def __deepcopy__(self, _: object) -> "DeclaredTask":
        """Return the task itself: Invoke copies all tasks, and nothing changes one."""
        return self


def parameter_of(argument: Argument) -> str:
    """Return the name of the parameter that takes an argument."""
    return argument.attr_name or argument.name or ""


class Words:
    """The words of a command line, checked and rearranged for Invoke.

    Invoke knows no optional positional argument, and would start the task `demo` for the run
    `demo`.
    """

    def __init__(self, tasks: Collection) -> None:
        self.tasks = tasks
        self.contexts = {
            name: one for one in tasks.to_contexts() for name in (one.name or "", *one.aliases)
        }

    def arranged(self, words: Sequence[str], core: Mapping[str, Argument]) -> list[str]:
        """Return the words with every argument that is optional as an option.

        Raises ParseError for an unknown task or option, or a word too many. `core` has fab's own
        options.
        """
        left, made = list(words), list[str]()
        while left and left[0] != "--":
            made += self._task_words(left, core)
        return made + left

    def suggestion(self, name: str) -> str:
        """Return a sentence with the task of the nearest name; empty if none is near."""
        return _suggestion(name, list(self.contexts))

    def _task_words(self, left: list[str], core: Mapping[str, Argument]) -> list[str]:
        """Take the words of one task from the beginning of `left`."""
        context = self.contexts.get(left[0])
        if context is None:
            hint = self.suggestion(left[0])
            raise ParseError(f"expected a task, got {quoted(left[0])}{hint}")
        made, needed, seen = [left.pop(0)], len(context.positional_args), set[str]()
        more = list(getattr(self.tasks[context.name], "by_place", ()))
        if getattr(self.tasks[context.name], "many", False):
            left[:] = _joined(left, needed, context, core)
        while left and left[0] != "--":
            word = left[0]
            if word.startswith("-") and len(word) > 1:
                _check_once(word.partition("=")[0], context, seen)
                made += _option_words(left, context, core)
            elif needed:
                needed -= 1
                made.append(left.pop(0))
            elif word in self.contexts and (not more or "." in word):
                break
            elif more:
                made.append(f"--{more.pop(0)}={left.pop(0)}")
            else:
                wanted = argument_names(self.tasks[context.name]) or "no argument"
                raise ParseError(f"expected {wanted}, got also {quoted(word)}", context)
        return made


def _joined(
    words: Sequence[str], needed: int, context: ParserContext, core: Mapping[str, Argument]
) -> list[str]:
    """Return words with as many arguments as a task needs; the first ones are joined."""
    left, options, places = list(words), list[str](), list[str]()
    while left and left[0] != "--":
        if left[0].startswith("-") and len(left[0]) > 1:
            options += _option_words(left, context, core)
        else:
            places.append(left.pop(0))
    first = len(places) - needed + 1
    if first > 1:
        places[:first] = [" ".join(places[:first])]
    return places + options + left


def argument_names(task: "Task[Any]") -> str:
    """Return the arguments of a task as its usage shows them: 'TARGET [RUN]'."""
    options: Mapping[str, OptionHelp] = getattr(task, "options", {})
    places = [parameter_of(one) for one in task.get_arguments() if one.positional]
    optional = [f"[{options[one].metavar}]" for one in getattr(task, "by_place", ())]
    return " ".join([options[one].metavar for one in places if one in options] + optional)


def _check_once(name: str, context: ParserContext, seen: set[str]) -> None:
    """Raise ParseError for the second value of an option that has one."""
    argument = context.flags.get(name)
    if argument and argument.takes_value and argument.kind is not list:
        if name in seen:
            raise ParseError(f"expected {name} once, got it twice", context)
        seen.add(name)


def _option_words(
    left: list[str], context: ParserContext, core: Mapping[str, Argument]
) -> list[str]:
    """Take an option and its value from the beginning of `left`."""
    word = left.pop(0)
    name, given, _ = word.partition("=")
    argument = context.flags.get(name)
    if argument is None:
        if name in context.inverse_flags or name in core:
            return [word]
        hint = _suggestion(name, [*context.flags, "--help"])
        raise ParseError(f"expected an option of this task, got {quoted(name)}{hint}", context)
    takes_next = argument.takes_value and not given and left and left[0] not in context.flags
    if takes_next and not (argument.optional and left[0].startswith("-")):
        return [word, left.pop(0)]
    return [word]


def _suggestion(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def help_lines(name: str, task: "Task[Any]", width: int) -> Iterator[str]:
    """Return the help of a task as lines of at most `width` columns."""
    options: Mapping[str, OptionHelp] = getattr(task, "options", {})
    arguments = {parameter_of(one): one for one in task.get_arguments()}
    by_place = [options[key] for key, one in arguments.items() if one.positional]
    optional = [options[key] for key in getattr(task, "by_place", ())]
    needed = [_row(arguments[key], one)[0] for key, one in options.items() if one.empty == REQUIRED]
    words = [f"fab {name}", *(one.metavar for one in by_place), *needed]
    words += [f"[{one.metavar}]" for one in optional]
    yield " ".join(["Usage:", *words, *(["[options]"] if len(options) > len(by_place) else [])])
    for paragraph in (inspect.getdoc(task) or "").split("\n\n"):
        yield ""
        yield from textwrap.wrap(paragraph, width)
    rows = [(one.metavar, one.text) for one in by_place]
    rows += [(one.metavar, f"The same as --{one.metavar.lower()}") for one in optional]
    sections = {"Arguments": rows} if rows else {}
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
