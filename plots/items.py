"""Lists of a report: sentences with nested parts, for a terminal and for Markdown."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from textwrap import wrap

from plots.format import in_line


@dataclass(frozen=True)
class Item:
    """A sentence, or a heading without its colon and the parts below it.

    caveat  whether it limits what the results show
    """

    text: str
    parts: tuple[str, ...] = ()
    caveat: bool = False


def one_sentence(item: Item) -> str:
    """Return the item in one line, such as 'Caveats: n = 1; no steady state.'."""
    return f"{item.text}: {'; '.join(item.parts).rstrip('.')}." if item.parts else item.text


def shortened(item: Item, most: int) -> Item:
    """Return the item with its first parts and the number of the others."""
    more = len(item.parts) - most
    return replace(item, parts=(*item.parts[:most], f"{more} more")) if more > 0 else item


def plain_lines(items: Iterable[Item], width: int | None = None, indent: str = "") -> list[str]:
    """Return the items as lines; several parts have a line each, indented.

    `width` folds longer lines; None does not fold. `indent` begins every line.
    """
    return [
        line
        for item in items
        for text, more in _indented(item)
        for line in _folded(text, f"{indent}{more}", width)
    ]


def _indented(item: Item) -> Iterator[tuple[str, str]]:
    if len(item.parts) < 2:
        yield one_sentence(item), ""
        return
    yield f"{item.text}:", ""
    for part in item.parts:
        yield f"- {part}", "  "


def _folded(text: str, indent: str, width: int | None) -> list[str]:
    if width is None or len(indent) + len(text) <= width:
        return [f"{indent}{text}"]
    return wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def markdown_list(items: Iterable[Item]) -> str:
    """Return the items as a list in Markdown; several parts become a nested list."""
    lines = []
    for item in items:
        if len(item.parts) < 2:
            lines.append(f"- {in_line(one_sentence(item))}")
        else:
            lines += [f"- {in_line(item.text)}:", *(f"  - {in_line(one)}" for one in item.parts)]
    return "\n".join(lines)
