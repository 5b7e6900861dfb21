"""What bounds the points of a run: cells of tables, budgets of a step, commands."""

from collections.abc import Iterator, Sequence

from bench.notes import sentence
from bench.settings.point_names import point_words
from bench.settings.secrets import MASK, command_line, masked_word
from bench.trial import FIELDS
from plots.format import significant
from plots.items import Item
from results.explain.experiment import Experiment, experiment
from results.explain.verdict import Cause, Verdict
from results.run import ELSEWHERE, Run
from results.run_folder import SWEEP
from results.scaling import ScalingRow

VERDICT_NOTE = (
    "verdict: what bounds the point, with its share of the step; 'fab report.explain' prints the "
    "evidence. compute: less than 8 % of the step is lost."
)
# The verdict for readers who do not know its name.
VERDICT_WORDS = {
    Cause.COMPUTE: "compute bound",
    Cause.INPUT: "input bound",
    Cause.LINK: "network bound",
    Cause.SERVER: "server bound",
    Cause.STRAGGLER: "slow rank",
    Cause.CORES: "cores shared",
    Cause.INTERFERENCE: "other programs",
    Cause.SYNC: "synchronization bound",
    Cause.MACHINE: "machine limits",
    Cause.SEVERAL: "several causes",
    Cause.NOT_MEASURED: "cause unknown",
}
_FAB = ".venv/bin/fab"
_SWEEP_COMMAND = ("fab", "bench.sweep")
_IDLE_SECONDS = "600"
_BLOCKS = "2"
_KEY_DIGITS = 6
# Options of a sweep that a repetition of one point does not take.
_CHOSEN = ("--point", "--run", "--fault", "--auto-batch", "--again", "--wait-idle")
# Options of a sweep that bench.ab takes too.
_SHARED = (
    *("--hostfile", "--hosts", "--hosts-format", "--devices-per-node", "--interface", "--tree"),
    *("--ssh-config", "--accept-new", "--engine"),
)


def verdict_cell(row: ScalingRow) -> str:
    """Return what bounds the point, and its share of the step: 'link 62 %'."""
    if row.verdict is None:
        return ""
    share = row.verdict.share if row.verdict.names_a_cause else None
    return f"{row.verdict.cause}" + (f" {100 * share:.0f} %" if share is not None else "")


def is_filled(name: str, column: Sequence[str]) -> bool:
    """Return whether a column of a table has information on a point."""
    empty = {"", Cause.NOT_MEASURED} if name == "verdict" else {""}
    return any(one not in empty for one in column)


def budget_rows(found: Verdict) -> Iterator[tuple[str, str, str]]:
    """Yield each part of a step with its seconds and its share."""
    step = found.measurements.step
    if not step:
        return
    parts = {str(cause): seconds for cause, seconds in found.seconds.items()}
    if not parts or found.unexplained > 0:
        parts["unexplained"] = found.unexplained if parts else step
    for name, seconds in ({"step": step} | parts).items():
        yield name, f"{significant(seconds)} s", f"{100 * seconds / step:.0f} %"


def explanations(run: Run, rows: Sequence[ScalingRow]) -> Iterator[Item]:
    """Yield each point with a result: verdict, budget, evidence, experiment."""
    names = dict(zip(map(id, run.rows), _words(run), strict=True))
    for row in rows:
        if row.verdict:
            lines = tuple(_lines(run, row, row.verdict, names[id(row)]))
            yield Item(f"{_simulated(row)}{names[id(row)]}, verdict {verdict_cell(row)}", lines)


def _words(run: Run) -> list[str]:
    """Return the words that select each point of a run."""
    return point_words([row.trial for row in run.rows])


def _simulated(row: ScalingRow) -> str:
    return "SIMULATED " if row.standing == "rehearsal" else ""


def _lines(run: Run, row: ScalingRow, found: Verdict, words: str) -> Iterator[str]:
    parts = [f"{name} {seconds} ({share})" for name, seconds, share in budget_rows(found)]
    if parts:
        yield f"{parts[0].partition(' (')[0]}: {', '.join(parts[1:])}"
    if found.cause is not Cause.NOT_MEASURED:
        yield f"evidence: {sentence(found.note)}"
    if found.ceilings:
        used = (f"{name} {significant(one)} s" for name, one in found.ceilings.items())
        yield f"ceilings per step: {', '.join(used)}"
    if found.not_measured:
        yield f"not measured: {', '.join(found.not_measured)}"
    test = experiment(row.trial, found)
    if test:
        yield f"counter-experiment: {command_line([_FAB, *confirm_words(run, words, row, test)])}"
        yield f"expected: {expectation(test)}"


def expectation(test: Experiment) -> str:
    """Return what the counter-experiment gives with the cause and without it."""
    return (
        f"a step {significant(test.expected)} times as long if the cause is right, "
        f"{significant(test.otherwise)} times if not"
    )


def confirm_run(run: Run, row: ScalingRow, test: Experiment) -> str:
    """Return the name of the run of a counter-experiment."""
    return f"{run.name}-confirm-{test.cause}-{row.trial.key[:_KEY_DIGITS]}"


def confirm_words(
    run: Run, words: str, row: ScalingRow, test: Experiment, folder: str = ""
) -> list[str]:
    """Return the words of the counter-experiment's command, after `fab`.

    It names the folder of a run outside the checkout RUN, as all commands of a report do, unless
    `folder` is given.
    """
    folder = folder or run.location or ELSEWHERE
    point = [f"{folder}/{SWEEP}", "--point", words]
    name = ["--run", confirm_run(run, row, test)]
    given = _options(run, row)
    if not test.settings:
        kept = [word for word in given if not word.startswith(_CHOSEN)]
        return ["bench.sweep", *point, *kept, "--wait-idle", _IDLE_SECONDS, *name]
    kept = [word for word in given if word.partition("=")[0] in _SHARED]
    own = " ".join(_settings(given))
    both = [own, f"{own} {test.settings}".strip()]
    return ["bench.ab", *both, "--sweep", *point, *kept, "--blocks", _BLOCKS, *name]


def _options(run: Run, row: ScalingRow) -> list[str]:
    """Return the options of the sweep that measured the run, secrets masked."""
    words = run.environment.get("command", ())
    if tuple(words[:2]) == _SWEEP_COMMAND:
        return [masked_word(word) for word in words[3:]]
    return [f"--engine={row.trial.engine}"] if row.trial.scripted else []


def _settings(given: Sequence[str]) -> Iterator[str]:
    """Yield a sweep's options as settings of bench.ab: 'servers_per_host=2'."""
    for word, value in zip(given, [*given[1:], ""], strict=False):
        option, _, text = word.partition("=")
        name = option.removeprefix("--").replace("-", "_")
        if option == "-x" and "=" in value and not value.endswith(f"={MASK}"):
            yield f"env.{value}"
        elif option.startswith("--") and name in FIELDS and text:
            yield f"{name}={text}"


def confirmation(test: Experiment, step: float, other: float) -> str:
    """Return a counter-experiment's result, from the steps before and after."""
    agrees = "confirmed" if test.confirmed(step, other) else "not confirmed"
    change = f"with {test.settings}" if test.settings else "measured again"
    return (
        f"{test.cause} {agrees}: a step takes {significant(other)} s {change}, "
        f"{significant(step)} s before, a factor of {significant(other / step)} "
        f"({significant(test.expected)} if {test.cause} is the cause, "
        f"{significant(test.otherwise)} if not)"
    )
