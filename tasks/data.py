"""data.*: images to shards; every command of im2rec_tools is a task."""

import inspect
from typing import Any

from invoke.context import Context
from invoke.tasks import Task

from im2rec_tools.cli import Command, load, run_plan
from tasks.cli import command, task


def task_of(data_command: Command) -> "Task[Any]":
    """The task that runs a command: its options are the task's arguments."""

    @command
    def body(c: Context, dry_run: bool = False, **given: Any) -> None:
        run_plan(lambda: data_command.planned(given), dry_run=dry_run)

    body.__name__ = data_command.name.replace("-", "_")
    body.__doc__ = data_command.help
    arguments = [
        _parameter(one.key, inspect.Parameter.empty if one.default is None else one.default)
        for one in data_command.options
    ]
    arguments = [_parameter("c"), *arguments, _parameter("dry_run", False)]
    body.__signature__ = inspect.Signature(  # type: ignore[attr-defined] # what Invoke reads
        sorted(arguments, key=lambda one: one.default is not inspect.Parameter.empty)
    )
    texts = {option.key: option.help_text for option in data_command.options}
    made: Task[Any] = task(help={**texts, "dry_run": "say what would be done, no more"})(body)
    return made


def _parameter(name: str, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)


def run_data_command(name: str, **given: Any) -> None:
    """Runs a command from another task."""
    run_plan(lambda: load(name).planned(given), dry_run=False)
