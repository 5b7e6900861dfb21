"""A badge: one point as a line of Markdown and a picture."""

import re
from pathlib import Path
from urllib.parse import quote

from anybadge import Badge

from im2rec_tools.terminal import one_line
from results.exports.point import ExportPoint, legible, training_points
from results.run import Run
from results.store import write_text

_MEASURED, _DOUBTFUL = "#0072B2", "#9f6000"


def write(run: Run, folder: Path) -> list[Path]:
    """Writes RUN.badge.svg and RUN.badge.md; nothing where no training point has a number."""
    point = headline(training_points(run))
    if point is None:
        return []
    picture, line = (folder / f"{run.name}.badge.{kind}" for kind in ("svg", "md"))
    name, number = label(point), said(point)
    badge = Badge(
        legible(name),
        number,
        default_color=_MEASURED if point.standing == "measured" else _DOUBTFUL,
    )
    write_text(picture, f"{badge.badge_svg_text.strip()}\n")
    text = one_line(f"{legible(name)}: {number}")
    alone = re.sub(r"([\\\[\]<>*_`&|~$])", r"\\\1", text)
    write_text(line, f"![{alone}]({quote(picture.name)})\n")
    return [picture, line]


def headline(points: list[ExportPoint]) -> ExportPoint | None:
    """Of points that trained, the one with the most devices; of several, with the lowest rate."""
    return min(
        points,
        key=lambda point: (-point.row.trial.layout.devices, point.figures["images_per_second"]),
        default=None,
    )


def label(point: ExportPoint) -> str:
    """The left half of the badge."""
    trial = point.row.trial
    name = f"{trial.label} x{trial.layout.devices}"
    return name if point.standing == "measured" else f"{point.standing.upper()}: {name}"


def said(point: ExportPoint) -> str:
    """The right half: the rate, and how far it is from as many times one device, or one host.

    '312 images/s, 87 % [84, 90] of ideal' with the 95 % interval, if that is known.
    """
    figures = point.figures
    rate = figures["images_per_second"]
    text = f"{rate:.0f} images/s" if rate >= 100 else f"{rate:.3g} images/s"
    for base, of in (("device", "of ideal"), ("host", "of ideal from one host")):
        names = (f"efficiency_{base}{end}" for end in ("", "_low", "_high"))
        if told := [f"{100 * figures[name]:.0f}" for name in names if name in figures]:
            ends = f" [{', '.join(told[1:])}]" if len(told) == 3 else ""
            return f"{text}, {told[0]} %{ends} {of}"
    return text
