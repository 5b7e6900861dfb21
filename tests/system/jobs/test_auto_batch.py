"""The largest batch that fits: with shared memory, in sweeps and in training."""

import itertools
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from invoke.context import Context

import fabfile as _fabfile
from bench import auto_batch
from bench.auto_batch import (
    BatchProbe,
    find,
    length_options,
    narrowed,
    oom_kills,
    saving_options,
)
from bench.errors import SpecError
from bench.sweep import load_sweep
from bench.training.options import parse
from bench.trial import make
from launch.auto_batch import Layout, layout_of
from launch.hosts import ROOT
from tests.support.programs.commands import SWEEP, refusal, sweep_file
from tests.support.repeats import slow

fabfile: Any = _fabfile
MB = 1_000_000
# Takes 20 MB per image and 30 MB more than Python does; uses them if a server's use follows.
HUNGRY = """
import mmap, sys
batch = int(sys.argv[-1].removeprefix("--batch-size="))
bytes = 30_000_000 + batch * 20_000_000
try:
    taken = mmap.mmap(-1, bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
except OSError:
    sys.exit("error: out of memory: it does not fit")
if batch == 1:
    for page in range(0, bytes, 4096):
        taken[page] = 1
"""
TRAINED = SWEEP.replace("fake", "mxnet")


def hungry(**fields: Any) -> BatchProbe:
    return BatchProbe(command=(sys.executable, "-c", HUNGRY), **fields)


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_batch, "free_bytes", lambda: 1000 * MB)


@pytest.mark.slow
@pytest.mark.program
@pytest.mark.usefixtures("free")
def test_workers_of_one_machine_get_a_share_each_and_servers_theirs() -> None:
    alone, two, four = (find(hungry(workers=count)) for count in (1, 2, 4))
    assert 39 <= alone <= 41  # (850 - 30) / 20, less what Python has
    assert 17 <= two <= 19
    assert 7 <= four <= 9
    assert find(hungry(workers=2, devices=2)) == two // 2
    # A server takes as much as a worker with a batch of 1: 50 MB and Python, or, as the kernel
    # counts it, what this process has.
    assert find(hungry(workers=2, servers=2)) <= two - 3
    assert find(hungry(), most=7) == 7
    assert (narrowed(hungry(), 20), narrowed(hungry(), 60)) == (20, alone)


@pytest.mark.program
@pytest.mark.usefixtures("free")
def test_a_try_that_fails_otherwise_or_takes_too_long_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = BatchProbe(command=(sys.executable, "-c", "import nothing_of_that_name"), name="x: ")
    with pytest.raises(
        SpecError, match="x: a batch of 1 per device failed for another reason than memory: Mod"
    ):
        find(broken)
    with pytest.raises(SpecError, match="not even a batch of 1 per device fits"):
        find(hungry(workers=30))
    monkeypatch.setattr(auto_batch, "TRY_SECONDS", 0.2)
    with pytest.raises(SpecError, match=r"more than 0 s. Limit it by --auto-batch="):
        find(BatchProbe(command=(sys.executable, "-c", "import time; time.sleep(60)")))


def dying(last_words: str, how: str) -> BatchProbe:
    """Return a worker that trains one image and exits with more."""
    text = f"""
import os, signal, sys
if int(sys.argv[-1].removeprefix("--batch-size=")) > 1:
    print({last_words!r}, file=sys.stderr, flush=True)
    {how}
"""
    return BatchProbe(command=(sys.executable, "-c", text))


ABORT = "os.abort()"
KILLED = "os.kill(os.getpid(), signal.SIGKILL)"


@pytest.mark.program
@pytest.mark.usefixtures("free")
@pytest.mark.parametrize(
    ("last_words", "how"),
    [
        ("MemoryError", "sys.exit(1)"),
        ("std::bad_alloc", ABORT),
        ("[12:00:00] src/storage/storage.cc:199: Failed to allocate CPU Memory", "sys.exit(1)"),
        ("Check failed: e == cudaSuccess: cudaMalloc retry failed: out of memory", ABORT),
        ("mxnet::op: CUDNN_STATUS_ALLOC_FAILED", "sys.exit(255)"),
        ("could not create a primitive", ABORT),
        ("ImportError: libmxnet.so: failed to map segment from shared object", "sys.exit(1)"),
        ("OpenBLAS blas_thread_init: pthread_create failed for thread 1 of 2", "os._exit(1)"),
        ("libgomp: Thread creation failed: Resource temporarily unavailable", "os._exit(1)"),
        ("RuntimeError: can't start new thread", "sys.exit(1)"),
        (
            "terminate called after throwing an instance of 'std::system_error'\n"
            "  what():  Resource temporarily unavailable",
            ABORT,
        ),
    ],
)
def test_a_try_without_memory_does_not_fit_whichever_library_says_so(
    last_words: str, how: str
) -> None:
    assert find(dying(last_words, how), most=4) == 1


