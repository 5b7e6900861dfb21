"""The wrapper of every command: place, options, errors to exit codes."""

import functools
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import fabric.main
import invoke.tasks
from fabric import Connection
from fabric.main import Fab
from invoke.context import Context
from invoke.exceptions import Exit, ParseError
from invoke.tasks import Task

from bench.errors import SpecError
from bench.settings.secrets import masked_text, masked_word
from im2rec_tools.cli import exit_code, interruptible
from im2rec_tools.errors import DataError
from im2rec_tools.terminal import error_lines, install_filter, printable, shorten
from launch.hosts import ROOT, HostOptions
from launch.remote.errors import LaunchError, PreflightError, StoppedError
from results.errors import StoreError

_HELP = {"-h", "--help"}
_DRY = {"-R", "--dry"}
_QUOTED = re.compile(r"'([^']*)'")
Body = Callable[..., None]


class Program(Fab):
    """Fabric's program with the exit codes and the help of this project."""

    def parse_tasks(self) -> None:
        """Parse the words after fab's own options; `-h` and `-R` count behind a task too.

        Invoke would take them for the value of an argument that has none yet.
        """
        install_filter()
        words: list[str] = self.core.unparsed
        own = words[: words.index("--")] if "--" in words else words[:]
        if _DRY & set(own):
            self.core[0].args["dry"].value = True
            words[: len(own)] = own = [word for word in own if word not in _DRY]
        if any(word in _HELP for word in own[1:]) and own[0] not in _HELP:
            self.core[0].args["help"].value = own[0]  # the task that it stands behind
            words.clear()
        with _usage_errors():
            super().parse_tasks()
            for task in self.tasks:
                for one in task.positional_args:  # an unknown option that Invoke took for a value
                    if isinstance(one.value, str) and one.value.startswith("-"):
                        raise ParseError(f"No idea what {one.value!r} is!", task)

    def parse_cleanup(self) -> None:
        """Print help or the list of tasks where they are asked for."""
        with _usage_errors():
            super().parse_cleanup()


@contextmanager
def _usage_errors() -> Iterator[None]:
    """End with 2 and one line for what fab cannot parse, and quietly where the reader left."""
    try:
        yield
    except ParseError as error:
        name = error.context.name if error.context else ""
        why = _QUOTED.sub(lambda found: repr(masked_word(found[1])), str(error).rstrip("!"))
        where = f"{name}: " if name and name not in why else ""
        fix = f"'fab --help {name}' lists its options" if name else "'fab --list' lists the tasks"
        raise Exit(f"error: {printable(f'{where}{why}. {fix}.')}", code=2) from error
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise Exit(code=141) from None
    except Exit as error:
        raise Exit(error.message, code=2 if error.message else error.code) from error


def install() -> None:
    """Have the program that is loading the fabfile behave as `Program`."""
    fabric.main.program.__class__ = Program


def check_place(c: Context) -> None:
    """Raises LaunchError unless this runs once, on the master, in the checkout."""
    if isinstance(c, Connection):
        raise LaunchError(
            "-H runs a task once on each host; these tasks run once, on the master, and start "
            "what they need on the hosts. Leave -H out"
        )
    if sys.stdout is None:
        raise LaunchError("standard output is closed: expected a place to print to, or >/dev/null")
    if Path.cwd() != ROOT:
        raise LaunchError(f"paths are relative to the checkout: run fab in {ROOT}")


# As Invoke's `task`, without one-letter options made from the first letters of long ones: these
# change with every option that is added, and one of them took the place of -h.
task = functools.partial(invoke.tasks.task, auto_shortflags=False)


def command(body: Body) -> Body:
    """Turns what a person has to fix into one line and exit code 2, an interrupt into 130.

    SIGTERM and SIGHUP interrupt as Ctrl-C does; the codes are 143 and 129.

    fab's own --dry is refused before anything happens, unless the task has an option `dry_run`,
    which is then set, or is a `read_only_command`.
    """
    return _run_body(body, _dry_run_options)


def read_only_command(body: Body) -> Body:
    """As `command`, for a task that changes nothing: it runs with --dry as without it."""
    return _run_body(body, lambda *_: {})


def _dry_run_options(c: Context, body: Body) -> dict[str, bool]:
    """The options by which a task honors fab's --dry; SpecError if it has none."""
    if not c.config.run.dry:
        return {}
    if "dry_run" in inspect.signature(body).parameters:
        return {"dry_run": True}
    raise SpecError(
        "--dry (-R): this task has no dry run, and nothing was done. Leave the option out; "
        "'fab bench.plan SWEEP' prints what a sweep would start"
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
            raise Exit(
                error.message and shorten(printable(error.message)), code=error.code
            ) from error
        except StoppedError as error:
            raise Exit(error_lines(error), code=130) from error
        except PreflightError as error:
            raise Exit(f"error: {masked_text(error_lines(error))}", code=3) from error
        except (SpecError, DataError, LaunchError, StoreError) as error:
            raise Exit(f"error: {masked_text(error_lines(error))}", code=2) from error
        except BrokenPipeError:
            # The reader, such as head, has seen enough; nothing is left to say it to.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            raise Exit(code=141) from None
        except KeyboardInterrupt:
            raise Exit(
                "interrupted; what is finished is kept, run it again to go on",
                code=exit_code(caught),
            ) from None

    return wrapped


NO_HOST_OPTIONS = HostOptions()
_HOST_OPTIONS = [one for one in fields(HostOptions) if "help" in one.metadata]


def hosts_task(
    help: dict[str, str] | None = None,
    decorator: Callable[[Body], Body] = command,
    **options: Any,
) -> Callable[[Body], Task[Any]]:
    """As `task`, of a body that takes `host_options`; adds their options to the task's own."""
    texts = {one.name: one.metadata["help"] for one in _HOST_OPTIONS} | (help or {})
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    added = [inspect.Parameter(one.name, kind, default=one.default) for one in _HOST_OPTIONS]

    def make(body: Body) -> Task[Any]:
        listed = inspect.signature(body).parameters.values()
        own = [one.replace(kind=kind) for one in listed if one.name != "host_options"]
        signature = inspect.Signature([*own, *added])

        @decorator
        def wrapped(c: Any, *args: Any, **given: Any) -> None:
            values = signature.bind(c, *args, **given).arguments
            words = tuple(command_words(values, [*own, *added][1:]))
            hosts = {one.name: given.pop(one.name) for one in added if one.name in given}
            body(c, *args, host_options=HostOptions(**hosts, words=words), **given)

        wrapped.__name__, wrapped.__doc__ = body.__name__, body.__doc__
        wrapped.__signature__ = signature  # type: ignore[attr-defined] # Invoke reads it
        made: Task[Any] = task(help=texts, **options)(wrapped)
        return made

    return make


def command_words(
    values: Mapping[str, Any], parameters: Iterable[inspect.Parameter]
) -> Iterator[str]:
    """The words of a command by the values of its arguments, without those that are defaults.

    A long option is one word with its value; one of a single letter has its value after it.
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
    """A path as people type it in the checkout: relative to it if it lies there."""
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
