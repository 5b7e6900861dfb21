"""Prometheus: gauges in a text file for the collector of a node exporter."""

import re
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from results.exports.point import export_points, legible
from results.run import Run
from results.store import write_text

_PLAIN = {
    "images_per_second": "Images trained or read a second by the whole job",
    "bytes_per_second": "Bytes moved a second by the whole job",
    "rate_low": "Lower end of the rate's 95 % interval",
    "rate_high": "Upper end of the rate's 95 % interval",
    "repeats": "Repeats in fresh processes behind the rate",
    "windows": "Windows behind the rate",
    "assumed_scatter": "Standard deviation between processes that the intervals of n = 1 assume",
    "validation_accuracy": "Mean accuracy of the last validations",
    "elapsed_seconds": "Seconds that all repeats of the point took",
    "peak_memory_bytes": "Memory of the rank that used most",
}
# A gauge stands alone, without the columns beside it.
_ENDS = {"low": "rate_low", "high": "rate_high"}
_BASED = {
    "speedup": "Rate over that of a base: device, host, worker or baseline",
    "efficiency": "Speed-up over what the base would reach on as many devices",
    "efficiency_low": "Lower end of the efficiency's 95 % interval",
    "efficiency_high": "Upper end of the efficiency's 95 % interval",
}
# efficiency_host_low is the gauge efficiency_low of the base host.
_FIGURE = re.compile(r"(speedup|efficiency)_([a-z]+?)(_low|_high)?")


def write(run: Run, folder: Path) -> list[Path]:
    """Writes RUN.prom; its path."""
    path = folder / f"{run.name}.prom"
    write_text(path, text(run))
    return [path]


def text(run: Run) -> str:
    """The gauges of a run; what a point does not have is left out."""
    registry = CollectorRegistry()
    points = export_points(run)
    common = ("run", "point", "standing", *(points[0].labels if points else ()))
    gauges = {
        name: Gauge(f"mxscale_{name}", told, (*common, *base), registry=registry)
        for base, texts in (((), _PLAIN), (("base",), _BASED))
        for name, told in texts.items()
    }
    ok = Gauge("mxscale_point_ok", "1 where the point has a rate", common, registry=registry)
    missing = Gauge(
        "mxscale_points_missing", "Points not measured yet", ("run",), registry=registry
    )
    name = legible(run.name)
    missing.labels(run=name).set(len(run.missing))
    for point in points:
        plain = {"point": point.name, "standing": point.standing, **point.labels}
        labels = {"run": name, **{key: legible(value) for key, value in plain.items()}}
        ok.labels(**labels).set(point.row.rate is not None)
        for figure, value in point.figures.items():
            if found := _FIGURE.fullmatch(figure):
                kind, base, end = found.groups("")
                gauges[f"{kind}{end}"].labels(**labels, base=base).set(value)
            else:
                gauges[_ENDS.get(figure, figure)].labels(**labels).set(value)
    written: bytes = generate_latest(registry)
    return written.decode()