@pytest.mark.program
@pytest.mark.usefixtures("free")
def test_a_killed_try_does_not_fit_if_the_kernel_counted_a_kill_for_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = itertools.count()
    monkeypatch.setattr(auto_batch, "oom_kills", lambda: next(counts))
    assert find(dying("", KILLED), most=4) == 1
    monkeypatch.setattr(auto_batch, "oom_kills", lambda: 7)
    with pytest.raises(
        SpecError, match=r"killed by SIGKILL, but not by the kernel for lack of memory"
    ):
        find(dying("", KILLED), most=4)


def test_kills_for_memory_are_counted_of_the_machine_and_of_the_cgroup(tmp_path: Path) -> None:
    (tmp_path / "vmstat").write_text("nr_free_pages 12\noom_kill 3\n")
    assert oom_kills(tmp_path / "vmstat", tmp_path) == 3
    (tmp_path / "memory.events").write_text("oom 5\noom_kill 2\noom_group_kill 9\n")
    assert oom_kills(tmp_path / "vmstat", tmp_path) == 5
    assert oom_kills(tmp_path / "none", tmp_path / "none") is None


@pytest.mark.slow
@pytest.mark.program
@pytest.mark.usefixtures("free")
def test_a_crash_without_words_is_of_memory_near_the_limit_alone() -> None:
    with pytest.raises(
        SpecError, match="2 per device failed for another reason than memory: SIGABRT without"
    ):
        find(dying("", ABORT), most=4)
    take = "x = bytearray(600_000_000); import time; time.sleep(0.3); "
    for how in (ABORT, "os.kill(os.getpid(), signal.SIGSEGV)"):
        assert find(dying("", take + how), most=4) == 1


@pytest.mark.parametrize(
    ("words", "gpu", "length"),
    [
        ((), False, ("--steps-per-window=1", "--windows=5")),
        ((), True, ("--steps-per-window=3", "--windows=1")),
        (("--steps-per-window", "2"), False, ("--steps-per-window=2", "--windows=2")),
        (("--steps-per-window=50",), False, ("--steps-per-window=3", "--windows=1")),
    ],
)
def test_a_try_has_windows_as_long_as_training_has(
    words: tuple[str, ...], gpu: bool, length: tuple[str, ...]
) -> None:
    assert length_options(BatchProbe(command=("python", "-m", "x", *words), gpu=gpu)) == length


@pytest.mark.program
@pytest.mark.usefixtures("free")
def test_a_try_that_stands_still_near_its_limit_does_not_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(auto_batch, "STUCK_SECONDS", 0.5)
    take = "x = bytearray(600_000_000); import time; time.sleep(60)"
    assert find(dying("", take), most=4) == 1


# What `ulimit -v` does: the process's own address space, from its start.
LIMITED = """
import resource, sys
from bench.auto_batch import BatchProbe, find
most = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
print(find(BatchProbe(command=(sys.executable, "-c", sys.argv[2])), most=64))
"""


@pytest.mark.program
@pytest.mark.parametrize("megabytes", [265, 560, *slow(210, 330, 420, 800)])
def test_under_ulimit_v_the_batch_found_fits_and_twice_that_does_not(megabytes: int) -> None:
    hungry = HUNGRY.replace("30_000_000", "100_000_000").replace("20_000_000", "40_000_000")
    most = megabytes * MB
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(most), hungry],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = int(done.stdout)
    codes = [
        subprocess.run(
            [sys.executable, "-c", hungry, f"--batch-size={batch}"],
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)),
            stderr=subprocess.DEVNULL,
            check=False,
        ).returncode
        for batch in (found, 2 * found)
    ]
    assert codes == [0, 1]


# A batch of 1 fits in the tries marked y; a larger one never.
SOMETIMES = """
import pathlib, sys
one = sys.argv[-1] == "--batch-size=1"
path = pathlib.Path({path!r})
tries = path.read_text() if path.exists() else ""
path.write_text(tries + "." * one)
if not one or {fits!r}[len(tries)] == "n":
    sys.exit("error: out of memory: it does not fit")
"""


