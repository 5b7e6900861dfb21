"""A run with its report and digests, and files of prices."""

import tempfile
from functools import cache
from pathlib import Path

from plots.report import build
from results.cost.prices import Prices, load_prices
from results.integrity import digest
from results.run import load
from tasks.report import costs_of
from tests.support.runs.records import record
from tests.support.runs.stores import stored


def packed_run(folder: Path) -> Path:
    """Return a run with logs and a report; its content is made once per name."""
    for name, data in _files(folder.name).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


@cache
def _files(name: str) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as place:
        folder = _made(Path(place) / name)
        paths = [path for path in folder.rglob("*") if path.is_file()]
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def _made(folder: Path) -> Path:
    stored(folder, record([[1, 2.0, 2.1]]), record([[1, 1.2, 1.0]], devices=2))
    logs = folder / "logs" / "abc" / "0"
    logs.mkdir(parents=True)
    (logs / "worker-0.log").write_text("said\n")
    (logs / "worker-1.log.gz").write_bytes(b"\x1f\x8b")
    build(made := load(folder), costs_of(made, None))
    digest.write(folder, "code")
    return folder


def priced(folder: Path, text: str) -> Prices:
    (folder / "prices.toml").write_text(text)
    return load_prices(folder / "prices.toml")
