"""The line to the master, as the receiver has it: lines of JSON, and bytes between them.

Standard library only and Python 3.8 or newer, as the receiver that it is sent with.
"""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import json
import os
import select
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from launch import command
from launch.errors import LaunchError, ProtocolError
from launch.paths import CHUNK

_SILENCE_SECONDS = 15.0
_BEAT_SECONDS = 1.0
# The longest lists files: some 200 bytes each.
_MOST_LINE = 1 << 30


class Master:
    """Stdin and stdout, with a beat every second: `done` of `total` bytes have been read back."""

    def __init__(self, shapes: dict[str, dict[str, Any]]) -> None:
        self._shapes = {"beat": {}, **shapes}
        self._held = bytearray()
        self._saying = threading.Lock()
        self.done = self.total = 0
        threading.Thread(target=self._beat, daemon=True).start()

    def say(self, **message: Any) -> None:
        """Sends a message; OSError where the master is gone."""
        data = (json.dumps(message) + "\n").encode()
        with self._saying:
            while data:
                data = data[os.write(1, data) :]

    def _beat(self) -> None:
        try:
            while True:
                time.sleep(_BEAT_SECONDS)
                self.say(say="beat", done=self.done, total=self.total)
        except OSError:
            pass  # the other direction says so too

    def _read(self) -> bytes:
        if not select.select([0], [], [], _SILENCE_SECONDS)[0]:
            raise LaunchError(f"heard nothing from the master for {_SILENCE_SECONDS:.0f} s")
        data = os.read(0, CHUNK)
        if not data:
            sys.exit(1)  # the master is gone, and nobody is left to tell
        return data

    def _line(self) -> bytearray:
        at, looked = self._held.find(b"\n"), 0
        while at < 0:
            looked = len(self._held)
            if looked > _MOST_LINE:
                raise ProtocolError(f"expected lines of at most {_MOST_LINE >> 20} MiB, got more")
            self._held += self._read()
            at = self._held.find(b"\n", looked)
        line = self._held[:at]
        del self._held[: at + 1]
        return line

    def message(self) -> dict[str, Any]:
        """The next message that is no beat; LaunchError where it is none, or none comes."""
        while True:
            line = self._line()
            message = command.parsed(bytes(line), self._shapes)
            if message["do"] != "beat":
                return message

    def data(self, size: int) -> Iterator[bytes]:
        """The next `size` bytes, piece by piece; LaunchError where the master falls silent."""
        while size:
            held = bytes(self._held) or self._read()
            piece, self._held = held[:size], bytearray(held[size:])
            size -= len(piece)
            yield piece
