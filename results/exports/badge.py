"""Badge of one point: an SVG image and a line of Markdown."""

import re
from pathlib import Path
from urllib.parse import quote

from anybadge import Badge

from im2rec_tools.terminal import one_line
from results.exports.point import ExportPoint, legible, training_points
from results.run import Run
from results.store import write_text

_MEASURED, _CAVEAT = "#0072B2", "#9f6000"


def write(run: Run, folder: Path) -> list[Path]:
    """Write RUN.badge.svg and RUN.badge.md; nothing if no training point has a result."""
    point = headline(training_points(run))
    if point is None:
        return []
    picture, line = (folder / f"{run.name}.badge.{kind}" for kind in ("svg", "md"))
    name, number = label(point), value_text(point)
    badge = Badge(
        legible(name),
        number,
        default_color=_MEASURED if point.standing == "measured" else _CAVEAT,
    )
    write_text(picture, f"{badge.badge_svg_text.strip()}\n")
    text = one_line(f"{legible(name)}: {number}")
    alone = re.sub(r"([\\\[\]<>*_`&|~$])", r"\\\1", text)
    write_text(line, f"![{alone}]({quote(picture.name)})\n")
    return [picture, line]


def headline(points: list[ExportPoint]) -> ExportPoint | None:
    """Return the point with the most devices; of several, the slowest.

    Points too uncertain to use come last.
    """
    return min(
        points,
        key=lambda point: (
            point.row.rate is not None and point.row.rate.ratio.is_uninformative,
            -point.row.trial.layout.devices,
            point.figures["images_per_second"],
        ),
        default=None,
    )


def label(point: ExportPoint) -> str:
    """Return the left half of the badge: network and devices."""
    trial = point.row.trial
    name = f"{trial.label} x{trial.layout.devices}"
    return name if point.standing == "measured" else f"{point.standing.upper()}: {name}"


def value_text(point: ExportPoint) -> str:
    """Return the right half: throughput, efficiency vs one device (else one host).

    '312 images/s, 87 % [84, 90] of ideal'; the brackets hold the 95 % CI, if known.
    """
    figures = point.figures
    rate = figures["images_per_second"]
    text = f"{rate:.0f} images/s" if rate >= 100 else f"{rate:.3g} images/s"
    for base, of in (("device", "of ideal"), ("host", "of ideal vs 1 host")):
        names = (f"efficiency_{base}{end}" for end in ("", "_low", "_high"))
        if known := [f"{100 * figures[name]:.0f}" for name in names if name in figures]:
            ends = f" [{', '.join(known[1:])}]" if len(known) == 3 else ""
            return f"{text}, {known[0]} %{ends} {of}"

    return text
