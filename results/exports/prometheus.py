"""Prometheus: gauges in a text file for the node exporter's textfile collector."""

import re
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from results.exports.point import export_points, legible
from results.run import Run
from results.store import write_text

_PLAIN = {
    "images_per_second": "Images per second, trained or read by the whole job",
    "bytes_per_second": "Bytes per second, moved by the whole job",
    "rate_low": "Lower end of the throughput's 95 % CI",
    "rate_high": "Upper end of the throughput's 95 % CI",
    "repeats": "Repeats in separate processes that the throughput is from",
    "windows": "Windows that the throughput is from",
    "assumed_scatter": "Assumed run-to-run standard deviation of CIs with n = 1",
    "validation_accuracy": "Mean accuracy of the last validations",
    "seconds_to_accuracy": "Mean seconds to the stop accuracy of the repeats that reached it",
    "epochs_to_accuracy": "Mean epochs to the stop accuracy of the repeats that reached it",
    "elapsed_seconds": "Duration of all repeats of the point, in seconds",
    "peak_memory_bytes": "Largest memory use of a rank, in bytes",
    "peak_device_memory_bytes": "Largest memory use of a GPU, in bytes",
    "gpu_utilization": "Mean share of the measured time in which the GPUs were busy",
    "gpu_temperature": "Highest temperature of a GPU, in degrees Celsius",
    "gpu_clock": "Lowest SM clock of a GPU, as a share of its maximum",
}
# A gauge's name must be clear alone, without neighboring columns.
_ENDS = {"low": "rate_low", "high": "rate_high"}
_BASED = {
    "speedup": "Throughput relative to a baseline: device, host, worker or baseline",
    "efficiency": "Speed-up relative to ideal scaling of the baseline",
    "efficiency_low": "Lower end of the efficiency's 95 % CI",
    "efficiency_high": "Upper end of the efficiency's 95 % CI",
}
# efficiency_host_low is the gauge efficiency_low of the base host.
_FIGURE = re.compile(r"(speedup|efficiency)_([a-z]+?)(_low|_high)?")


def write(run: Run, folder: Path) -> list[Path]:
    """Write RUN.prom; return its path."""
    path = folder / f"{run.name}.prom"
    write_text(path, text(run))
    return [path]


def text(run: Run) -> str:
    """Return the gauges of a run; values that a point does not have are omitted."""
    registry = CollectorRegistry()
    points = export_points(run)
    common = ("run", "point", "standing", *(points[0].labels if points else ()))
    gauges = {
        name: Gauge(f"mxscale_{name}", title, (*common, *base), registry=registry)
        for base, texts in (((), _PLAIN), (("base",), _BASED))
        for name, title in texts.items()
    }
    ok = Gauge("mxscale_point_ok", "1 if the point has a result", common, registry=registry)
    quality = Gauge(
        "mxscale_point_quality",
        "1 for the quality of a point, by its label",
        (*common, "quality"),
        registry=registry,
    )
    missing = Gauge(
        "mxscale_points_missing", "Points not measured yet", ("run",), registry=registry
    )
    name = legible(run.name)
    missing.labels(run=name).set(len(run.missing))
    for point in points:
        plain = {"point": point.name, "standing": point.standing, **point.labels}
        labels = {"run": name, **{key: legible(value) for key, value in plain.items()}}
        ok.labels(**labels).set(point.row.rate is not None)
        if point.row.quality:
            quality.labels(**labels, quality=str(point.row.quality)).set(1)
        for figure, value in point.figures.items():
            if found := _FIGURE.fullmatch(figure):
                kind, base, end = found.groups("")
                gauges[f"{kind}{end}"].labels(**labels, base=base).set(value)
            else:
                gauges[_ENDS.get(figure, figure)].labels(**labels).set(value)
    written: bytes = generate_latest(registry)
    return written.decode()
