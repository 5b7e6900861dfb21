"""Fuzzer of every parser of foreign bytes, with randomly mutated samples.

python -m tests.support.fuzz.fuzzer --seconds 60 [--seed N] [--parser NAME]

A parser may accept an input or reject it with an error class of mxscale. Any other exception, an
input that takes longer than SECONDS_EACH, and an error line of more than MOST_LETTERS are failures.
A failing input is kept as tests/seeds/PARSER-HASH, which the other tests read from then on.
"""

import argparse
import hashlib
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from bench.errors import SpecError
from im2rec_tools.errors import DataError
from launch.remote.errors import LaunchError
from results.errors import StoreError
from tests.support.fuzz.parsers import Parser, parsers
from tests.support.paths import SEEDS

KNOWN = (SpecError, DataError, LaunchError, StoreError)
SECONDS_EACH = 20
MOST_LETTERS = 3000
_MEMORY_BYTES = 3 << 30
_WORDS: tuple[bytes, ...] = (
    *(b"", b"\0", b"\xef\xbb\xbf", b"\xff\xfe", b"\xed\xa0\x80", b"\n", b"\r", b"\t", b" " * 3000),
    *(b"[" * 3000, b"{" * 3000, b"(" * 500, b'"' * 99, b"'", b"\\", b"../", b"/", b"\x1b[31m"),
    *(b"-1", b"0", b"1e308", b"1e-320", b"inf", b"nan", b"NaN", b"Infinity", b"-0.0", b"1_0"),
    *(b"9" * 400, b"9" * 5000, b"18446744073709551616", b"2147483648", b"0x" + b"f" * 5000),
    *("\u0663".encode(), "\u00b2".encode(), b"\\ud800", b"a" * 70_000, b"null", b"true", b"[]"),
    *(b"{}", b"=", b"=1+1", b"*", b"*" * 40, b"%s%n", b"$(id)", b"#", b",", b";", b"..", b"1..9"),
)
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 1.5, 10**20, 10**400, 1e308, 5e-324, float("inf")),
    *(float("nan"), "", "x", "x" * 5000, "\ud800", "\0", "../../x", [], {}, [[]], {"a": 1}, [1]),
)


class TooSlowError(Exception):
    """An input took too long."""


class TooLongError(Exception):
    """An error line is too long."""


def mutated(data: bytes, draw: random.Random) -> bytes:
    """Return the sample with one to four mutations."""
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        data = draw.choice(_CHANGES)(data, draw)
    return data[: 4 << 20]


def _flip(data: bytes, draw: random.Random) -> bytes:
    changed = bytearray(data or b"\0")
    for _ in range(draw.choice((1, 1, 3, 16))):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def _cut(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.randrange(len(data) + 1)]


def _drop(data: bytes, draw: random.Random) -> bytes:
    at, end = sorted(draw.randrange(len(data) + 1) for _ in range(2))
    return data[:at] + data[end:]


def _repeat(data: bytes, draw: random.Random) -> bytes:
    at, end = sorted(draw.randrange(len(data) + 1) for _ in range(2))
    return data[:end] + data[at : at + 2000] * draw.choice((1, 2, 50)) + data[end:]


def _insert(data: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data) + 1)
    return data[:at] + draw.choice(_WORDS) + data[at:]


