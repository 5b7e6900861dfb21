"""Upstream benchmark.py's two-column CSV: a file a line of the figure."""

from collections.abc import Sequence

from plots.lines import lines
from plots.sheet import sheet
from results.scaling import ScalingRow

_HEADER = ("num_gpus", "img_processed_per_sec")


def tables(rows: Sequence[ScalingRow]) -> dict[str, str]:
    """CSV texts by file name: 'alexnet.csv', 'alexnet-dist_sync.csv' where stores overlap.

    A point without a number has no row; upstream wrote 0.0.
    """
    return {f"{_file_name(line.end)}.csv": _table(line.rows) for line in lines(rows)}


def _file_name(text: str) -> str:
    kept = "".join(letter if letter.isalnum() or letter in "-_+." else " " for letter in text)
    return "-".join(kept.split())


def _table(rows: Sequence[ScalingRow]) -> str:
    found = ((r.trial.devices, r.rate.images_per_second) for r in rows if r.rate)
    return sheet([_HEADER, *found])
