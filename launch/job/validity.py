"""Validity check: whether a finished job is a valid measurement of its trial."""

from collections.abc import Iterator, Mapping, Sequence

from bench.data.page_cache import notes as cache_notes
from bench.notes import Note, NoteKind, of_json
from bench.trial import Trial
from launch.job.interference import Span, gpu_notes, interference
from launch.job.monitor import EARLY, ProcessState, Verdict
from results.record import Cause, Validation
from results.worker_log import accuracy_of, validations_of

# On an idle machine a worker on one core gets the CPU for 98 to 100 % of its window time.
_BUSY_BELOW = 0.95
# A timer tick, a cron job or a disk flush changes shorter measurements.
_BRIEF_SECONDS = 0.5
_INSPECTING = ("--monitor", "--profile-worker-suffix", "--profile-server-suffix")


def judge(
    trial: Trial,
    workers: Sequence[ProcessState],
    idle: Sequence[Note] = (),
    machines: Mapping[str, Span] | None = None,
) -> Verdict:
    """Return the verdict on a job whose processes succeeded.

    Failed if it was not this trial's.

    The notes list the caveats of its number: idle devices, interference by the machine counters.
    """
    for reason in invalid_reasons(trial, workers):
        return Verdict(status="failed", message=reason, cause=Cause.INVALID)
    if missed := target_missed(trial, workers):
        return Verdict(status="failed", message=missed, cause=Cause.TARGET_MISSED)
    # A simulation's times are scripted: no interference can change them.
    counted = machines if machines and not trial.scripted else {}
    disturbed = interference(counted)
    if trial.mode in {"synthetic", "real"}:
        disturbed += gpu_notes(counted)
    own = (
        *data_notes(trial, workers),
        *_inspected(trial),
        *_brief(trial, workers),
        *_spent(trial, workers),
        *_emitted(trial, workers),
    )
    return Verdict(status="ok", notes=(*own, *idle, *disturbed))


def target_missed(trial: Trial, workers: Sequence[ProcessState]) -> str:
    """Return why a finished job did not reach its trial's accuracy; '' if it did."""
    reached = accuracy(workers)
    if reached is not None and trial.data.stop_accuracy < 1 and reached <= trial.data.stop_accuracy:
        last = validations(workers)[-1:]
        trained = [
            f"{one.epochs} epoch{'s' * (one.epochs > 1)} ({one.seconds:.1f} s)" for one in last
        ]
        fix = "Raise num_epochs, or lower stop_accuracy"
        if trial.measuring.windows:
            fix = "Set windows = 0 to train until num_epochs"
        return (
            f"expected a validation accuracy above {trial.data.stop_accuracy}, got {reached:.3f} "
            f"after {''.join(trained) or f'{trial.data.num_epochs} epochs'}. {fix}"
        )
    return ""


def data_notes(trial: Trial, workers: Sequence[ProcessState]) -> Iterator[Note]:
    """Yield notes on the input data: a busy machine, cold caches."""
    if trial.reported:  # neither CPU times nor the data of a program are known
        return
    if trial.mode == "synthetic":
        yield from _busy(trial, workers[0])
    elif not trial.scripted:
        yield from cache_notes([worker.log.facts for worker in workers])


def _inspected(trial: Trial) -> Iterator[Note]:
    """A note if an inspection option slowed the windows."""
    given = dict(one.partition("=")[::2] for one in trial.mxnet.options)
    names = [name for name in _INSPECTING if given.get(name, "") not in {"", "0"}]
    if names:
        yield Note(NoteKind.INSPECTED, {"option": names[0]})


def _brief(trial: Trial, workers: Sequence[ProcessState]) -> Iterator[Note]:
    """A note if the counted windows are too short in total to be reliable."""
    if trial.scripted:
        return
    total = min(
        sum(w["seconds"] for w in one.log.windows[trial.measuring.warmup_windows :])
        for one in workers
    )
    if total < _BRIEF_SECONDS:
        yield Note(NoteKind.BRIEF, {"seconds": total})


