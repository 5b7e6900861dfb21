"""What points cost as columns of tables: images for a joule and for a unit of money."""

from collections.abc import Iterator, Sequence

from results.cost.cost import JOULE, Cost, Costs
from results.cost.energy import SOURCES
from results.scaling import ScalingRow

_MOST_NAMED = 3
Pair = tuple[ScalingRow, Cost]


def headers(costs: Costs) -> tuple[str, ...]:
    """'images/J', 'images/USD': columns of a table that some point has a value for."""
    return tuple(f"images/{unit}" for unit in costs.units)


def columns(costs: Costs) -> tuple[str, ...]:
    """The columns that results.csv has for them after its own; none where nothing is known."""
    names = ["joule" if unit == JOULE else unit for unit in costs.units]
    return (*(f"images_per_{name}" for name in names), "cost_reason") if names else ()


def values(row: ScalingRow, costs: Costs) -> tuple[float | str | None, ...]:
    """A point's values under `columns`, the last of them why one is missing."""
    if not costs.units:
        return ()
    found = [one.value if one else None for one in costs.found(row)]
    cost = costs.of(row)
    whys = [f"images/{unit}: {cost.why[unit]}" for unit in costs.units if unit in cost.why]
    return (*found, "; ".join(whys))


def remarks(rows: Sequence[ScalingRow], costs: Costs) -> list[str]:
    """What the columns stand on, why cells of theirs are empty, and why there is no such column.

    Nothing where nothing was asked, and nothing of what a rehearsal cannot know.
    """
    found = [(row, costs.of(row)) for row in rows]
    lines = [*_joules(found), *_money(costs)]
    for unit in costs.units:
        lines += [
            f"no images/{unit}: {why} ({_named(names, len(found))})."
            for why, names in _whys(found, unit).items()
        ]
    nothing = "; ".join(_nothing(found, costs))
    return [*lines, *([f"Not told: {nothing} (docs/cost.md)."] if nothing else [])]


def _joules(found: Sequence[Pair]) -> list[str]:
    kinds: dict[tuple[str, ...], list[str]] = {}
    for row, cost in found:
        if JOULE in cost.images:
            kinds.setdefault(cost.sources, []).append(row.trial.name)
    lines = []
    for sources, names in kinds.items():
        whose = f" ({_named(names, len(found))})" if len(kinds) > 1 else ""
        what = " and ".join(SOURCES[source] for source in sources)
        lines.append(
            f"images/J{whose}: for a joule of the hosts' {what}, idle ones included; of what else "
            f"uses power there and in the network nothing is counted."
        )
    return lines


def _money(costs: Costs) -> list[str]:
    return [
        f"images/{unit}: at what the point's hosts cost an hour by {costs.prices}."
        for unit in costs.units
        if unit != JOULE
    ]


def _whys(found: Sequence[Pair], unit: str) -> dict[str, list[str]]:
    """The points that do not know it, by the reason."""
    whys: dict[str, list[str]] = {}
    for row, cost in found:
        if unit in cost.why:
            whys.setdefault(cost.why[unit], []).append(row.trial.name)
    return whys


def _named(names: Sequence[str], count: int) -> str:
    if len(names) == count:
        return "all points"
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _nothing(found: Sequence[Pair], costs: Costs) -> Iterator[str]:
    """What no point knows, each with the first reason."""
    measured = [pair for pair in found if pair[0].trial.engine != "fake"]
    asked = dict.fromkeys(unit for _, cost in found for unit in cost.why)
    for unit in asked:
        whys = list(_whys(measured if unit == JOULE else found, unit))
        if whys and unit not in costs.units:
            more = f", and {len(whys) - 1} more" if len(whys) > 1 else ""
            yield f"images/{unit}: {whys[0]}{more}"
    if not costs.prices and any(cost.images or cost.why for _, cost in measured):
        yield "images for money: there is no prices.toml"
