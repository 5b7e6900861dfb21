"""Records of one tiny trial, and stores that hold records."""

from pathlib import Path
from typing import Any

from bench.trial import make
from results.record import Identity, Rank, Record
from results.store import Store

TRIAL = make({"network": "tiny", "batch_per_device": 4})
RANK = Rank(
    rank=0, host="h", process="worker-0", seconds=(2.0, 1.0), ends=(2.0, 3.0), images=(4, 4)
)


def record(**fields: Any) -> Record:
    names = ("name", "key", "repeat", "code_hash", "data_manifest", "hosts")
    base: dict[str, Any] = dict(zip(names, ("tiny", TRIAL.key, 0, "c", "d", ("h",)), strict=True))
    identity = Identity(**base | {name: fields.pop(name) for name in names if name in fields})
    whole: dict[str, Any] = {
        "trial": TRIAL,
        "identity": identity,
        "status": "ok",
        "message": "",
        "ranks": (RANK,),
        "emulated": False,
        "started": "2026-01-01T00:00:00+00:00",
        "elapsed_seconds": 1.5,
    }
    return Record(**whole | fields)


def stored(folder: Path, *records: Record) -> Path:
    store = Store(folder)
    for one in records:
        store.append(one)
    store.close()
    return folder / "records.jsonl"
