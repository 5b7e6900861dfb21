"""The disk below shards: what is read, how cold it is, and what cannot be read."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.data import disk, page_cache
from bench.errors import SpecError
from tests.support.data.shards import write
from tests.support.paths import ROOT


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """Make two shards of 20 records of 100 kB."""
    for name in ("a", "b"):
        write(tmp_path / f"{name}.rec", [bytes([n]) * 100_000 for n in range(20)])
    return tmp_path


def test_all_is_read_from_a_cold_cache_in_order_and_at_random(shards: Path) -> None:
    found = disk.measure(str(shards))
    size = sum(path.stat().st_size for path in shards.glob("*.rec"))
    assert (found.data_bytes, found.data_images) == (size, 40)
    assert (found.ordered_bytes, found.random_bytes, found.random_images) == (size, size, 40)
    assert found.cached == 0
    assert min(found.ordered_seconds, found.random_seconds) > 0


def test_reading_ends_when_the_time_is_over(shards: Path) -> None:
    found = disk.measure(str(shards), seconds=0)
    assert (found.ordered_bytes, found.random_images, found.data_images) == (0, 0, 40)


def test_data_that_stay_in_memory_are_reported_so(
    shards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_cache, "drop", lambda _: None)
    assert disk.measure(str(shards)).cached == 1
    monkeypatch.setattr(page_cache, "residency", lambda _: None)
    assert disk.measure(str(shards)).cached is None


def test_a_damaged_or_missing_shard_is_one_line(shards: Path) -> None:
    rec = shards / "a.rec"
    data = bytearray(rec.read_bytes())
    data[100_008:100_012] = b"\0\0\0\0"  # the magic of the second record
    rec.write_bytes(data)
    with pytest.raises(SpecError, match=r"a\.rec: damaged at byte 100008; expected a record"):
        disk.measure(str(shards))
    command = [sys.executable, "-m", "bench.data.disk", str(shards / "none")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "no such file" in done.stderr


def test_the_program_prints_its_figures_as_json(shards: Path) -> None:
    command = [sys.executable, "-m", "bench.data.disk", str(shards)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["random_images"] == 40