@pytest.mark.program
@pytest.mark.parametrize(
    ("fits", "code"),
    [("yy", 0), ("nyy", 0), ("yny", 0), ("ynn", 1), ("nyn", 1), ("nn", 1)],
    ids=str,
)
def test_at_a_limit_a_batch_of_1_is_found_if_it_mostly_fits(
    tmp_path: Path, fits: str, code: int
) -> None:
    worker = SOMETIMES.format(path=str(tmp_path / "tries"), fits=fits)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(2000 * MB), worker],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert len((tmp_path / "tries").read_text()) == len(fits)
    if code:
        assert "not even a batch of 1 per device fits" in done.stderr
    else:
        assert done.stdout == "1\n"


def test_a_try_saves_weights_if_the_job_does(tmp_path: Path) -> None:
    def prefix(*words: str) -> str:
        return saving_options(
            BatchProbe(command=("python", "-m", "bench.train_imagenet", *words)), "T"
        )[0]

    assert prefix("--lr=1") == prefix("--model-prefix=") == "--model-prefix="
    assert prefix("--model-prefix=m/x") == prefix("--model-prefix", "x") == "--model-prefix=T/try"


def test_a_layout_with_more_processes_speaks_for_those_with_fewer() -> None:
    full = Layout(devices=1, store="local", workers=2, servers=2)
    assert full.holds(Layout(devices=1, store="local", workers=1, servers=0))
    assert not full.holds(Layout(devices=2, store="local", workers=1, servers=0))
    assert not full.holds(Layout(devices=1, store="local", workers=4, servers=2))
    other = Layout(devices=1, store="local", workers=1, servers=0, variant=("engine torch",))
    assert not full.holds(other)


def test_a_batch_is_tried_with_each_engine_and_memory_format_of_a_network(tmp_path: Path) -> None:
    text = TRAINED + "[[points]]\nengine = ['mxnet', 'torch']\n"
    text += "[[points]]\nengine = 'torch'\nchannels_last = true\n"
    found = [layout_of(trial) for trial in load_sweep(str(sweep_file(tmp_path, text))).trials]
    torch = "engine torch"
    assert [one.variant for one in found] == [(), (torch,), (torch, "channels_last True")]
    assert [one.store for one in found] == ["local", "none", "none"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (SWEEP + "[[points]]\n", "the simulated engine needs no memory"),
        (TRAINED + "[[points]]\nmode = 'test-io'\ndata_train = 'x'\n", "x1 does not train"),
        (TRAINED + "[[points]]\nmode = 'bandwidth'\nkvstore = 'dist_sync'\n", "does not train"),
        (TRAINED + "[[points]]\nglobal_batch_fixed = 8\n", "(--auto-batch finds the latter)"),
        (TRAINED + "[[points]]\noptions = ['--auto-batch=4']\n", "a field of the trial determines"),
    ],
)
def test_a_sweep_for_which_no_batch_can_be_found_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    monkeypatch.chdir(ROOT)
    code, line = refusal(
        fabfile.bench.bench_sweep,
        sweep_file(tmp_path, text),
        [],
        run=f"{tmp_path}/r",
        auto_batch="4",
    )
    assert code == 2
    assert said in line


def test_hosts_and_wrong_numbers_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    path = sweep_file(tmp_path, TRAINED + "[[points]]\n")
    for options, said in (
        ({"hosts": "192.0.2.1:2", "auto_batch": "4"}, "Run 'python -m bench.auto_batch' on a host"),
        ({"auto_batch": "many"}, "--auto-batch: expected a whole number, 1 to 65536, got 'many'"),
    ):
        code, line = refusal(fabfile.bench.bench_sweep, path, [], run=f"{tmp_path}/r", **options)
        assert code == 2
        assert said in line


@pytest.mark.slow
@pytest.mark.mxnet
def test_all_points_of_a_network_get_the_batch_that_was_found_and_keep_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    text = TRAINED + "[[points]]\ndevices = [1]\n" + "[[points]]\nkvstore = 'dist_sync'\n"
    path = sweep_file(tmp_path, text.replace("batch_per_device = 4", "image_shape = [3, 32, 32]"))
    for tries in (("1", "1", "2"), ()):
        fabfile.bench.bench_sweep.body(
            Context(), path, [], run=f"{tmp_path}/run", auto_batch="2", repeats="1"
        )
        out, err = capsys.readouterr()
        said = [line for line in err.splitlines() if line.endswith("per device fits")]
        assert said == [f"tiny float32: {one} per device fits" for one in dict.fromkeys(tries)]
        assert "tiny float32: 2 images per device" in out
    assert "(found earlier in this run)" in out
    lines = (tmp_path / "run" / "records.jsonl").read_text().splitlines()
    assert [json.loads(line)["trial"]["batch_per_device"] for line in lines] == [2, 2]
    assert {json.loads(line)["status"] for line in lines} == {"ok"}


