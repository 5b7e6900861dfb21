"""Output of `bench.doctor`: a machine, its parts, and what limits a sweep."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from im2rec_tools.console import cell
from plots.format import significant
from plots.tables.layout import terminal_table
from results.explain.machine_limits import (
    WINDOWS,
    Limit,
    MachineFigures,
    MachineLimit,
    NetworkFigures,
    largest_batch,
)
from results.explain.verdict import LEAST_SHARE
from results.host_facts import HOST_FACTS

_SHOWN = frozenset({"processor", "cores", "memory_mib", "gpus", "mxnet", "opencv", "python"})
# Broken where the table is as wide as a terminal of 80 columns.
_COLUMNS = (
    *("network", "batch", "images/s", "step\n(s)"),
    *("exchange\n(s)", "share", "memory\n(MiB)", "max.\nbatch"),
)
_MIB = 1 << 20
# More windows than this are no remedy for noise.
_MOST_WINDOWS = 200


def machine_lines(facts: Mapping[str, Any]) -> list[str]:
    """Return the line of a host's processor, memory and builds, if known."""
    texts = [
        f"{fact.label} {fact.text(facts[fact.name])}{f' {fact.unit}' if fact.unit else ''}"
        for fact in HOST_FACTS
        if fact.name in _SHOWN and fact.text and facts.get(fact.name)
    ]
    return [f"machine: {', '.join(texts)}"] if texts else []


def part_lines(machine: MachineFigures) -> list[str]:
    """Return a line for each measured part of a machine, and for each that is not."""
    lines = []
    if machine.clock is None:
        lines.append("clock: not available (common on virtual machines)")
    else:
        lines.append(f"clock: up to {machine.clock:.2f} GHz while measuring")
    if machine.half_width is None or machine.scatter is None:
        lines.append("noise: not measured (only on this machine, without hosts)")
    else:
        lines.append(
            f"noise: equal work on one core differs by {_percent(machine.scatter, 1)} "
            f"(standard deviation, n = {machine.noise_windows}); expected 95 % CI of a point of "
            f"{WINDOWS} windows: ±{_percent(machine.half_width, 1)}"
        )
    if machine.input_images_per_second is None:
        lines.append(
            "input pipeline: not measured (no shards). Give --data DATA, or make some with "
            "'fab demo' or fab data.prepare"
        )
    else:
        lines.append(
            f"input pipeline: {significant(machine.input_images_per_second)} images/s with "
            f"{machine.input_threads} decoding threads"
        )
    if machine.raw_mb_per_second is not None:
        lines.append(f"one raw TCP connection: {machine.raw_mb_per_second:.0f} MB/s")
    return lines


def network_table(networks: Sequence[NetworkFigures], machine: MachineFigures) -> Table:
    """Return the table of the networks' parts."""
    table = terminal_table(_COLUMNS, {"network"})
    for one in networks:
        share, memory, most = one.exchange_share, one.memory, largest_batch(one, machine)
        texts = (
            one.use.name,
            str(one.use.batch),
            _number(one.images_per_second),
            _number(one.step_seconds),
            _number(one.exchange_seconds),
            "-" if share is None else f"≤ {_percent(share)}",
            "-" if memory is None else f"{memory / _MIB:.0f}",
            "-" if most is None else f"{float(f'{most:.2g}'):.0f}",
        )
        table.add_row(*map(cell, texts))
    return table


def _percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"


def _number(value: float | None) -> str:
    return "-" if value is None else significant(value)


def finding_lines(found: Sequence[MachineLimit]) -> list[str]:
    """Return what limits the sweep, a line each with the setting to change."""
    if not found:
        return [f"limits: none found above {_percent(LEAST_SHARE)} of a step; computing decides"]
    lines = [f"  {one.limit}: {_sentence(one)}" for one in found]
    return ["limits:", *lines]


def _sentence(one: MachineLimit) -> str:
    name, value = one.network, one.figures
    match one.limit:
        case Limit.CORES:
            return (
                f"{name}: {value['workers']:.0f} workers and {value['servers']:.0f} servers share "
                f"{value['cores']:.0f} cores. Use fewer devices per host, or hosts for the servers "
                "(server_hosts)"
            )
        case Limit.INPUT:
            return (
                f"{name}: real data needs {significant(value['wanted'])} images/s, the input "
                f"pipeline gives {significant(value['available'])}: enough for "
                f"{value['devices']:.0f} devices. Pack smaller images (data.prepare --short-edge), "
                "or add cores"
            )
        case Limit.LINK:
            return (
                f"{_exchange(one)}, at the speed of raw TCP. Use a larger batch_per_device, "
                "gc_type = '2bit', or a faster network (--interface)"
            )
        case Limit.SERVER:
            return (
                f"{_exchange(one)}, slower than raw TCP. Use a larger batch_per_device, or more "
                "servers on other cores (servers_per_host, server_hosts)"
            )
        case Limit.MEMORY:
            return (
                f"{name}: the processes need {value['wanted'] / _MIB:.0f} MiB of "
                f"{value['available'] / _MIB:.0f} MiB of free memory. Use a smaller "
                "batch_per_device"
            )
        case Limit.NOISE:
            windows = value["windows"]
            more = f", or use about {windows:.0f} windows" if windows <= _MOST_WINDOWS else ""
            return (
                f"a point of {WINDOWS} windows has a 95 % CI of "
                f"±{_percent(value['half_width'], 1)}; the sweep wants "
                f"±{_percent(value['precision'], 1)}. Stop other programs{more}"
            )


def _exchange(one: MachineLimit) -> str:
    value = one.figures
    exchange, step = (significant(value[name]) for name in ("exchange_seconds", "step_seconds"))
    return (
        f"{one.network}: pushing and pulling all arrays takes {exchange} s, computing a step {step}"
        f" s; the exchange takes up to {_percent(value['share'])} of a step"
    )
