"""Tiles of the page: each network's result on the most devices."""

from collections.abc import Sequence
from dataclasses import dataclass

from plots.figures.model import TRAINING, network_label
from plots.format import format_percent, format_rate, is_uninformative, status_text
from plots.summary import device_noun, is_compared, largest_points, size
from plots.tables.explanation import VERDICT_WORDS
from results.record import grouped
from results.scaling import ScalingRow


@dataclass(frozen=True, kw_only=True)
class Tile:
    """A network's result in words; texts are empty if there is none.

    devices     '256 GPUs'
    throughput  images/s with its 95 % CI
    efficiency  relative to the baseline that figures use, with its 95 % CI
    quality     of the point; empty for simulations
    verdict     what bounds the point, in two words
    problem     why the network has no usable result
    marked      whether the point has caveats
    """

    network: str
    devices: str = ""
    kvstore: str = ""
    throughput: str = ""
    efficiency: str = ""
    quality: str = ""
    verdict: str = ""
    problem: str = ""
    marked: bool = False


def tiles(rows: Sequence[ScalingRow]) -> list[Tile]:
    """Return a tile for each network that trains, in the order of the rows."""
    trained = [row for row in rows if row.trial.mode in TRAINING]
    tops = {network_label(row): row for row in largest_points(trained)}
    networks = grouped((network_label(row), row) for row in trained)
    return [_tile(name, tops.get(name) or _alone(some), some) for name, some in networks.items()]


def _alone(rows: Sequence[ScalingRow]) -> ScalingRow | None:
    """Return the largest usable point of a network that no figure has."""
    usable = [row for row in rows if row.rate and not row.emulated]
    known = [row for row in usable if row.rate and not is_uninformative(row.rate.ratio)]
    return max(known, key=size, default=None)


def _tile(network: str, row: ScalingRow | None, rows: Sequence[ScalingRow]) -> Tile:
    if row is None or row.rate is None:
        return Tile(network=network, problem=_problem(rows))
    layout, scaling = row.trial.layout, row.shown_scaling
    return Tile(
        network=network,
        devices=f"{layout.devices} {device_noun([row], layout.devices)}",
        kvstore=layout.kvstore,
        throughput=format_rate(row.rate),
        efficiency=format_percent(scaling.efficiency) if scaling and is_compared(row) else "",
        quality=row.quality or "",
        verdict=VERDICT_WORDS[row.verdict.cause] if row.verdict else "",
        marked=row.has_caveats,
    )


def _problem(rows: Sequence[ScalingRow]) -> str:
    """Return why no point of a network is usable, in a few words."""
    if all(row.rate is None for row in rows):
        return f"no result: {', '.join(dict.fromkeys(status_text(row.status) for row in rows))}"
    emulated = all(row.emulated for row in rows if row.rate)
    return "oversubscribed only" if emulated else "too uncertain to use"