def limited(*words: str) -> subprocess.CompletedProcess[str]:
    """Train with 1.6 GB of data memory."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (1600 * MB, 1600 * MB))

    network = ["--network=tiny", "--num-classes=10", "--kv-store=local", "--benchmark=1"]
    return subprocess.run(
        [sys.executable, "-m", "bench.train_imagenet", *network, "--windows=1", *words],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        preexec_fn=limit,
        capture_output=True,
        text=True,
        check=False,
    )


def found_batch(tmp_path: Path, *words: str) -> tuple[int, dict[int, bool]]:
    """Return the batch that training found, and whether each tried one fits."""
    done = limited("--auto-batch", *words, f"--model-prefix={tmp_path}/m")
    assert done.returncode == 0, done.stderr
    tries, _, _ = done.stderr.partition(" images per device: --batch-size ")
    tried = {int(line.split()[0]): "not" not in line for line in tries.splitlines()[:-1]}
    found = max(batch for batch, fits in tried.items() if fits)
    assert f"{found} images per device: --batch-size {found}" in done.stderr
    assert f"worker batch {found}" in done.stdout
    assert len(list(tmp_path.glob("m-*.params"))) == 1
    return found, tried


@pytest.mark.mxnet
def test_training_finds_its_batch_says_it_and_trains_with_it(tmp_path: Path) -> None:
    assert found_batch(tmp_path, "1", "--image-shape=3,32,32") == (1, {1: True})


@pytest.mark.mxnet
@pytest.mark.slow
def test_training_finds_the_largest_batch_that_fits(tmp_path: Path) -> None:
    """Takes half a minute, because each image takes a second."""
    found, tried = found_batch(tmp_path, "9", "--image-shape=3,1800,1800")
    assert tried[found + 1] is False


@pytest.mark.mxnet
@pytest.mark.slow
@pytest.mark.parametrize("kib", [1850000, 1900000, 2100000, 2400000, 2700000, 3200000])
def test_under_ulimit_v_the_batch_found_trains_and_twice_that_does_not(kib: int) -> None:
    network = "--network=tiny --num-classes=10 --image-shape=3,1800,1800 --kv-store=local"

    def run(module: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", f"bench.{module}", *network.split(), "--benchmark=1", *words],
            cwd=ROOT,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (kib * 1024, kib * 1024)),
            capture_output=True,
            text=True,
            check=False,
        )

    done = run("auto_batch")
    if "not even a batch of 1" in done.stderr:
        assert run("train_imagenet", "--windows=4", "--batch-size=1").returncode
        return
    found = int(done.stdout.split()[0])
    assert run("train_imagenet", "--windows=4", f"--batch-size={found}").returncode == 0
    assert run("train_imagenet", "--windows=4", f"--batch-size={2 * found}").returncode


@pytest.mark.program
def test_a_batch_is_given_or_found_not_both() -> None:
    done = limited("--auto-batch", "--batch-size=3")
    assert done.returncode == 2
    assert "--batch-size: not allowed with argument --auto-batch" in done.stderr
    assert limited("--auto-batch", "--kv-store=dist_sync").returncode == 2
    with pytest.raises(SpecError, match="--auto-batch: expected 0 or more, got -1"):
        parse(["--benchmark=1", "--windows=1", "--auto-batch=-1"])
    with pytest.raises(SpecError, match="options: a field of the trial determines --auto-batch"):
        make({"batch_per_device": 1, "options": ["--auto-batch=3"]})


@pytest.mark.program
def test_no_batch_fits_if_servers_take_all_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel treats a limit of 0 bytes as no limit."""
    monkeypatch.setattr(auto_batch, "free_bytes", lambda: 100 * MB)
    assert find(hungry(servers=8)) == 1


def test_tries_of_a_continued_training_have_the_network_of_its_checkpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[BatchProbe] = []

    def find(probe: BatchProbe, most: int) -> int:
        tried.append(probe)
        return 4

    monkeypatch.setattr(auto_batch, "find", find)
    words = ["--data-train=x", "--model-prefix=m", "--load-epoch=1", "--auto-batch"]
    network = ["--network=resnet", "--num-layers=18", "--image-shape=3,64,64"]
    batch = auto_batch.sized(parse([*words, *network]), words)
    assert batch == [*words[:-1], "--batch-size=4"]
    assert tried[0].command[-2:] == ("--network=resnet-18", "--image-shape=3,64,64")
