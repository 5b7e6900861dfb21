"""Records imported from sample logs, and their content."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.errors import SpecError
from bench.logs.formats import FORMATS
from bench.logs.lines import line
from bench.logs.log import Log
from bench.notes import Note, NoteKind
from results.imports.point import LogDescription
from results.imports.record import import_logs
from results.record import Record
from tests.support.runs.log_samples import tf_cnn

FAST = (11000.0, 11210.0, 11230.0, 11220.0, 11240.0, 11200.0)
SLOW = (92.93, 92.71, 95.38, 93.12, 92.05, 93.33)
MEANS = (640.0, 630.0, 629.5, 629.1, 628.9, 628.8, 628.7)
PS = tf_cnn(
    batches="Batch size:  32 global\n             32 per device",
    devices=["/job:worker/task:4/cpu:0"],
    variables="parameter_server",
    model="inception3",
)
SPEED = "Epoch[0] Batch [{}]\tSpeed: {} samples/sec\taccuracy=0.1"


def made(folder: Path, *texts: str, **asked: Any) -> Record:
    """Return the record of one log of these parts."""
    path = folder / "sample.log"
    path.write_text("\n".join(texts) + "\n")
    return import_logs([path], LogDescription(**asked)).record


def refused(folder: Path, *texts: str, **asked: Any) -> str:
    """Return the error of importing a log of these parts."""
    with pytest.raises(SpecError) as caught:
        made(folder, *texts, **asked)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def point(record: Record) -> tuple[str, str, str, int, int]:
    """Return network, store, number format, devices and batch per device."""
    trial = record.trial
    return (
        trial.label,
        trial.layout.kvstore,
        trial.training.dtype,
        trial.layout.devices,
        trial.training.batch_per_device,
    )


def kinds(record: Record) -> set[NoteKind]:
    """Return the kinds of a record's notes."""
    return {note.kind for note in record.notes}


def note(record: Record, kind: NoteKind) -> Note:
    """Return a record's only note of a kind."""
    (found,) = [one for one in record.notes if one.kind is kind]
    return found


def read(name: str, texts: Sequence[str]) -> Log:
    """Return the parsed lines of a format."""
    return FORMATS[name].read(line(number, text) for number, text in enumerate(texts, 1))
