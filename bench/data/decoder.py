"""Decode images of a stream, in this process or in one for each decoding thread.

Threads of one Python process wait for its global lock (GIL) between any two steps of an image. With
more than a few cores that costs more than it gains, and it delays the thread that trains.

    python -m bench.data.decoder FD

is such a process. It reads pickled requests from stdin and writes pickled answers to stdout.
Decoded images are in the shared memory FD, which has no name. The process ends with its stdin.
"""

import mmap
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from bench.data.augmentation_options import NONE
from bench.data.partition import WorkerPartition
from bench.data.transforms import read_image
from bench.errors import SpecError
from bench.training.options import Options

# Images of a request.
MOST_IMAGES = 4
# Shards that stay open while they are read; a process may usually open 1,024 files.
MOST_OPEN = 256
_ROOT = Path(__file__).resolve().parent.parent.parent
_END_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class Stream:
    """Images of a portion; `rank` seeds their augmentation, None if they have none."""

    options: Options
    portion: WorkerPartition
    rank: int | None = None

    def read(self, files: Sequence[int | None], place: Any, number: int, out: Any) -> float:
        """Read the image of a number in this stream into its memory; return its label.

        place  its file, offset and length
        """
        file, offset, length = place
        draw = None
        if self.rank is not None and self.options.augmentation != NONE:
            draw = np.random.default_rng((self.options.seed, self.rank, number))
        where = self.portion.paths[file], offset, length, files[file]
        return read_image(where, self.options, out, draw)


@contextmanager
def opened(paths: Sequence[Path]) -> Iterator[Sequence[int | None]]:
    """Open shards, so that an image does not open its file again; None: not opened."""
    files: list[int] = []
    try:
        with suppress(OSError):  # reported for the first image of the shard
            for path in paths[:MOST_OPEN]:
                files.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        yield [*files, *[None] * (len(paths) - len(files))]
    finally:
        for file in files:
            os.close(file)


class Decoder:
    """A process that decodes images of a stream; one thread at a time may use it."""

    def __init__(self, stream: Stream) -> None:
        shape = MOST_IMAGES, *stream.options.image_shape
        memory = os.memfd_create("images")
        try:
            os.ftruncate(memory, _bytes(shape))
            self._images = _mapped(memory, shape)
            command = [sys.executable, "-m", "bench.data.decoder", str(memory)]
            self._process = subprocess.Popen(
                command,
                cwd=_ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=[memory],
            )
        finally:
            os.close(memory)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout
        self._send(stream)

    def read(self, places: Sequence[Any], number: int, images: Any, labels: Any) -> None:
        """Read images of successive numbers into their memory; SpecError as `Stream.read`."""
        self._send((places, number))
        try:
            answer = pickle.load(self._answers)
        except (EOFError, pickle.UnpicklingError):
            raise self._ended() from None
        if isinstance(answer, str):
            raise SpecError(answer)
        images[:] = self._images[: len(places)]
        labels[:] = answer

    def close(self) -> None:
        """End the process."""
        with suppress(OSError):
            self._requests.close()
        self._answers.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _send(self, value: Any) -> None:
        try:
            pickle.dump(value, self._requests)
            self._requests.flush()
        except OSError:
            raise self._ended() from None

    def _ended(self) -> RuntimeError:
        """Return the error of a process that has ended too early."""
        self._process.kill()
        code = self._process.wait()
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return RuntimeError(f"process {self._process.pid}, which decodes images, ended: {how}")


def _bytes(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape)) * np.dtype(np.float32).itemsize


def _mapped(memory: int, shape: tuple[int, ...]) -> Any:
    return np.frombuffer(mmap.mmap(memory, _bytes(shape)), np.float32).reshape(shape)


def main() -> None:
    """Answer requests until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the worker ends this process
    cv2.setNumThreads(1)
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # whatever a library prints is no answer
        requests = sys.stdin.buffer
        stream: Stream = pickle.load(requests)
        images = _mapped(int(sys.argv[1]), (MOST_IMAGES, *stream.options.image_shape))
        with opened(stream.portion.paths) as files, suppress(EOFError, BrokenPipeError):
            while True:
                pickle.dump(_answer(stream, files, images, *pickle.load(requests)), answers)
                answers.flush()


def _answer(
    stream: Stream, files: Sequence[int | None], images: Any, places: Sequence[Any], number: int
) -> list[float] | str:
    """Read images; return their labels, or the error of one."""
    try:
        return [stream.read(files, one, number + n, images[n]) for n, one in enumerate(places)]
    except SpecError as error:
        return str(error)


if __name__ == "__main__":
    main()