def _busy(trial: Trial, worker: ProcessState) -> Iterator[Note]:
    """A note if a single worker on one core did not always get the CPU."""
    layout = trial.layout
    pinned = layout.device == "cpu" and trial.mode != "test-io"
    if trial.servers or layout.devices > 1 or not pinned or trial.scripted:
        return
    windows = worker.log.windows[trial.measuring.warmup_windows :]
    share = sum(w.get("cpu_seconds", 0.0) for w in windows) / sum(w["seconds"] for w in windows)
    if share < _BUSY_BELOW:
        yield Note(NoteKind.BUSY_BASELINE, {"share": share})


def _emitted(trial: Trial, workers: Sequence[ProcessState]) -> list[Note]:
    """Return the workers' notes, without those on traffic of a job on one host."""
    notes = [of_json(note) for one in workers for note in (one.log.done or {}).get("notes", ())]
    alone = trial.hosts < 2
    return [note for note in notes if not alone or note.kind is not NoteKind.LITTLE_COMPUTING]


def _spent(trial: Trial, workers: Sequence[ProcessState]) -> Iterator[Note]:
    """A note if the budget was spent before the requested precision was reached."""
    unit = (workers[0].log.done or {}).get("ended", "")
    spent = {
        "windows": (trial.measuring.windows, "windows"),
        "seconds": (trial.measuring.budget_seconds, "s"),
        "epochs": (trial.data.num_epochs, "epochs"),
    }.get(unit)
    if spent and trial.measuring.precision and not trial.asynchronous:
        figures = {"amount": spent[0], "unit": spent[1], "precision": trial.measuring.precision}
        yield Note(NoteKind.BUDGET_SPENT, figures)


def _overlap(trial: Trial, workers: Sequence[ProcessState]) -> float:
    """Return the seconds in which all workers measured at once, by the hosts' clocks."""
    first = [worker.log.windows[trial.measuring.warmup_windows] for worker in workers]
    begin = max(window["end"] - window["seconds"] for window in first)
    return float(min(worker.log.windows[-1]["end"] for worker in workers) - begin)


def accuracy(workers: Sequence[ProcessState]) -> float | None:
    """Return the accuracy of the last validation over all ranks.

    None if a rank has none.
    """
    return accuracy_of([worker.log.epochs for worker in workers])


def validations(workers: Sequence[ProcessState]) -> tuple[Validation, ...]:
    """Return the validations that all ranks have done."""
    return validations_of([worker.log.epochs for worker in workers])


def invalid_reasons(trial: Trial, workers: Sequence[ProcessState]) -> Iterator[str]:
    """Yield the reasons why a finished job is not a valid measurement of this trial."""
    silent = [worker.label for worker in workers if worker.log.rank is None]
    if silent:
        yield f"no report from: {', '.join(silent)}"
        return
    for worker in workers:
        if worker.log.facts["num_workers"] != trial.workers:
            found = worker.log.facts["num_workers"]
            yield f"{worker.label}: expected a job of {trial.workers} workers, got {found}"
        expected = dict(enumerate(trial.worker_batches)).get(worker.log.rank or 0, 0)
        if worker.log.facts["worker_batch"] != expected:
            found = worker.log.facts["worker_batch"]
            yield f"{worker.label}: expected a batch of {expected}, got {found}"
    if {worker.log.rank for worker in workers} != set(range(trial.workers)):
        ranks = sorted(worker.log.rank or 0 for worker in workers)
        yield f"expected reports from ranks 0 to {trial.workers - 1}, got {ranks}"
    counts = {len(worker.log.windows) for worker in workers}
    if len(counts) > 1 and not trial.asynchronous:
        yield f"ranks measured different numbers of windows: {sorted(counts)}"
    early = {(worker.log.done or {}).get("ended") for worker in workers} <= EARLY
    warmup = trial.measuring.warmup_windows
    asked = warmup + (1 if early else max(1, trial.measuring.windows))
    if min(counts) < asked:
        yield f"expected {asked} windows ({warmup} of them warm-up), got {min(counts)}"
    elif trial.asynchronous and _overlap(trial, workers) <= 0:
        yield "the workers never measured at the same time. Increase windows"
    hashes = {worker.log.rank: (worker.log.done or {}).get("weight_hash") for worker in workers}
    if len(set(hashes.values())) > 1 and not trial.asynchronous:
        first, *others = sorted(hashes, key=lambda rank: rank or 0)
        other = next(rank for rank in others if hashes[rank] != hashes[first])
        yield f"ranks {first} and {other} ended with different weights"
