"""Commands that reproduce a point: one of the harness, and one per process."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from bench.settings.point_names import is_called
from bench.settings.secrets import MASK, command_line, masked_word, names
from results.run import ELSEWHERE, Run
from results.run_folder import SWEEP
from results.scaling import ScalingRow

_FAB = ("fab", "bench.sweep")


def rerun_command(run: Run, row: ScalingRow, point: str = "") -> str:
    """Return the command that reruns the point; '' if the run lacks its sweep file.

    `point` has the words that select it, if its name does not.

    The command runs in the checkout, with the options recorded in the run, if any. It names the
    folder of a run outside the checkout RUN.
    """
    if not run.location:
        return ""
    sweep = f"{run.location}/{SWEEP}"
    words = (".venv/bin/fab", "bench.sweep", sweep, "--point", point or row.trial.name)
    # A secret is stored as NAME=***; `-x NAME` passes its value on.
    given = [masked_word(word).removesuffix(f"={MASK}") for word in _options(run, row)]
    for name in names(row.trial.layout.env):
        given += [] if name in given else ["-x", name]
    return command_line([*words, *given, "--run", f"{run.name}-again"])


def reproduce_note(run: Run) -> str:
    """Return how to start the recorded commands: version, order, and missing secrets."""
    commit = run.commit.removesuffix("+")
    if not commit:
        version = "The run recorded no commit; other versions of mxscale may need other commands."
    elif run.commit != commit:
        version = (
            f"Check out commit {commit} first: these commands belong to that version, to which the "
            f"checkout had uncommitted changes."
        )
    else:
        version = f"Check out commit {commit} first: these commands belong to that version."
    order = "Start them on their hosts in this order: scheduler, servers, workers."
    secrets = any(names(row.trial.layout.env) for row in run.rows)
    replace = "mxscale does not store secrets: replace each *** by your own value." * secrets
    return " ".join(filter(None, (version, order, replace)))


def rerun_title(run: Run) -> str:
    """Describe the command, and what the user must fill in."""
    lacking = "" if _recorded_command(run) else "; the run did not record the options it was given"
    put = f"; replace {ELSEWHERE} by this run's folder" if run.location == ELSEWHERE else ""
    secret = dict.fromkeys(name for row in run.rows for name in names(row.trial.layout.env))
    values = f"; first set {', '.join(secret)} (values are not recorded)" if secret else ""
    return f"Whole point, from the checkout{lacking}{put}{values}"


def _recorded_command(run: Run) -> Sequence[str]:
    """Return the argv of the command that measured the run; empty if it recorded none."""
    words: Sequence[str] = run.environment.get("command", ())
    return words if tuple(words[:2]) == _FAB else ()


def _options(run: Run, row: ScalingRow) -> Iterator[str]:
    """Yield the options of the run that apply to one of its points."""
    kept = _recorded_command(run)
    if not kept and row.trial.scripted:
        # A simulation of a sweep whose file names the real engine.
        yield from ("--engine", row.trial.engine)
    for word in kept[3:]:
        option, _, value = word.partition("=")
        if option == "--auto-batch":
            # Measured alone, the point could get a larger batch than in its group.
            yield f"{option}={row.trial.training.batch_per_device}"
        elif option == "--fault":
            point = value.partition(":")[0]
            yield from [word] if is_called(row.trial, point) else []
        elif option not in {"--point", "--run"}:
            yield word


def first_processes(commands: Mapping[str, str]) -> list[tuple[str, str, int]]:
    """Return each role's first process, its command line and the number of others."""
    return [(name, commands[name], more) for name, more in _firsts(tuple(commands))]


@lru_cache(maxsize=64)
def _firsts(processes: tuple[str, ...]) -> list[tuple[str, int]]:
    """Return each role's first process and the number of others."""
    roles: dict[str, list[tuple[int, str]]] = {}
    for process in processes:
        role, _, last = process.rpartition("-")
        number = int(last) if last.isdecimal() else 0
        roles.setdefault(role or process, []).append((number, process))
    firsts = sorted((min(group), len(group) - 1) for group in roles.values())
    return [(name, more) for (_, name), more in firsts]
