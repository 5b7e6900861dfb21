"""Where the files of a run are not as they were when its report was built."""

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from results.digest import REPORT, Digests, File, file_of

_MOST_NAMED = 3
_MARK = 8
# Text in places that a person can go to.
_BINARY = {".png", ".zip", ".parquet"}


def changes(folder: Path, was: Digests, now: Digests) -> Iterator[str]:
    """What was changed, taken away or added, a line each: 'records.jsonl line 5: was changed'."""
    before, found = {**was.files, **was.report}, {**now.files, **now.report}
    for name in sorted(before | found):
        if name not in found:
            yield f"{name}: is not there any more"
        elif name not in before:
            if not name.startswith(f"{REPORT}/"):
                yield f"{name}: was not there when the report was built"
        elif (before[name].bytes, before[name].sha256) != (found[name].bytes, found[name].sha256):
            yield from _places(name, before[name], file_of(folder / name, before[name].every))


def _places(name: str, was: File, now: File) -> Iterator[str]:
    if Path(name).suffix in _BINARY:
        yield f"{name}: was changed"
        return
    places = [n for n, (a, b) in enumerate(zip_longest(_marks(was), _marks(now))) if a != b]
    if not places:
        yield f"{name}: was packed anew, its lines are the same"
    elif was.lines != now.lines:
        yield _of_other_length(name, was, now, places[0])
    else:
        for place in places[:_MOST_NAMED]:
            yield f"{name} {_lines(place, was)}: was changed"
        if len(places) > _MOST_NAMED:
            yield f"{name}: {len(places) - _MOST_NAMED} more lines were changed"


def _of_other_length(name: str, was: File, now: File, place: int) -> str:
    count = f"it has {now.lines} lines, {was.lines} when the report was built"
    if place * was.every >= was.lines:
        return f"{name}: grew after line {was.lines}; {count}"
    if place * was.every >= now.lines:
        return f"{name}: ends after line {now.lines}; {count}"
    return f"{name} {_lines(place, was)}: was changed; {count}"


def _lines(place: int, was: File) -> str:
    first, last = place * was.every + 1, min((place + 1) * was.every, was.lines)
    return f"line {first}" if first >= last else f"lines {first} to {last}"


def _marks(file: File) -> list[str]:
    return [file.marks[n : n + _MARK] for n in range(0, len(file.marks), _MARK)]
