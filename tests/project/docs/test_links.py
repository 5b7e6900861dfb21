"""Pages are short, and their links lead to files and headings that exist."""

import re
from pathlib import Path

import pytest

from tests.support.paths import ROOT

PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
PAGES = [path for path in PAGES if "runs" not in path.relative_to(ROOT).parts]
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as Markdown renderers make them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    found = set()
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.add(re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", plain).strip()))
    return found


def broken(page: Path) -> list[str]:
    """Return the broken links of a page."""
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    found = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        known = file.exists() and (not anchor or file.suffix != ".md" or anchor in anchors(file))
        found += [] if known else [target]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_pages_and_headings(page: Path) -> None:
    assert broken(page) == []


MOST_WORDS = 1000
GENERATED = {"cli.md", "notes.md", "sweep-file.md"}
WRITTEN = [path for path in PAGES if path.parent.parent.name == "docs"]


@pytest.mark.parametrize("page", WRITTEN, ids=lambda path: str(path.relative_to(ROOT)))
def test_written_pages_have_at_most_1000_words(page: Path) -> None:
    words = [one for one in page.read_text(encoding="utf-8").split() if re.search(r"\w", one)]
    assert len(words) <= MOST_WORDS or page.name in GENERATED
