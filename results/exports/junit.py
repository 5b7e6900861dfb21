"""JUnit XML: one test case per point, for CI servers."""

import math
from collections import Counter
from pathlib import Path

from junitparser import Attr, Failure, JUnitXml, Skipped, TestCase, TestSuite

from bench.notes import texts
from results.exports.point import ExportPoint, export_points, legible
from results.quality import Quality
from results.run import Run
from results.store import write_text

_NO_TIME = "1970-01-01T00:00:00"


class _Suite(TestSuite):  # type: ignore[misc]
    """A test suite with the additional attributes of Ant's strict schema."""

    id = Attr("id")
    package = Attr("package")


def write(run: Run, folder: Path) -> list[Path]:
    """Write RUN.junit.xml; return its path."""
    path = folder / f"{run.name}.junit.xml"
    write_text(path, text(run))
    return [path]


def text(run: Run) -> str:
    """Return the run as a test suite; points not measured yet are skipped.

    A point without a steady state has a result and passes; its output names the status.
    """
    suite = _Suite(legible(run.name))
    suite.id, suite.package = "0", legible(run.name)
    suite.timestamp = legible(str(run.environment.get("date", "")))[:19] or _NO_TIME
    # Local runs and imported runs have no host names.
    hosts = (host for row in run.rows for one in row.repeats for host in one.identity.hosts)
    suite.hostname = legible(next(hosts, "localhost"))
    points = export_points(run)
    for name, value in {
        "standing": ", ".join(dict.fromkeys(point.standing for point in points)),
        "commit": str(run.environment.get("commit", "")),
        "date": str(run.environment.get("date", "")),
        "quality": _qualities(run),
    }.items():
        if value:
            suite.add_property(name, legible(value))
    for point in points:
        suite.add_testcase(_case(point))
    for name in run.missing:
        case = TestCase(legible(name), "not measured yet", 0.0)
        case.result = [Skipped("not measured yet")]
        suite.add_testcase(case)
    document = JUnitXml()
    document.add_testsuite(suite)
    written: bytes = document.tostring()
    return f'<?xml version="1.0" encoding="utf-8"?>\n{written.decode()}\n'


def _qualities(run: Run) -> str:
    """Return 'publishable: 3, indicative: 9'; empty if no point has a quality."""
    count = Counter(row.quality for row in run.rows if row.quality)
    return ", ".join(f"{one}: {count[one]}" for one in Quality if count[one])


def _case(point: ExportPoint) -> TestCase:
    row = point.row
    name = point.name if point.standing == "measured" else f"{point.name} [{point.standing}]"
    seconds = point.figures.get("elapsed_seconds", math.nan)
    case = TestCase(legible(name), legible(row.trial.label), seconds if seconds >= 0 else None)
    if row.rate is None:
        kind = Skipped if row.status == "skipped" else Failure
        case.result = [kind(legible(row.message or row.status), row.status)]
    else:
        case.system_out = legible("\n".join(_output(point)))
    return case


def _output(point: ExportPoint) -> list[str]:
    row = point.row
    lines = [f"{name}: {value:.6g}" for name, value in point.figures.items()]
    lines.append(f"status: {row.status}; {point.standing}")
    if row.quality:
        reasons = "; ".join(texts(row.quality_notes))
        lines.append(f"quality: {row.quality}{f' ({reasons})' if reasons else ''}")
    lines += [row.note_text] if row.note_text else []
    return lines + ([f"source: {'; '.join(row.sources)}"] if row.sources else [])
