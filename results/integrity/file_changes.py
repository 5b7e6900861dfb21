"""Changes of a run's files since its report was built, named by file and line."""

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from results.integrity.digest import Digests, FileDigest, file_digest, pieces
from results.run_folder import REPORT

_MISSING = "missing; it was there when the report was built"
_ADDED = "added after the report was built"
_MOST_NAMED = 3
_MARK = 8
# Files without lines.
_BINARY = {".png", ".zip", ".parquet"}


def changes(folder: Path, was: Digests, now: Digests) -> Iterator[str]:
    """Yield a line per change of a file: 'records.jsonl line 5: modified'.

    Both must be detailed, or neither.
    """
    for place in sorted(was.folders.keys() | now.folders.keys()):
        yield from _folder_changes(place, was, now)
    before, found = {**was.files, **was.report}, {**now.files, **now.report}
    for name in sorted(before | found):
        if name not in found:
            yield f"{name}: {_MISSING}"
        elif name not in before:
            if not name.startswith(f"{REPORT}/"):
                yield f"{name}: {_ADDED}"
        elif (before[name].bytes, before[name].sha256) != (found[name].bytes, found[name].sha256):
            yield from _places(name, before[name], file_digest(folder / name, before[name].every))


def _folder_changes(place: str, was: Digests, now: Digests) -> Iterator[str]:
    """Yield the files of a folder of logs that differ; without one, the folder."""
    before, found = was.starts(place), now.starts(place)
    if was.folders.get(place) == now.folders.get(place) and before.keys() == found.keys():
        return
    names = [name for name in sorted(before | found) if before.get(name) != found.get(name)]
    for name in names:
        kind = _MISSING if name not in found else _ADDED if name not in before else "modified"
        yield f"{name}: {kind}"
    if not names and was.folders[place].sha256 != now.folders[place].sha256:
        yield f"{place}: a file in it was modified"


def _places(name: str, was: FileDigest, now: FileDigest) -> Iterator[str]:
    if Path(name).suffix in _BINARY:
        yield f"{name}: modified"
        return
    marks = [pieces(one.marks, _MARK) for one in (was, now)]
    places = [n for n, (a, b) in enumerate(zip_longest(*marks)) if a != b]
    if not places:
        yield f"{name}: recompressed; same lines"
    elif was.lines != now.lines:
        yield _of_other_length(name, was, now, places[0])
    else:
        for place in places[:_MOST_NAMED]:
            yield f"{name} {_changed_lines(place, was)}: modified"
        if len(places) > _MOST_NAMED:
            yield f"{name}: {len(places) - _MOST_NAMED} more lines modified"


def _of_other_length(name: str, was: FileDigest, now: FileDigest, place: int) -> str:
    count = f"{now.lines} lines now, {was.lines} when the report was built"
    if place * was.every >= was.lines:
        return f"{name}: lines added after line {was.lines}; {count}"
    if place * was.every >= now.lines:
        return f"{name}: truncated after line {now.lines}; {count}"
    return f"{name} {_changed_lines(place, was)}: modified; {count}"


def _changed_lines(place: int, was: FileDigest) -> str:
    first, last = place * was.every + 1, min((place + 1) * was.every, was.lines)
    return f"line {first}" if first >= last else f"lines {first} to {last}"
