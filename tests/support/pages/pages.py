"""Runs for the report page, and the data blocks of a page."""

import base64
import dataclasses
import gzip
import json
import re
from pathlib import Path
from typing import Any

from results.record import Record
from results.repeat import RankSpeed
from results.run import Run
from results.scaling import scaling

HOSTILE = "</script><script>alert(1)</script><!-- & '\" $x %{x} </b>"


def run_of(*records: Record, **fields: Any) -> Run:
    known: dict[str, Any] = {"folder": Path("r"), "rows": scaling(records), "environment": {}}
    return Run(**known | fields)


def hostile(one: Record) -> Record:
    """Return the record with HTML in its host, process, command and message."""
    told = [dataclasses.replace(rank, host=HOSTILE, process=HOSTILE) for rank in one.ranks]
    commands = {HOSTILE: HOSTILE, "worker-0": HOSTILE}
    return dataclasses.replace(one, ranks=tuple(told), message=HOSTILE, commands=commands)


def block(text: str, name: str) -> str:
    """Return the content of a data block of the page."""
    found = re.search(rf'<script type="[a-z/]+" id="{name}">(.*?)</script>', text, re.DOTALL)
    assert found
    return found[1]


def unpacked(text: str, name: str) -> Any:
    """Return the JSON of a data block: "data", or the "details" of points."""
    return json.loads(gzip.decompress(base64.b64decode(block(text, name))))


def details(text: str) -> Any:
    return unpacked(text, "details")


def pace(rank: int, seconds: float, own: float | None = None) -> RankSpeed:
    return RankSpeed(
        rank=rank, host=f"h{rank}", process="w", seconds=seconds, own_seconds=own, cpu_share=None
    )