def _number(data: bytes, draw: random.Random) -> bytes:
    """Replace four or eight bytes by another number, such as a length."""
    size, at = draw.choice((4, 8)), draw.randrange(len(data) + 1)
    numbers: tuple[int, ...] = (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 1)
    field = (draw.choice(numbers) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    return data[:at] + draw.choice((field, field[::-1])) + data[at + size :]


def _lines(data: bytes, draw: random.Random) -> bytes:
    lines = data.split(b"\n")
    at, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    match draw.randrange(4):
        case 0:
            del lines[at]
        case 1:
            lines[at], lines[other] = lines[other], lines[at]
        case 2:
            lines.insert(at, lines[other])
        case _:
            lines[at] = draw.choice(_WORDS)
    return b"\n".join(lines)


def _word(data: bytes, draw: random.Random) -> bytes:
    """Replace a word of a line by another."""
    lines = data.split(b"\n")
    at = draw.randrange(len(lines))
    words = lines[at].split(b" ")
    words[draw.randrange(len(words))] = draw.choice(_WORDS)
    lines[at] = b" ".join(words)
    return b"\n".join(lines)


def _json(data: bytes, draw: random.Random) -> bytes:
    """Change the type or the name of a JSON value in a line, or remove it."""
    lines = data.split(b"\n")
    at = draw.randrange(len(lines)) if len(lines) > 40 or draw.random() < 0.5 else -1
    text = data if at < 0 else lines[at]
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return _word(data, draw)
    made = json.dumps(_swapped(value, draw), indent=1 if at < 0 else None).encode()
    if at < 0:
        return made
    lines[at] = made
    return b"\n".join(lines)


def _swapped(value: Any, draw: random.Random) -> Any:
    if draw.random() < 0.15 or not value or not isinstance(value, dict | list):
        return draw.choice(_VALUES)
    if isinstance(value, list):
        at = draw.randrange(len(value))
        return [*value[:at], _swapped(value[at], draw), *value[at + 1 :]]
    name = draw.choice(list(value))
    if draw.random() < 0.1:
        return {one: said for one, said in value.items() if one != name}
    if draw.random() < 0.05:
        return value | {draw.choice(("", "x", "\ud800", "../x")): value[name]}
    return value | {name: _swapped(value[name], draw)}


_CHANGES = (
    *(_flip, _cut, _drop, _repeat, _insert, _number),
    *(_lines, _word, _word, _json, _json, _json),
)


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raise TooSlowError in the block after this much CPU time."""

    def end(signal_number: int, frame: FrameType | None) -> None:
        raise TooSlowError(f"more than {seconds} s of processor time")

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def tried(parser: Parser, data: bytes, folder: Path) -> None:
    """Run a parser; raise its unexpected exceptions.

    A parser that needs the folder empties it.
    """
    try:
        with limited(SECONDS_EACH), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parser.read(data, folder)
    except KNOWN as error:
        text = str(error).replace(str(folder), "")
        if len(text) > MOST_LETTERS:
            raise TooLongError(f"{len(text)} characters: {text[:80]}") from error
        text.encode("utf-8", "backslashreplace")


def kept(parser: Parser, data: bytes) -> Path:
    """Keep a failing input among the seeds."""
    SEEDS.mkdir(exist_ok=True)
    path = SEEDS / f"{parser.name}-{hashlib.sha256(data).hexdigest()[:8]}"
    path.write_bytes(data)
    return path


def run(chosen: list[Parser], seconds: float, seed: int, say: Callable[[str], None]) -> int:
    """Fuzz the parsers for this long; return the number of kinds of failures."""
    draw, end = random.Random(seed), time.monotonic() + seconds
    counts, kinds = Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="mxscale-fuzz-") as temporary:
        while time.monotonic() < end:
            parser = draw.choice(chosen)
            sample = draw.choice(parser.samples)
            for _ in range(parser.at_once):
                data = mutated(sample, draw)
                counts[parser.name] += 1
                try:
                    tried(parser, data, Path(temporary))
                except Exception as error:  # noqa: BLE001 - a finding
                    kind = f"{parser.name}: {type(error).__name__} {_where(error)}"
                    kinds[kind] += 1
                    if kinds[kind] == 1:
                        say(f"{kind}: {str(error)[:200]}\n  input: {kept(parser, data)}")
    say(f"seed {seed}: " + ", ".join(f"{name} {n}" for name, n in sorted(counts.items())))
    say(f"{sum(counts.values())} inputs, {len(kinds)} kinds of failures")
    return len(kinds)


def _where(error: Exception) -> str:
    """Return the innermost line of mxscale in the traceback."""
    ours = [one for one in traceback.extract_tb(error.__traceback__) if "/lib/" not in one.filename]
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "nowhere"


def main() -> None:
    """Parse the command line and fuzz; exit with 1 if anything failed."""
    known = argparse.ArgumentParser(
        "python -m tests.support.fuzz.fuzzer", description=__doc__.splitlines()[0]
    )
    known.add_argument(
        "--seconds", metavar="SECONDS", type=float, default=60.0, help="Time to run, in s [60]"
    )
    known.add_argument("--seed", metavar="N", type=int, help="Seed of the mutations [the time]")
    known.add_argument(
        "--parser", metavar="NAME", action="append", help="Parser to fuzz; repeatable [all]"
    )
    given = known.parse_args()
    # Suppresses what image decoders print about damaged images.
    sys.stderr = os.fdopen(os.dup(2), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, resource.RLIM_INFINITY))
    chosen = [one for one in parsers() if not given.parser or one.name in given.parser]
    if not chosen:
        names = ", ".join(one.name for one in parsers())
        known.error(f"--parser: expected {names}, got {', '.join(given.parser)}")
    seed = int(time.time()) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    sys.exit(run(chosen, given.seconds, seed, lambda line: print(line, flush=True)) > 0)


if __name__ == "__main__":
    main()
