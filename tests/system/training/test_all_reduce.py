"""Jobs whose workers add up MXNet's gradients by themselves."""

import os
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bench.engines.mxnet import MXNET
from bench.engines.torch import TORCH
from bench.trial import Trial
from launch.job.monitor import Deadlines
from launch.practice.cluster import Cluster
from launch.preflight.findings import Requirements
from results.record import Record
from tests.support.hosts.clusters import running_on
from tests.support.programs.jobs import (
    disturbed,
    left_over,
    measured,
    photo_settings,
    pid_of_rank,
    running,
    stop_settings,
    tiny,
)

pytestmark = pytest.mark.mxnet
torch = pytest.importorskip("torch", reason="needs PyTorch: make torch")
OVER_LOOPBACK = ["MXSCALE_SHARED_MEMORY=0"]


def two(**fields: Any) -> Trial:
    """Return a job of two workers that MXNet trains in milliseconds."""
    return tiny(**{"kvstore": "allreduce", "devices": 2} | fields)


def hashes(record: Record) -> set[object]:
    """Return the different weights of a job's workers."""
    assert record.status == "ok", record.message
    return {rank.facts["weight_hash"] for rank in record.ranks}


def test_two_workers_have_the_weights_of_dist_sync_bit_by_bit(tmp_path: Path) -> None:
    trials = two(kvstore="dist_sync"), two(), two(env=OVER_LOOPBACK), two(gc_type="ternary")
    servers, shared, sent, ternary = measured(tmp_path, *trials, deadlines=Deadlines())
    assert len(hashes(servers)) == 1
    assert hashes(servers) == hashes(shared) == hashes(sent)
    for rank in shared.ranks:
        assert (rank.facts["num_workers"], rank.facts["torch"]) == (2, torch.__version__)
    assert [rank.facts["bytes_each_way"] for rank in sent.ranks] == [4 * 90_512] * 2
    assert len(hashes(ternary)) == 1
    assert hashes(ternary) != hashes(shared)
    assert 10 * ternary.ranks[0].facts["bytes_each_way"] < sent.ranks[0].facts["bytes_each_way"]
    assert left_over() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "network",
    [
        {"network": "alexnet", "image_shape": [3, 67, 67]},  # its smallest image
        {"network": "resnet", "num_layers": 50, "image_shape": [3, 64, 64]},
    ],
)
def test_large_networks_have_the_weights_of_dist_sync_bit_by_bit(
    network: dict[str, Any], tmp_path: Path
) -> None:
    """AlexNet with dropout; ResNet-50 with many small arrays and three buckets."""
    fields = {"batch_per_device": 2, "num_classes": 10} | network
    trials = two(kvstore="dist_sync", **fields), two(**fields), two(env=OVER_LOOPBACK, **fields)
    servers, shared, sent = measured(tmp_path, *trials, deadlines=Deadlines())
    assert len(hashes(servers)) == 1
    assert hashes(servers) == hashes(shared) == hashes(sent)
    # Not those of the seed: three steps and one of warm-up have changed them.
    assert [len(rank.seconds) for rank in shared.ranks] == [4, 4]


@pytest.mark.slow
@pytest.mark.cluster
def test_workers_of_two_hosts_send_their_gradients_to_each_other(
    practice: Cluster, tmp_path: Path
) -> None:
    windows = 100
    fields = {"devices_per_host": 1, "windows": windows}
    trials = two(kvstore="dist_sync", **fields), two(**fields), two(gc_type="ternary", **fields)
    needs = Requirements(engines=(MXNET, TORCH))
    records, counts = [], [sent_bytes(practice)]
    with running_on(practice, tmp_path, *trials, deadlines=Deadlines(), wanted=needs) as updates:
        for update in updates:
            if isinstance(update, Record):
                records.append(update)
                counts.append(sent_bytes(practice))
    servers, plain, ternary = records
    assert hashes(servers) == hashes(plain) != hashes(ternary)
    assert [len(hashes(one)) for one in records] == [1, 1, 1]
    for record in records:
        assert {rank.host for rank in record.ranks} == {"node01", "node02"}
    _, of_plain, of_ternary = (after - before for before, after in pairwise(counts))
    assert plain.ranks[0].facts["bytes_each_way"] == 4 * 90_512  # not shared memory
    # With packet headers, the rendezvous and the events of a worker.
    assert 1 < of_plain / (windows * plain.ranks[0].facts["bytes_each_way"]) < 1.2
    assert 5 * of_ternary < of_plain


def sent_bytes(cluster: Cluster) -> int:
    """Return the bytes that the first host has sent to the others."""
    lines = Path(f"/proc/{cluster.nodes[0].pid}/net/dev").read_text().splitlines()
    (sent,) = (line.split(":")[1].split()[8] for line in lines if line.strip().startswith("eth0:"))
    return int(sent)


@pytest.mark.slow
@pytest.mark.parametrize("env", [[], OVER_LOOPBACK])
def test_workers_with_unequal_batches_stay_equal(tmp_path: Path, env: list[str]) -> None:
    (record,) = measured(
        tmp_path,
        two(devices=3, env=env, emulate=True, batch_per_device=0, global_batch_fixed=8),
        deadlines=Deadlines(),
    )
    assert len(hashes(record)) == 1


@pytest.mark.slow
def test_workers_share_photographs_validate_and_stop_together(
    photographs: Path, tmp_path: Path
) -> None:
    trial = two(**stop_settings(photographs, tmp_path / "model"))
    (record,) = measured(tmp_path / "run", trial, deadlines=Deadlines())
    assert len(hashes(record)) == 1
    assert len({len(rank.seconds) for rank in record.ranks}) == 1
    assert list(tmp_path.glob("model-*.optimizer"))


@pytest.mark.slow
def test_ternary_training_continues_as_if_not_interrupted(
    photographs: Path, tmp_path: Path
) -> None:
    def part(prefix: str, epochs: int, *options: str) -> Trial:
        fields = photo_settings(photographs, tmp_path / prefix, epochs=epochs)
        return two(gc_type="ternary", **fields | {"options": [*fields["options"], *options]})

    trials = part("a", 2), part("b", 1), part("b", 2, "--load-epoch=1")
    whole, _, rest = (
        measured(tmp_path / f"run-{number}", trial, deadlines=Deadlines())[0]
        for number, trial in enumerate(trials)
    )
    assert len(hashes(whole)) == 1
    assert hashes(rest) == hashes(whole)


@pytest.mark.slow
def test_a_killed_worker_fails_the_point_at_once(tmp_path: Path) -> None:
    with running(tmp_path, two(windows=100_000), deadlines=Deadlines()) as updates:
        record, _ = disturbed(updates, lambda: os.kill(pid_of_rank(1), signal.SIGKILL))
    assert record.status == "failed"
    assert "worker 1 (rank 1)" in record.message
    assert "was killed by SIGKILL" in record.message
    assert left_over() == []
