"""How a point is run again: by the harness, and process by process."""

from collections.abc import Iterator, Mapping, Sequence

from bench.settings.secrets import MASK, command_line, masked_word, names
from bench.trial import is_called
from results.run import ELSEWHERE, Run
from results.run_folder import SWEEP
from results.scaling import ScalingRow

_FAB = ("fab", "bench.sweep")


def rerun_command(run: Run, row: ScalingRow) -> str:
    """The harness's command that measures the point again; '' where the run kept no sweep.

    It is for the checkout, with the options that the run was measured with where it kept them; a
    run that lies elsewhere is called RUN there.
    """
    if not run.location:
        return ""
    sweep = f"{run.location}/{SWEEP}"
    words = (".venv/bin/fab", "bench.sweep", sweep, "--point", row.trial.name)
    # Of a secret's NAME=*** only the name: `-x NAME` passes its value.
    given = [masked_word(word).removesuffix(f"={MASK}") for word in _options(run, row)]
    for name in names(row.trial.layout.env):
        given += [] if name in given else ["-x", name]
    return command_line([*words, *given, "--run", f"{run.name}-again"])


def rerun_title(run: Run) -> str:
    """What the command is, and what has to be put into it."""
    lacking = "" if _recorded_command(run) else ", without the options that it was given then"
    put = f"; put this run's folder for {ELSEWHERE}" if run.location == ELSEWHERE else ""
    secret = dict.fromkeys(name for row in run.rows for name in names(row.trial.layout.env))
    values = f"; set {', '.join(secret)} first, whose values are not kept" if secret else ""
    return f"All of the point, in the checkout{lacking}{put}{values}"


def _recorded_command(run: Run) -> Sequence[str]:
    """The words of the command that measured the run; none where it kept none."""
    words: Sequence[str] = run.environment.get("command", ())
    return words if tuple(words[:2]) == _FAB else ()


def _options(run: Run, row: ScalingRow) -> Iterator[str]:
    """What the run was measured with, as it is for one point of it."""
    kept = _recorded_command(run)
    if not kept and row.trial.engine == "fake":
        # A rehearsal of a sweep that names the real engine.
        yield from ("--engine", "fake")
    for word in kept[3:]:
        option, _, value = word.partition("=")
        if option == "--auto-batch":
            # Alone it could have more than with the points that share its batch.
            yield f"{option}={row.trial.training.batch_per_device}"
        elif option == "--fault":
            point = value.partition(":")[0]
            yield from [word] if is_called(row.trial, point) else []
        elif option not in {"--point", "--run"}:
            yield word


def first_processes(commands: Mapping[str, str]) -> list[tuple[str, str, int]]:
    """(process, its command line, how many more have its role), for the first of each role."""
    roles: dict[str, list[tuple[int, str]]] = {}
    for process in commands:
        role, _, last = process.rpartition("-")
        number = int(last) if last.isdecimal() else 0
        roles.setdefault(role or process, []).append((number, process))
    firsts = sorted((min(group), len(group) - 1) for group in roles.values())
    return [(name, commands[name], more) for (_, name), more in firsts]
