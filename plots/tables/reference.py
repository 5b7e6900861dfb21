"""A published table as printed, with the speed-ups computed from it."""

from collections.abc import Callable

from rich.table import Table
from rich.text import Text

from im2rec_tools.console import Screen
from plots.format import format_speedup
from plots.tables.layout import terminal_table
from results.comparison.references import (
    Reference,
    differing_cells,
    read_table,
    reference,
    table_names,
)
from results.scaling import ScalingRow
from results.speedup import Scaling

# Returns the cell of a row.
_Cell = Callable[[ScalingRow], str]


def show(name: str) -> None:
    """Print the published table `name`; SpecError with the known names if unknown."""
    table, run = read_table(name), reference(name)
    console = Screen(soft_wrap=True)
    console.print(Text(f"{name}: {table.description}", style="bold"))
    about = (table.source, f"{table.instances}, {table.gpu}, {table.software}".rstrip(", "))
    for line in (*about, f"kvstore {table.kvstore}"):
        console.print(Text(line))
    console.print(_sizes(table))
    printed = table.images_per_second
    tables = {
        "throughput (images/s), as printed": lambda row: repr(
            printed[row.trial.label][row.trial.layout.devices]
        ),
        "speed-up (efficiency) vs 1 GPU": lambda row: _speedup(row.device),
        f"speed-up (efficiency) vs 1 host of {table.devices_per_host} GPUs": lambda row: _speedup(
            row.host
        ),
    }
    for title, cell in tables.items():
        console.print(_grid(title, table, run.rows, cell))
    for line in [*table.notes, *_differences(name)]:
        console.print(Text(f"- {line}"))


def _speedup(against: Scaling | None) -> str:
    if against is None:
        return ""
    times = format_speedup(against.speedup)
    return f"{times} ({100 * against.efficiency.value:.1f} %)"


def _sizes(table: Reference) -> Table:
    found = terminal_table(("", *table.images_per_second), title="", no_wrap=True)
    for name, values in (
        ("batch size per GPU", table.batch_per_device),
        ("model size (MB)", table.model_megabytes),
    ):
        found.add_row(name, *(str(values[network]) for network in table.images_per_second))
    return found


def _grid(title: str, table: Reference, rows: list[ScalingRow], cell: _Cell) -> Table:
    """Return the table: a row per GPU count, a column per network, no empty rows."""
    found = terminal_table(("GPUs", *table.images_per_second), title=title, no_wrap=True)
    for devices in sorted({row.trial.layout.devices for row in rows}):
        line = [cell(row) for row in rows if row.trial.layout.devices == devices]
        if any(line):
            found.add_row(str(devices), *line)
    return found


def _differences(name: str) -> list[str]:
    """Return cells that differ in other published tables, with their speed-ups."""
    own = read_table(name)
    found = []
    for other in (read_table(one) for one in table_names() if one != name):
        for network, devices in differing_cells(own, other):
            here, there = (one.images_per_second[network] for one in (own, other))
            most = max(here)
            found.append(
                f"{other.name} differs in {network} on {devices} GPU{'s' * (devices > 1)}: "
                f"{there[devices]!r}, here {here[devices]!r}; its speed-up on {most} GPUs is "
                f"{there[most] / there[1]:.1f}, here {here[most] / here[1]:.1f}"
            )
    return found
