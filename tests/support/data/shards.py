"""RecordIO files with given payloads, and payloads to try."""

import struct
from collections.abc import Sequence
from pathlib import Path

from hypothesis import strategies as st

from im2rec_tools.formats.recordio import MAGIC, frame

MAGIC_BYTES = struct.pack("<I", MAGIC)
# Payloads that hold the magic at aligned and other places, and plain ones.
payloads = st.lists(st.one_of(st.just(MAGIC_BYTES), st.binary(max_size=9)), max_size=12).map(
    b"".join
)
payloads_of_a_file = st.lists(payloads, max_size=8)


def write(path: Path, contents: Sequence[bytes]) -> Path:
    offset, lines = 0, []
    with path.open("wb") as file:
        for key, payload in enumerate(contents):
            lines.append(f"{key}\t{offset}\n")
            offset += file.write(frame(payload))
    path.with_suffix(".idx").write_text("".join(lines))
    return path
