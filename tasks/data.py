"""Tasks `data.*`: one for every command of im2rec_tools."""

import inspect
from typing import Any

from invoke.context import Context

from im2rec_tools.cli import DRY_RUN, Command, run_plan
from im2rec_tools.declarations import COMMANDS
from tasks.cli import command, task
from tasks.help import DeclaredTask


def task_of(data_command: Command) -> DeclaredTask:
    """Make the task of a command; its options become the task's arguments."""

    @command
    def body(c: Context, dry_run: bool = False, **given: Any) -> None:
        run_plan(lambda: data_command.planned(given), dry_run=dry_run)

    body.__name__ = data_command.name.replace("-", "_")
    body.__doc__ = "\n\n".join(filter(None, (data_command.help, data_command.details)))
    arguments = [
        _parameter(one.key, inspect.Parameter.empty if one.default is None else one.default)
        for one in data_command.options
    ]
    arguments = [_parameter("c"), *arguments, _parameter("dry_run", False)]
    body.__signature__ = inspect.Signature(  # type: ignore[attr-defined] # Invoke reads it
        sorted(arguments, key=lambda one: one.default is not inspect.Parameter.empty)
    )
    declared = {option.key: option.help for option in data_command.options}
    many = any(option.many for option in data_command.options)
    return task({**declared, "dry_run": DRY_RUN}, example=data_command.example, many=many)(body)


def _parameter(name: str, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)


def run_data_command(name: str, **given: Any) -> None:
    """Run a command from another task."""
    run_plan(lambda: COMMANDS[name].planned(given), dry_run=False)
