"""Wrapper of every task: parsing, help, options of hosts, errors to exit codes."""

import functools
import gc
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import fabric.main
from fabric import Connection
from fabric.main import Fab
from invoke.context import Context
from invoke.exceptions import Exit, ParseError
from invoke.terminals import pty_size

from bench.errors import SpecError, error_line, quoted
from im2rec_tools.cli import exit_code, interruptible
from im2rec_tools.errors import DataError
from im2rec_tools.options import OptionHelp
from im2rec_tools.terminal import (
    echo,
    error_lines,
    install_filter,
    printable,
    shorten,
    unexpected,
)
from launch.hosts import ROOT, HostOptions
from launch.remote.errors import LaunchError, PreflightError, StoppedError
from results.errors import StoreError
from tasks.help import DeclaredTask, Words, core_lines, help_lines, list_lines

_HELP = {"-h", "--help"}
_DRY = {"-R", "--dry"}
_QUOTED = re.compile(r"'([^']*)'")
# Messages of Invoke's parser.
_UNKNOWN = re.compile("No idea what (.*) is")
_NO_ARGUMENT = re.compile("'.*' did not receive required positional arguments: (.*)")
_NO_VALUE = re.compile(r"Flag '?(?:<Argument: )?-*([\w-]+).* needed value and was not given one")
# Longer lines are hard to read.
_MOST_COLUMNS = 100
Body = Callable[..., None]


class Program(Fab):
    """Fabric's program with this project's help and exit codes."""

    def parse_tasks(self) -> None:
        """Parse the words after fab's own options; accept `-h` and `-R` after a task too.

        Invoke would use them as the value of an argument.
        """
        install_filter()
        words: list[str] = self.core.unparsed
        own = words[: words.index("--")] if "--" in words else words[:]
        if _DRY & set(own):
            self.core[0].args["dry"].value = True
            words[: len(own)] = own = [word for word in own if word not in _DRY]
        if any(word in _HELP for word in own[1:]) and own[0] not in _HELP:
            self.core[0].args["help"].value = own[0]  # the task before it
        known = Words(self.collection)
        with _usage_errors():
            if self.core[0].args["help"].value:
                words.clear()
                self._check_help(known)
            words[:] = known.arranged(words, self.initial_context.flags)
            super().parse_tasks()
            for task in self.tasks:
                for one in task.positional_args:  # an unknown option, used as a value
                    if isinstance(one.value, str) and one.value.startswith("-"):
                        raise ParseError(f"No idea what {one.value!r} is!", task)

    def _check_help(self, known: Words) -> None:
        """Raise ParseError if help of an unknown task is requested."""
        name = self.core[0].args["help"].value
        if isinstance(name, str) and name not in known.contexts:
            raise ParseError(f"expected a task, got {quoted(name)}{known.suggestion(name)}")

    def parse_cleanup(self) -> None:
        """Print help or the list of tasks if requested."""
        with _usage_errors():
            super().parse_cleanup()

    def print_help(self) -> None:
        """Print the help of fab itself."""
        echo(*core_lines(sorted(self.collection.collections), _columns()))

    def print_task_help(self, name: str) -> None:
        """Print the help of a task."""
        echo(*help_lines(name, self.collection[name], _columns()))

    def list_flat(self) -> None:
        """List the tasks by group."""
        if self.list_depth:
            super().list_flat()
        else:
            echo(*list_lines(self.collection, self.list_root or "", _columns()))


def _columns() -> int:
    return min(_MOST_COLUMNS, pty_size()[0])


@contextmanager
def _usage_errors() -> Iterator[None]:
    """Exit with 2 and one line for usage errors; exit quietly if the reader is gone."""
    try:
        yield
    except ParseError as error:
        name = error.context.name if error.context else ""
        raise Exit(f"error: {printable(_usage_message(name or '', str(error)))}", code=2) from error
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise Exit(code=141) from None
    except Exit as error:
        raise Exit(error.message, code=2 if error.message else error.code) from error


