"""All-reduce of MXNet's gradients: one worker, and shared memory."""

import os
from typing import Any

import pytest

from bench.errors import SpecError
from bench.training.options import parse

TINY = "--network=tiny --image-shape=3,32,32 --num-classes=10 --benchmark=1 --batch-size=4 "
TINY += "--windows=2 --warmup-windows=1"


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the place of one of two workers."""
    pytest.importorskip("torch", reason="needs PyTorch: make torch")
    from bench.training.torch.rendezvous import Job  # noqa: PLC0415

    monkeypatch.setenv("MXSCALE_ADDRESS", "192.0.2.1")
    return Job(rank=0, num_workers=2)


@pytest.mark.mxnet
def test_a_worker_without_pytorch_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.training.mxnet import kvstore  # noqa: PLC0415

    monkeypatch.setattr(kvstore, "find_spec", lambda _: None)
    with pytest.raises(SpecError, match=r"^--kv-store allreduce: expected PyTorch, .* got none. R"):
        kvstore.open_kvstore(parse([*TINY.split(), "--kv-store=allreduce"]))


@pytest.mark.mxnet
def test_one_worker_trains_as_without_kvstore(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="needs PyTorch: make torch")
    from bench.training.mxnet import kvstore  # noqa: PLC0415
    from bench.training.mxnet.backend import train  # noqa: PLC0415
    from bench.training.torch import rendezvous  # noqa: PLC0415

    monkeypatch.setattr(rendezvous, "join", rendezvous.Job)
    alone = train(parse([*TINY.split(), "--kv-store=local"]))
    same = train(parse([*TINY.split(), "--kv-store=allreduce"]))
    assert same.weight_hash == alone.weight_hash
    assert kvstore.any_worker(kvstore.open_kvstore(parse([*TINY.split()])), ballot=0, vote=True)


def offered(size: int = 64) -> tuple[tuple[bytes, int, int, bytes], int]:
    """Return what a worker offers to the others, and its descriptor."""
    token = os.urandom(64)
    number = os.memfd_create("test")
    os.write(number, token)
    os.ftruncate(number, 64 + size)
    return (b"192.0.2.1", os.getpid(), number, token), number


def test_workers_of_one_host_write_to_the_same_memory(job: Any) -> None:
    from bench.training.mxnet.shared_memory import opened  # noqa: PLC0415

    first, number = offered()
    try:
        found = opened([first, first], 64)
    finally:
        os.close(number)
    assert found
    one, other = found
    one[3] = 5.0
    assert other.tolist() == [0, 0, 0, 5.0, *12 * [0]]


@pytest.mark.parametrize("lacks", ["address", "process", "token", "wish"])
def test_workers_that_cannot_share_memory_send_their_gradients(
    job: Any, lacks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bench.training.mxnet.shared_memory import opened  # noqa: PLC0415

    first, number = offered()
    address, process, _, token = first
    try:
        if lacks == "wish":
            monkeypatch.setenv("MXSCALE_SHARED_MEMORY", "0")
        other = {
            "address": (b"192.0.2.2", process, number, token),
            "process": (address, process, 1 << 20, token),
            "token": (address, process, number, os.urandom(64)),
            "wish": first,
        }[lacks]
        assert opened([first, other], 64) is None
    finally:
        os.close(number)
