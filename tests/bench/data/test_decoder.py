"""Decoding in processes: equal to threads, and no process is left."""

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.data import loader
from bench.data.partition import whole_data
from bench.errors import SpecError
from bench.training.options import Options, parse
from im2rec_tools.formats.recordio import ImageRecord, pack
from launch.remote.processes import descendants
from tests.support.data.shards import write
from tests.support.data.trees import jpeg
from tests.support.paths import ROOT

IMAGES, BATCH = 23, 6
AUGMENTED = ("--random-crop=1", "--random-mirror=1", "--max-random-h=10")


@dataclass(kw_only=True)
class Memory:
    data: Any
    label: Any
    images: Any
    labels: Any

    def wait(self) -> None:
        """Return at once."""


def memory(size: int) -> Memory:
    images, labels = np.zeros((size, 3, 48, 40), np.float32), np.zeros(size, np.float32)
    return Memory(data=images, label=labels, images=images, labels=labels)


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "MOST_CORES_OF_THREADS", 0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    images = [ImageRecord(index=n, labels=(n,), image=jpeg(60, 70, n)) for n in range(IMAGES)]
    return write(tmp_path / "x.rec", [pack(one) for one in images])


def options(path: Path, *more: str) -> Options:
    words = [f"--data-train={path}", f"--batch-size={BATCH}", "--image-shape=3,48,40"]
    return parse([*words, "--data-nthreads=3", *more])


def stream(asked: Options) -> Iterator[Any]:
    whole = whole_data(asked.data_train)
    orders = loader.shuffled_orders(asked, whole)
    return loader.training_batches(asked, whole, orders, memory, loader.Reader(rank=2))


def read(asked: Options, batches: int) -> list[tuple[Any, Any]]:
    started = stream(asked)
    found = [(one.images.copy(), one.labels.copy()) for one in itertools.islice(started, batches)]
    started.close()  # type: ignore[attr-defined]
    return found


def children() -> list[int]:
    return descendants(os.getpid())


@pytest.mark.parametrize("more", [(), AUGMENTED])
def test_processes_decode_what_threads_decode(
    path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    asked, before = options(path, *more), children()
    monkeypatch.setattr(loader, "MOST_CORES_OF_THREADS", 10_000)
    threads = read(asked, 9)
    monkeypatch.setattr(loader, "MOST_CORES_OF_THREADS", 0)
    for one, other in zip(threads, read(asked, 9), strict=True):
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(one[1], other[1])
    assert any(images.std() > 0 for images, _ in threads)
    assert children() == before


def test_an_image_that_cannot_be_decoded_is_named(tmp_path: Path, processes: None) -> None:
    junk = pack(ImageRecord(index=0, labels=(0.0,), image=b"junk"))
    path = write(tmp_path / "junk.rec", [junk] * 8)
    before = children()
    with pytest.raises(SpecError, match=r"junk\.rec: the record at byte \d+: expected an image"):
        read(options(path), 1)
    assert children() == before


def test_a_decoding_process_that_is_killed_is_named(path: Path, processes: None) -> None:
    before, started = set(children()), stream(options(path))
    next(started)
    (first, *_) = set(children()) - before
    os.kill(first, signal.SIGKILL)
    with pytest.raises(RuntimeError, match=f"process {first}, which decodes images, ended: SIGKI"):
        list(itertools.islice(started, 20))
    assert set(children()) <= before


LEFT_ALONE = """
import os, signal, sys
from pathlib import Path
from bench.data import loader
from launch.remote.processes import descendants
from tests.bench.data.test_decoder import options, stream

loader.MOST_CORES_OF_THREADS = 0
batches = stream(options(Path(sys.argv[1])))
next(batches)
print(*descendants(os.getpid()), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_no_process_outlives_its_worker(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEFT_ALONE, str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    left = list(map(int, done.stdout.split()))
    assert 1 <= len(left) <= 3  # one for each thread that has decoded
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{pid}/fd").exists() for pid in left) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid}/exe").exists() for pid in left)
