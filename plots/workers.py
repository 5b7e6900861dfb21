"""The table of the workers of a running job, for a terminal."""

from collections.abc import Callable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bench.trial import Trial
from im2rec_tools.console import cell
from im2rec_tools.terminal import printable
from plots.format import significant
from plots.tables.scaling import rate_unit
from results.progress import JobProgress, WorkerProgress

# More rows are too many to read; of more workers, the table has those that need attention.
MOST_ROWS = 20
_FEW = 8
_STALLED_STATES = frozenset({"stalled", "suspended", "ended"})
_QUIET_SECONDS = 10.0


def worker_table(
    trial: Trial, glimpse: JobProgress, rows: int = MOST_ROWS, left: str = ""
) -> RenderableType:
    """Return one row per worker.

    With too many, the slowest few and a line on the rest.
    """
    shown, rest = _selection(glimpse.workers, min(rows, MOST_ROWS))
    hosts = _short([one.host for one in glimpse.workers])
    has_gpus = any(one.gpu is not None for one in glimpse.workers)
    table = Table(box=None, expand=True, pad_edge=False, header_style="bold")
    table.add_column("rank", no_wrap=True)
    table.add_column("host", no_wrap=True, overflow="ellipsis", max_width=20)
    table.add_column("window", no_wrap=True, min_width=len("10/10 warm-up"))
    name_of_rate, scale = rate_unit(trial)
    for name in (name_of_rate, "CPU", *["GPU"] * has_gpus):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("last message", no_wrap=True, overflow="ellipsis", ratio=1)
    for one in shown:
        rate = "" if one.images_per_second is None else significant(one.images_per_second / scale)
        used = [_percent(one.cpu), *[_percent(one.gpu)] * has_gpus]
        rank = f"worker {one.worker}" if one.rank is None else str(one.rank)
        cells = (rank, hosts[one.host], _window(trial, one), rate, *used, one.last_message)
        table.add_row(*map(cell, cells))
    lines = [_line(_summary(trial, rest))] if rest else []
    return Group(_line(title(trial, glimpse, left)), table, *lines)


def title(trial: Trial, glimpse: JobProgress, left: str = "") -> str:
    """Return the job in a line: name, throughput, rendezvous and the time `left`."""
    working = [one for one in glimpse.workers if one.state not in _STALLED_STATES]
    rates = [one.images_per_second for one in working if one.images_per_second is not None]
    name, scale = rate_unit(trial)
    known = len(rates) == len(working) > 0
    parts = [f"{significant(sum(rates) / scale)} {name}"] if known else []
    if glimpse.met_seconds is None:
        arrived = sum(one.rank is not None for one in glimpse.workers)
        of = f"{arrived} of {trial.workers} worker{'s' * (trial.workers > 1)} ready"
        parts.append(f"{of} after {glimpse.seconds:.0f} s")
    elif not parts:
        parts.append(rendezvous_text(trial, glimpse.met_seconds))
    if glimpse.quiet_seconds >= _QUIET_SECONDS:
        parts.append(f"no progress for {glimpse.quiet_seconds:.0f} s")
    if left:
        parts.append(left)
    return f"{trial.name}: {', '.join(parts)}"


def rendezvous_text(trial: Trial, seconds: float) -> str:
    """Return how long the rendezvous of the job's workers took."""
    return f"{'rendezvous done' if trial.workers > 1 else 'ready'} in {seconds:.1f} s"


def _short(hosts: Sequence[str]) -> dict[str, str]:
    """Map hosts to names without their domains, if these differ and are not addresses."""
    short = {host: host.partition(".")[0] for host in hosts}
    if len(set(short.values())) < len(short) or any(name.isdigit() for name in short.values()):
        return {host: host for host in hosts}
    return short


def _line(text: str) -> Text:
    return Text(printable(text), no_wrap=True, overflow="ellipsis")


def _selection(
    workers: Sequence[WorkerProgress], rows: int
) -> tuple[Sequence[WorkerProgress], Sequence[WorkerProgress]]:
    """Split the workers into those to show and the others, both in rank order."""
    ordered = sorted(workers, key=lambda one: one.worker if one.rank is None else one.rank)
    if len(ordered) <= rows:
        return ordered, []
    stuck = sum(one.state in _STALLED_STATES for one in ordered)
    count = max(1, min(rows - 1, max(_FEW, stuck)))
    chosen = {one.worker for one in sorted(ordered, key=_priority)[:count]}
    return (
        [one for one in ordered if one.worker in chosen],
        [one for one in ordered if one.worker not in chosen],
    )


def _priority(one: WorkerProgress) -> tuple[bool, int, float, int]:
    """Sort key: workers without progress by windows, then the others by throughput."""
    stuck = one.state in _STALLED_STATES
    return not stuck, one.windows * stuck, one.images_per_second or 0.0, one.worker


def _window(trial: Trial, one: WorkerProgress) -> str:
    if one.rank is None and one.state != "suspended":
        return one.state
    total = f"/{trial.total_windows}" if trial.total_windows else ""
    warm = "warm-up" if one.windows <= trial.measuring.warmup_windows else ""
    return f"{one.windows}{total} {warm if one.state == 'training' else one.state}".rstrip()


def _summary(trial: Trial, rest: Sequence[WorkerProgress]) -> str:
    total = f" of {trial.total_windows}" if trial.total_windows else ""
    parts = [f"window {_range([one.windows for one in rest], str)}{total}"]
    rates = [one.images_per_second for one in rest if one.images_per_second is not None]
    if rates:
        name, scale = rate_unit(trial)
        parts.append(f"{_range([rate / scale for rate in rates], significant)} {name} each")
    for name, shares in (("CPU", [one.cpu for one in rest]), ("GPU", [one.gpu for one in rest])):
        known = [share for share in shares if share is not None]
        if known:
            parts.append(f"{name} {_range([100 * share for share in known], '{:.0f}'.format)} %")
    return f"{len(rest)} more workers: {', '.join(parts)}"


def _range(values: Sequence[float], shown: Callable[[float], str]) -> str:
    least, most = shown(min(values)), shown(max(values))
    return least if least == most else f"{least} to {most}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"
