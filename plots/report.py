"""The report of a run: results.csv, report.md and the figure, from its records."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plots import figure
from plots.frame import frame
from plots.table import markdown
from results.errors import StoreError
from results.scaling import ScalingRow, scaling
from results.store import latest, read, read_json, write_whole


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run folder as a report needs it."""

    folder: Path
    rows: list[ScalingRow]
    environment: dict[str, Any]

    @property
    def name(self) -> str:
        """The run's name: its folder's."""
        return self.folder.resolve().name


def load(folder: Path) -> Run:
    """Reads a run folder; of its records those of the sweep's trials count, in the sweep's order.

    Raises StoreError where there is no run or it has no record yet.
    """
    records = latest(read(folder))
    environment = read_json(folder, "environment.json")
    order = {key: place for place, key in enumerate(environment.get("trials", []))}
    if order:
        records = [record for record in records if record.identity.key in order]
        records.sort(key=lambda record: order[record.identity.key])
    # A network's points stand together, whatever store they used.
    groups = list(dict.fromkeys((record.trial.mode, record.trial.label) for record in records))
    records.sort(key=lambda record: groups.index((record.trial.mode, record.trial.label)))
    if not records:
        raise StoreError(f"{folder}: no point has been measured yet; 'fab bench.sweep' does that")
    return Run(folder=folder, rows=scaling(records), environment=environment)


def machine(environment: dict[str, Any]) -> str:
    """Hardware and software in one line."""
    parts = (
        environment.get("processor"),
        environment.get("cores") and f"{environment['cores']} cores",
        environment.get("memory_gib") and f"{environment['memory_gib']} GiB",
        environment.get("mxnet") and f"MXNet {environment['mxnet']}",
        environment.get("python") and f"Python {environment['python']}",
    )
    return ", ".join(str(part) for part in parts if part)


def footer(run: Run) -> str:
    """The line under the figure: machine, commit, date, repeats, and what is not drawn."""
    rows = run.rows
    repeats = sorted({row.rate.repeats for row in rows if row.rate})
    n = f"n = {'-'.join(map(str, repeats))} repeats" if repeats else ""
    drawn = figure.drawable(rows)
    left = [row.trial.name for row in rows if row.rate and row not in drawn]
    failed = [row.trial.name for row in rows if row.rate is None]
    environment = run.environment
    parts = (
        machine(environment),
        environment.get("commit") and f"commit {environment['commit']}",
        str(environment.get("date", ""))[:10],
        n,
        "bars: 95 % intervals",
    )
    text = "; ".join(part for part in parts if part)
    more = "".join(
        f"\n{word}: {', '.join(names)}"
        for word, names in (("in the table only", left), ("failed", failed))
        if names
    )
    rehearsal = any(row.trial.engine == "fake" for row in rows)
    return ("REHEARSAL - scripted times, not measurements\n" if rehearsal else "") + text + more


def page(run: Run) -> str:
    """The report in Markdown."""
    facts = "\n".join(f"- {name}: {value}" for name, value in run.environment.items())
    return (
        f"# {run.name}\n\n{run.environment.get('description', '')}\n\n"
        f"{machine(run.environment)}\n\n{markdown(run.rows)}\n"
        f"![images per second, speed-up, efficiency and window times](scaling.svg)\n\n"
        f"## Environment\n\n{facts}\n"
    )


def build(run: Run) -> list[Path]:
    """Writes RUN/report/: results.csv, report.md, scaling.svg, scaling.png; returns their paths."""
    folder = run.folder / "report"
    try:
        folder.mkdir(exist_ok=True)
        write_whole(folder / "results.csv", frame(run.rows).to_csv(index=False))
        write_whole(folder / "report.md", page(run))
        title = f"{run.name}: {run.environment.get('description') or 'scaling'}"
        images = figure.save(figure.draw(run.rows, title, footer(run)), folder)
    except OSError as error:
        raise StoreError(f"{folder}: cannot be written ({error.strerror})") from error
    return [folder / "results.csv", folder / "report.md", *images]


def failed(rows: Sequence[ScalingRow]) -> list[ScalingRow]:
    """The points that have no number."""
    return [row for row in rows if row.status != "ok"]
