"""Images per joule and per unit of currency of a point. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from results.cost.energy import power
from results.cost.prices import Prices, hardware_of
from results.rates import Rate, Ratio, pool_repeats
from results.repeat import RepeatSummary
from results.scaling import ScalingRow

JOULE = "J"
_NO_IMAGES = "a bandwidth point trains no images"
_NO_HOSTS = "hosts unknown"


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Cost of one point, by unit: 'J' and the currency.

    images      images per unit, with the 95 % CI if known
    why         reason if not available; empty if the point has no result
    sources     sources of the energy: names in results/cost/energy.py
    """

    images: Mapping[str, Ratio] = field(default_factory=dict)
    why: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Costs of the points of a run, by trial key.

    units       units available for at least one point, joules first
    prices      name of the price file, '' without one
    """

    by_key: Mapping[str, Cost] = field(default_factory=dict)
    units: tuple[str, ...] = ()
    prices: str = ""

    def of(self, row: ScalingRow) -> Cost:
        """Return the cost of a row, empty if none was computed."""
        return self.by_key.get(row.trial.key, Cost())

    def found(self, row: ScalingRow) -> list[Ratio | None]:
        """Return a row's images per unit, in the order of `units`."""
        return [self.of(row).images.get(unit) for unit in self.units]


NO_COSTS = Costs()


def costs(
    rows: Sequence[ScalingRow], prices: Prices | None, environment: Mapping[str, Any]
) -> Costs:
    """Return the costs of all points; environment: the run's facts."""
    found = {row.trial.key: cost(row, prices, environment) for row in rows}
    units = (JOULE, prices.currency) if prices else (JOULE,)
    known = [unit for unit in units if any(unit in one.images for one in found.values())]
    return Costs(by_key=found, units=tuple(known), prices=prices.name if prices else "")


def cost(row: ScalingRow, prices: Prices | None, environment: Mapping[str, Any]) -> Cost:
    """Return the cost of one point; empty if it has no result."""
    if row.rate is None:
        return Cost()
    images: dict[str, Ratio | str] = {}
    watts, sources = _watts(row.repeats)
    images[JOULE] = watts if isinstance(watts, str) else _per_joule(row.repeats, watts)
    if prices:
        images[prices.currency] = _per_money(row, row.rate, prices, environment)
    if row.trial.mode == "bandwidth":
        images = dict.fromkeys(images, _NO_IMAGES)
    return Cost(
        images={unit: found for unit, found in images.items() if isinstance(found, Ratio)},
        why={unit: found for unit, found in images.items() if isinstance(found, str)},
        sources=sources if isinstance(images[JOULE], Ratio) else (),
    )


def _watts(repeats: Sequence[RepeatSummary]) -> tuple[list[float] | str, tuple[str, ...]]:
    """Return watts per repeat and the sources common to all; or the reason."""
    found = []
    for one in repeats:
        watts = power(one)
        if isinstance(watts, str):
            return watts, ()
        found.append(watts)
    sources = tuple(name for name in found[0] if all(name in watts for watts in found))
    return [sum(watts[name] for name in sources) for watts in found], sources


def _per_joule(repeats: Sequence[RepeatSummary], watts: Sequence[float]) -> Ratio:
    """Return images per joule: the throughput with joules in place of seconds."""
    parts = [
        replace(one.samples, each=tuple((t * used, n) for t, n in one.samples.each))
        for one, used in zip(repeats, watts, strict=True)
        if one.samples
    ]
    return pool_repeats(parts).ratio


def _per_money(
    row: ScalingRow, rate: Rate, prices: Prices, environment: Mapping[str, Any]
) -> Ratio | str:
    hosts, total = row.repeats[-1].identity.hosts, 0.0
    for host in hosts:
        hardware = hardware_of(environment, host)
        per_hour = prices.per_hour(hardware)
        if per_hour is None:
            return f"no price in {prices.name} matches {hardware.described}"

        total += per_hour
    return rate.ratio.times(3600 / total) if hosts else _NO_HOSTS
