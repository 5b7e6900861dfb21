"""Out of memory is one line with three fixes; the largest batch is found."""

import os
import resource
import subprocess
import sys
from functools import partial

import pytest

from bench.auto_batch import advice, is_out_of_memory, largest
from bench.engines.mxnet import MXNET
from bench.kvstores import COMMS, find_kvstore
from bench.notes import Note, NoteKind, texts
from bench.training.loop import batch_notes, learning_notes, loss_notes, traffic_notes
from bench.training.options import parse
from tests.support.paths import ROOT

TINY = ["--network=tiny", "--num-classes=10", "--kv-store=local"]


def limited(
    module: str, *words: str, kind: int = resource.RLIMIT_AS
) -> subprocess.CompletedProcess[str]:
    """Run the program with 1.6 GB of address space; MXNet takes about 1 GB of it."""

    def limit() -> None:
        resource.setrlimit(kind, (1_600_000_000, 1_600_000_000))

    return subprocess.run(
        [sys.executable, "-m", module, *TINY, *words],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        preexec_fn=limit,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.mxnet
def test_a_batch_that_does_not_fit_gets_one_line_with_three_ways_out() -> None:
    for batch in (1500, 100_000):  # too much for MXNet, and for NumPy before it
        words = ["--benchmark=1", "--windows=1", "--image-shape=3,256,256"]
        done = limited("bench.train_imagenet", *words, f"--batch-size={batch}")
        assert done.returncode == 1
        errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1
        assert f"out of memory: a batch of {batch} on 1 device " in errors[0]
        for way in ("smaller batch", "MXNET_BACKWARD_DO_MIRROR=1", "fewer devices"):
            assert way in errors[0]
        assert "Traceback" not in done.stderr


def test_each_engine_has_its_own_ways_out_of_too_little_memory() -> None:
    assert "MIRROR=1, which recomputes some results, or use fewer devices" in advice(8, 2)
    assert advice(8, 1, mirror=False).endswith("finds the largest that fits), or use fewer devices")


@pytest.mark.mxnet
@pytest.mark.slow
@pytest.mark.parametrize("engine", ["mxnet", "torch"])
def test_the_largest_batch_that_fits_is_found(engine: str) -> None:
    words, kind = ["--image-shape=3,1200,1200"], resource.RLIMIT_AS
    if engine == "torch":
        pytest.importorskip("torch", reason="needs PyTorch: make torch")
        words = ["--image-shape=3,3600,3600", "--engine=torch", "--kv-store=none"]
        kind = resource.RLIMIT_DATA  # its libraries reserve more addresses
    done = limited("bench.auto_batch", *words, kind=kind)
    assert done.returncode == 0, done.stderr
    found = int(done.stdout.split()[0])
    tried = {int(line.split()[0]): "not" in line for line in done.stderr.splitlines()}
    assert found >= 1
    assert tried[found] is False
    assert tried[found + 1] is True


@pytest.mark.program
def test_mistakes_of_auto_batch_are_one_line() -> None:
    for words, said in (
        (["--kv-store=dist_sync"], "expected device or local"),
        (["--kv-store=ddp", "--engine=torch"], "expected none, because a batch must fit each"),
        (["--network=x"], "unknown network 'x'"),
    ):
        done = limited("bench.auto_batch", *words)
        assert done.returncode == 2
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 63, 64, 65, 1000, 5000])
def test_doubling_and_bisection_find_the_limit(limit: int) -> None:
    tried: list[int] = []

    def fits(batch: int) -> bool:
        tried.append(batch)
        return batch <= limit

    assert largest(fits, most=1024) == min(limit, 1024)
    assert len(tried) == len(set(tried)) <= 2 * 11


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (MemoryError(), True),
        (RuntimeError("MXNetError: Failed to allocate CPU Memory"), True),
        (RuntimeError("cudaMalloc retry failed: out of memory"), True),
        (RuntimeError("std::bad_alloc"), True),
        (RuntimeError("CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has"), True),
        (RuntimeError("[enforce fail at alloc_cpu.cpp] Error code 12 (Cannot allocate"), False),
        (RuntimeError("DefaultCPUAllocator: can't allocate: (Cannot allocate memory)"), True),
        (ValueError("shapes differ"), False),
    ],
)
def test_out_of_memory_is_recognised(error: Exception, full: bool) -> None:
    assert is_out_of_memory(error) is full