def _usage_message(task: str, text: str) -> str:
    """Return Invoke's message in this project's form, with secrets masked."""
    from bench.settings.secrets import masked_word

    text = _QUOTED.sub(lambda found: repr(masked_word(found[1])), text.rstrip("!"))
    if found := _UNKNOWN.fullmatch(text):
        wanted = "an option of this task" if task else "a task"
        text = f"expected {wanted}, got {found[1]}"
    elif found := _NO_ARGUMENT.fullmatch(text):
        text = f"expected {found[1].replace(chr(39), '').upper()}, got none"
    elif found := _NO_VALUE.fullmatch(text):
        text = f"--{found[1].replace('_', '-')}: expected a value, got none"
    fix = f"Run 'fab --help {task}'" if task else "Run 'fab --list'"
    if text.endswith("?"):  # a suggestion
        return f"{task or 'fab'}: {text} {fix}"
    return error_line(task or "fab", problem=text, fix=fix)


def install() -> None:
    """Turn the program that loads the fabfile into `Program`."""
    fabric.main.program.__class__ = Program


def check_place(c: Context) -> None:
    """Raise LaunchError unless this runs once, on the controller, in the checkout."""
    if isinstance(c, Connection):
        raise LaunchError(
            error_line(
                "-H",
                expected="no hosts",
                got="some",
                problem="every task runs once, on this machine, and connects to the hosts itself",
                fix="Use --hostfile FILE",
            )
        )
    if sys.stdout is None:
        fix = "Redirect it: >/dev/null"
        raise LaunchError(error_line("standard output", problem="closed", fix=fix))
    if Path.cwd() != ROOT:
        raise LaunchError(
            error_line(
                "current folder", expected=str(ROOT), got=str(Path.cwd()), fix=f"Run: cd {ROOT}"
            )
        )


def task(
    options: Mapping[str, OptionHelp] | None = None, **more: Any
) -> Callable[[Body], DeclaredTask]:
    """Make a task of a body whose arguments have these declarations.

    Invoke's one-letter options are off: they change with every option that is added, and one of
    them took the place of -h.
    """

    def make(body: Body) -> DeclaredTask:
        return DeclaredTask(body, options=options or {}, **more)

    return make


def command(body: Body) -> Body:
    """Print a user's mistake as one line with exit code 2, an interrupt with 130.

    SIGTERM and SIGHUP interrupt as Ctrl-C does; the codes are 143 and 129.

    fab's own --dry is an error before anything happens, unless the task has an option `dry_run`,
    which is then set, or is a `read_only_command`.
    """
    return _run_body(body, _dry_run_options)


def read_only_command(body: Body) -> Body:
    """Like `command`, for a task that changes nothing: --dry has no effect on it."""
    return _run_body(body, lambda *_: {})


@contextmanager
def no_cycle_search() -> Iterator[None]:
    """Stop the search for unreachable cycles, of which reports make few.

    They make millions of other objects, which the search would visit again and again.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


_INTERRUPTED = "interrupted; finished work is kept. Run the command again to continue"


class InterruptedReport(KeyboardInterrupt):
    """An interrupt while the report was written; with the way to complete it."""


def _interrupted(error: KeyboardInterrupt) -> str:
    if isinstance(error, InterruptedReport):
        return str(error)
    return _INTERRUPTED


def _dry_run_options(c: Context, body: Body) -> dict[str, bool]:
    """Return the options by which a task honors fab's --dry; SpecError if it has none."""
    if not c.config.run.dry:
        return {}
    if "dry_run" in inspect.signature(body).parameters:
        return {"dry_run": True}
    raise SpecError(
        error_line(
            "--dry (-R)",
            problem="this task has no dry run; nothing was done",
            fix="Omit the option. 'fab bench.plan SWEEP' prints what a sweep would start",
        )
    )


