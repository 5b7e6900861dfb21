"""Throughput of this run over the overlaid run's, point by point."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from plots.tables.comparison import HEADER, cells, named_changes, remarks, verdict_counts
from results.comparison.compare import compare
from results.comparison.pairs import pair_rows, same_settings, same_size
from results.rates import Ratio
from results.run import Run


@dataclass(frozen=True, kw_only=True)
class RatioTable:
    """The points that both runs have: A is the overlaid run, B this one.

    rows     cells under `header`, and the place of the point among this run's rows
    counts   points by verdict
    remarks  runs, differences of conditions, noise model
    ratios   B / A by place
    """

    header: tuple[str, ...] = HEADER
    rows: tuple[tuple[tuple[str, ...], int], ...] = ()
    counts: str = ""
    remarks: tuple[str, ...] = ()
    ratios: Mapping[int, Ratio] = field(default_factory=dict)

    @property
    def places(self) -> dict[str, list[float | None]]:
        """The ratio and its interval by place, as the panel's script reads them."""
        return {str(place): [one.value, one.low, one.high] for place, one in self.ratios.items()}


def ratio_table(run: Run, over: Run) -> RatioTable:
    """Compare the run with `over`; empty if no point has a result in both.

    Points of equal settings are compared, or if there are none, those of equal network, mode and
    number of devices.
    """
    alike = (same_settings, same_size)
    key = next((one for one in alike if pair_rows(over.rows, run.rows, one)), None)
    if key is None:
        return RatioTable()
    found = compare(over, run, key)
    places = {id(row): place for place, row in enumerate(run.rows)}
    known = [(name, one, places[id(one.b)]) for name, one in named_changes(found) if one.ratio]
    return RatioTable(
        rows=tuple((cells(name, one), place) for name, one, place in known),
        counts=verdict_counts(found),
        remarks=tuple(remarks(found)),
        ratios={place: one.ratio for _, one, place in known if one.ratio},
    )