@pytest.mark.parametrize(
    ("losses", "noted"),
    [
        ([2.3, 2.2, 4.5e7], True),
        ([2.3, 23.1], True),  # 10 ln 10 is 23.03
        ([2.3, 23.0], False),
        ([2.3, 99.0, 2.4], False),
        ([400.0, 300.0], False),  # a bad start that gets better
        ([], False),
    ],
)
def test_a_loss_that_rises_beyond_ten_times_that_of_guessing_is_noted(
    losses: list[float], noted: bool
) -> None:
    found = list(loss_notes(10, [{"loss": one} for one in losses]))
    figures = {"first": losses[0], "last": losses[-1]} if noted else {}
    assert found == ([Note(NoteKind.LOSS_ROSE, figures)] if noted else [])


def test_doubtful_jobs_are_told_their_figures() -> None:
    options = parse(["--data-train=x", "--num-classes=10"])
    (few,) = texts(batch_notes(options, COMMS["local"], 64, 50))
    assert "64 exceeds the 50 images" in few
    windows = [{"cpu_seconds": 0.2, "steps": 2}]
    sent = partial(MXNET.wire_bytes, COMMS["dist_sync"])
    (line,) = texts(traffic_notes(sent("none", 50_000_000), windows))
    assert "100 MB for 0.1 s of computation" in line
    (line,) = texts(traffic_notes(sent("2bit", 50_000_000), windows))
    assert "53.1 MB for 0.1 s of computation" in line
    assert list(traffic_notes(0, windows)) == []
    assert list(traffic_notes(sent("none", 50_000), windows)) == []


@pytest.mark.parametrize(
    ("words", "classes", "batch", "noted"),
    [
        ("", 10, 101, True),
        ("--lr=0.01", 10, 100, False),
        ("--lr=0.01", 10, 16, False),
        ("", 1000, 8192, False),  # as in MXNet's tutorial
        ("--warmup-epochs=2", 10, 256, False),
        ("--windows=5", 10, 256, False),
        ("--kv-store=dist_async", 10, 256, False),
    ],
)
def test_a_batch_is_noted_only_if_it_is_far_above_the_classes(
    words: str, classes: int, batch: int, noted: bool
) -> None:
    options = parse(["--data-train=x", f"--num-classes={classes}", *words.split()])
    found = [
        one.kind for one in batch_notes(options, find_kvstore(options.kv_store), batch, 100_000)
    ]
    assert found == [NoteKind.BATCH_ABOVE_CLASSES] * noted


@pytest.mark.parametrize(
    ("words", "batch", "line"),
    [
        ("--lr=0.1", 256, ""),
        ("--lr=0.01", 256, ""),
        ("--lr=0.1", 512, ""),  # exactly half of the rule's
        ("--lr=0.1", 513, "--lr 0.1 is low for a global batch of 513: the linear rule gives 0.2 "),
        ("--lr=0.01", 257, "--lr 0.01 is low for a global batch of 257"),
        ("--lr=0.2", 512, "--lr 0.2 without a warm-up at a global batch of 512"),
        ("--lr=0.2 --warmup-epochs=5", 512, ""),
        ("--lr=0.1 --warmup-epochs=5", 8192, "the linear rule gives 3.2 (0.1 per 256 images"),
        ("--lr=3.2 --warmup-epochs=5", 65536, ""),  # the rule is tested up to 8192
        ("--lr=0.01 --optimizer=adam", 8192, ""),
        ("--lr=0.01 --optimizer=nag", 8192, "--lr 0.01 is low"),
        ("--lr=0.01 --windows=5", 8192, ""),
        ("--lr=0.01 --benchmark=1 --windows=5", 8192, ""),
        ("--lr=0.01 --load-epoch=1 --model-prefix=x", 8192, ""),
        ("--lr=0.01 --kv-store=dist_async", 8192, ""),
        ("--lr=0.01 --kv-store=dist_sync", 8192, "--lr 0.01 is low"),
    ],
)
def test_a_rate_that_does_not_follow_the_global_batch_is_noted(
    words: str, batch: int, line: str
) -> None:
    data = [] if "benchmark" in words else ["--data-train=x"]
    options = parse([*data, *words.split()])
    found = texts(learning_notes(options, find_kvstore(options.kv_store), batch))
    assert len(found) == bool(line)
    assert not line or line in found[0]