def _run_body(body: Body, dry: Callable[[Context, Body], dict[str, bool]]) -> Body:
    @functools.wraps(body)
    def wrapped(c: Context, *args: Any, **kwargs: Any) -> None:
        caught = interruptible()
        try:
            check_place(c)
            body(c, *args, **{**kwargs, **dry(c, body)})
            sys.stdout.flush()
        except Exit as error:
            if caught and error.code == 1:  # a library turned the interrupt into another error
                raise Exit(_INTERRUPTED, code=exit_code(caught)) from error
            raise Exit(
                error.message and shorten(printable(error.message)), code=error.code
            ) from error
        except StoppedError as error:
            raise Exit(error_lines(error), code=130) from error
        except PreflightError as error:
            raise Exit(f"error: {_masked(error_lines(error))}", code=3) from error
        except (SpecError, DataError, LaunchError, StoreError) as error:
            raise Exit(f"error: {_masked(error_lines(error))}", code=2) from error
        except BrokenPipeError:
            # The reader, such as head, has exited.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            raise Exit(code=141) from None
        except KeyboardInterrupt as error:
            raise Exit(_interrupted(error), code=exit_code(caught)) from None
        except Exception as error:
            if caught:
                raise Exit(_INTERRUPTED, code=exit_code(caught)) from error
            raise Exit(f"error: {unexpected(error, _masked)}", code=1) from error

    return wrapped


def _masked(text: str) -> str:
    from bench.settings.secrets import masked_text

    return masked_text(text)


NO_HOST_OPTIONS = HostOptions()
_HOST_OPTIONS = [one for one in fields(HostOptions) if "help" in one.metadata]


def hosts_task(
    options: Mapping[str, OptionHelp] | None = None,
    decorator: Callable[[Body], Body] = command,
    **more: Any,
) -> Callable[[Body], DeclaredTask]:
    """Like `task`, for a body with a parameter `host_options`; adds their options."""
    declared = dict(options or {}) | {one.name: one.metadata["help"] for one in _HOST_OPTIONS}
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    added = [inspect.Parameter(one.name, kind, default=one.default) for one in _HOST_OPTIONS]

    def make(body: Body) -> DeclaredTask:
        listed = inspect.signature(body).parameters.values()
        own = [one.replace(kind=kind) for one in listed if one.name != "host_options"]
        signature = inspect.Signature([*own, *added])

        @decorator
        def wrapped(c: Any, *args: Any, **given: Any) -> None:
            values = signature.bind(c, *args, **given).arguments
            words = tuple(command_words(values, [*own, *added][1:]))
            hosts = {one.name: given.pop(one.name) for one in added if one.name in given}
            _check_via(sys.argv)
            body(c, *args, host_options=HostOptions(**hosts, words=words), **given)

        wrapped.__name__, wrapped.__doc__ = body.__name__, body.__doc__
        wrapped.__signature__ = signature  # type: ignore[attr-defined] # Invoke reads it
        return task(declared, **more)(wrapped)

    return make


def _check_via(words: Sequence[str]) -> None:
    """Raise LaunchError for an empty --via, as of an unset variable.

    Its value alone does not differ from the default, with which SSH would be used.
    """
    if "--via=" in words or ("--via", "") in pairwise(words):
        expected, fix = "a command with {host}", "Set the variable that it names, or remove --via"
        raise LaunchError(error_line("--via", expected=expected, got="''", fix=fix))


def command_words(
    values: Mapping[str, Any], parameters: Iterable[inspect.Parameter]
) -> Iterator[str]:
    """Return the words of a command for these arguments, without the defaults.

    A long option and its value are one word; a one-letter option and its value are two.
    """
    for one in parameters:
        value = values.get(one.name, one.default)
        if one.default is one.empty:
            yield str(value)
        elif value and value != one.default:
            option = f"--{one.name.replace('_', '-')}"
            for single in value if isinstance(value, list | tuple) else (value,):
                if len(one.name) == 1:
                    yield from (f"-{one.name}", str(single))
                else:
                    yield option if single is True else f"{option}={single}"


def short_path(path: Path) -> Path:
    """Return a path relative to the checkout if it is inside it."""
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
