"""The reference of settings in docs/settings.md, made from their declaration.

    python -m bench.settings.reference [FILE]

Writes the table between the markers of the page anew.
"""

import sys
from dataclasses import MISSING
from pathlib import Path

from bench.settings.declaration import Field
from bench.trial import FIELDS

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
BEGIN, END = "<!-- settings -->\n", "<!-- end of settings -->\n"


def table() -> str:
    """All settings by stored name, one row each."""
    head = "| setting | part | default | limits | worker's option | role | meaning |\n"
    return head + "|---" * 7 + "|\n" + "".join(map(_row, FIELDS.values()))


def _row(field: Field) -> str:
    known = field.setting
    cells = (
        f"`{field.name}`",
        field.part or "point",
        _default(field),
        _limits(field),
        f"`{known.flag}`" if known.flag else "",
        known.role.value,
        known.help.replace("|", "\\|"),
    )
    return f"| {' | '.join(cells)} |\n"


def _default(field: Field) -> str:
    if field.default is MISSING:
        return "see above"
    value = field.default
    text = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return f"`{text.lower() if isinstance(value, bool) else text}`" if text else "none"


def _limits(field: Field) -> str:
    known = field.setting
    limits = [
        f"{sign} {limit:,}"
        for sign, limit in (("≥", known.least), ("<", known.below), ("≤", known.most))
        if limit is not None
    ]
    return ", ".join(limits) or " ".join(f"`{one}`" for one in known.choices)


def renewed(page: str) -> str:
    """The page with the table as it is now."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


if __name__ == "__main__":
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    path.write_text(renewed(path.read_text(encoding="utf-8")), encoding="utf-8")
