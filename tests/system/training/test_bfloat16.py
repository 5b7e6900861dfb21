"""Training in bfloat16: it learns, equally on every rank, with float32 weights."""

from pathlib import Path

import pytest

from bench.training import startup
from bench.trial import make
from launch.job.monitor import Deadlines
from tests.support.programs.jobs import measured, tiny

pytestmark = [
    pytest.mark.mxnet,
    pytest.mark.skipif(
        not startup.newest_instruction_set(startup.cpu_flags()).startswith("AVX512_CORE"),
        reason="needs a CPU with AVX-512",
    ),
]


@pytest.mark.slow
def test_two_workers_learn_the_same_in_bfloat16(tmp_path: Path, photographs: Path) -> None:
    fields = {"mode": "real", "network": "tiny", "image_shape": [3, 32, 32], "num_classes": 10}
    data = {"data_train": str(photographs / "train"), "data_val": str(photographs / "val")}
    job = {
        "kvstore": "dist_sync",
        "devices": 2,
        "servers_per_host": 1,
        "batch_per_device": 16,
        "dtype": "bfloat16",
    }
    until = {"windows": 0, "num_epochs": 40, "stop_accuracy": 0.35}
    trial = make(fields | data | job | until | {"rgb_std": [58.393, 57.12, 57.375]})
    (record,) = measured(tmp_path, trial, deadlines=Deadlines())
    assert record.status == "ok", record.message
    assert record.accuracy > 0.35
    assert len({rank.facts["weight_hash"] for rank in record.ranks}) == 1
    assert all(rank.facts["instructions"].startswith("avx512_core") for rank in record.ranks)


def test_a_processor_that_cannot_is_refused_in_a_sentence(tmp_path: Path) -> None:
    trial = tiny(dtype="bfloat16", env=[f"{startup.INSTRUCTION_SET_VARIABLE}=AVX2"])
    (record,) = measured(tmp_path, trial, deadlines=Deadlines())
    assert record.status == "failed"
    assert "expected a CPU with AVX-512 for bfloat16, got AVX2" in record.message
