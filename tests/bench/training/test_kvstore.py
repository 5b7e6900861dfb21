"""2-bit gradients: rejected by stores that cannot compress, correct otherwise."""

import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.errors import SpecError
from bench.notes import NoteKind
from bench.training.options import parse
from bench.trial import make
from launch.job.monitor import Deadlines
from tests.support.paths import ROOT
from tests.support.programs.jobs import measured
from tests.support.repeats import slow

WORDS = "--network tiny --batch-size 4 --benchmark 1 --windows 1 --gc-type 2bit"
# Each push adds 0.3 to what was left; the store has no optimizer and keeps what arrives.
RESIDUALS = """
from bench.training.mxnet.kvstore import compress
from bench.training.mxnet_shim import mx
store, value = mx.kv.create("dist_sync"), mx.nd.zeros(4)
compress(store, "2bit", 0.5)
store.broadcast(0, value, out=value)
for _ in range(5):
    store.pushpull(0, mx.nd.full(4, 0.3), out=value)
    print("pulled", value.asnumpy().tolist())
"""


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"kvstore": "local"}, "a kvstore with servers"),
        ({"gc_type": "1bit"}, "expected one of none, 2bit"),
        ({"gc_threshold": 0.0}, "gc_threshold: expected a number of at least 1e-37, got 0"),
        ({"gc_threshold": 1e-50}, "gc_threshold: expected a number of at least 1e-37, got 1e-50"),
        ({"gc_threshold": 1e39}, r"gc_threshold: expected a number below 1e\+30, got 1e\+39"),
        ({"gc_threshold": math.inf}, r"gc_threshold: expected a number below 1e\+30, got inf"),
        ({"gc_threshold": math.nan}, "gc_threshold: expected a number, got nan"),
        ({"dtype": "float16", "device": "gpu"}, "expected float32 gradients"),
    ],
)
def test_what_cannot_be_compressed_is_refused(fields: dict[str, Any], said: str) -> None:
    base = {"batch_per_device": 4, "kvstore": "dist_sync", "gc_type": "2bit"}
    with pytest.raises(SpecError, match=said):
        make(base | fields)


@pytest.mark.mxnet
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (f"{WORDS} --kv-store dist_sync", "=p3: expected gc_type 'none', got '2bit'"),
        (
            "--network tiny --benchmark 1 --windows 1 --kv-store dist_async",
            "=p3: expected a synchronous kvstore with servers, got 'dist_async'. Use dist_sync",
        ),
    ],
)
def test_a_worker_refuses_what_p3_cannot_do_before_it_waits_for_others(
    words: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bench.training.mxnet.kvstore import open_kvstore  # noqa: PLC0415

    monkeypatch.setenv("DMLC_PS_VAN_TYPE", "p3")
    with pytest.raises(SpecError, match=re.escape(said)):
        open_kvstore(parse(words.split()))


def test_a_worker_typed_by_hand_is_refused_alike() -> None:
    with pytest.raises(SpecError, match="a kvstore with servers"):
        parse([*WORDS.split(), "--kv-store", "device"])
    assert parse([*WORDS.split(), "--kv-store", "dist_async"]).gc_threshold == 0.5


@pytest.mark.mxnet
def test_what_was_not_sent_is_kept_for_the_next_push() -> None:
    launch = ["-m", "launch.launch", "-n", "1", "-s", "1", "--launcher", "local"]
    done = subprocess.run(
        [sys.executable, *launch, sys.executable, "-c", RESIDUALS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    pulled = [line.rpartition("[")[2] for line in done.stdout.splitlines() if "pulled" in line]
    assert [float(line.partition(",")[0]) for line in pulled] == [0, 0.5, 0, 0.5, 0.5]


LEARNT = {
    "mode": "real",
    "network": "tiny",
    "image_shape": [3, 32, 32],
    "num_classes": 10,
    "batch_per_device": 16,
    "kvstore": "dist_sync",
    "devices": 2,
    "servers_per_host": 1,
    "rgb_std": [58.393, 57.12, 57.375],
    "windows": 0,
    "num_epochs": 40,
    "stop_accuracy": 0.35,
}
COMPRESSED = {"gc_type": "2bit", "gc_threshold": 2.0}


@pytest.mark.mxnet
@pytest.mark.parametrize("fields", [COMPRESSED, *slow({})], ids=["2bit", "none"])
def test_two_workers_learn_the_same_from_compressed_gradients(
    tmp_path: Path, photographs: Path, fields: dict[str, Any]
) -> None:
    data = {"data_train": str(photographs / "train"), "data_val": str(photographs / "val")}
    (record,) = measured(tmp_path, make(LEARNT | data | fields), deadlines=Deadlines())
    assert record.status == "ok", record.message
    assert record.accuracy > 0.35
    assert NoteKind.PAGE_CACHE in {note.kind for note in record.notes}
    assert ("--gc-type 2bit --gc-threshold 2.0" in record.commands["worker-0"]) == bool(fields)
    (windows,) = {len(rank.seconds) for rank in record.ranks}
    epochs, rest = divmod(windows, math.ceil(120 / 16))
    assert rest == 0
    # The time to the accuracy has all windows and validations, but no start-up.
    assert [one.epochs for one in record.validations] == [*range(1, epochs + 1)]
    assert record.validations[-1].accuracy == record.accuracy
    assert all(one.accuracy <= 0.35 for one in record.validations[:-1])
    trained = max(sum(rank.seconds) for rank in record.ranks)
    assert trained < record.validations[-1].seconds < record.elapsed_seconds
    assert all(rank.losses[-1] < rank.losses[0] for rank in record.ranks)
