"""The largest batch that fits: as workers share memory, for every point of a sweep, in training."""

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
from bench.auto_batch import Tried, find, narrowed
from bench.errors import SpecError
from bench.options import parse
from bench.trial import make
from launch.hosts import ROOT
from tasks.fitting import Layout
from tests.test_fabfile import SWEEP, refusal, sweep_file

fabfile: Any = _fabfile
MB = 1_000_000
# Takes 20 MB an image, and 30 MB besides what Python has.
HUNGRY = """
import sys
batch = int(sys.argv[-1].removeprefix("--batch-size="))
try:
    taken = bytearray(30_000_000 + batch * 20_000_000)
    for page in range(0, len(taken), 4096):
        taken[page] = 1
except MemoryError:
    sys.exit("error: out of memory: it does not fit")
"""
TRAINED = SWEEP.replace("fake", "mxnet")


def hungry(**fields: Any) -> Tried:
    return Tried(command=(sys.executable, "-c", HUNGRY), **fields)


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_batch, "free_bytes", lambda: 1000 * MB)


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
    broken = Tried(command=(sys.executable, "-c", "import nothing_of_that_name"), name="x: ")
    with pytest.raises(SpecError, match="x: a batch of 1 a device fails for another reason: Mod"):
        find(broken)
    with pytest.raises(SpecError, match="not even a batch of 1 a device fits"):
        find(hungry(workers=30))
    monkeypatch.setattr(auto_batch, "_SECONDS", 0.2)
    with pytest.raises(SpecError, match=r"more than 0 s; say how much is enough: --auto-batch="):
        find(Tried(command=(sys.executable, "-c", "import time; time.sleep(60)")))


def test_a_layout_with_more_processes_speaks_for_those_with_fewer() -> None:
    full = Layout(devices=1, store="local", workers=2, servers=2)
    assert full.holds(Layout(devices=1, store="local", workers=1, servers=0))
    assert not full.holds(Layout(devices=2, store="local", workers=1, servers=0))
    assert not full.holds(Layout(devices=1, store="local", workers=4, servers=2))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (SWEEP + "[[points]]\n", "the fake engine takes no memory"),
        (TRAINED + "[[points]]\nmode = 'test-io'\ndata_train = 'x'\n", "x1 trains nothing"),
        (TRAINED + "[[points]]\nmode = 'bandwidth'\nkvstore = 'dist_sync'\n", "trains nothing"),
        (TRAINED + "[[points]]\nglobal_batch_fixed = 8\n", "(--auto-batch finds the latter)"),
        (TRAINED + "[[points]]\noptions = ['--auto-batch=4']\n", "follows from the trial's own"),
    ],
)
def test_a_sweep_for_which_no_batch_can_be_found_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    monkeypatch.chdir(ROOT)
    code, line = refusal(
        fabfile.bench_sweep, sweep_file(tmp_path, text), [], run=f"{tmp_path}/r", auto_batch="4"
    )
    assert code == 2
    assert said in line


def test_hosts_and_wrong_numbers_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    path = sweep_file(tmp_path, TRAINED + "[[points]]\n")
    for options, said in (
        ({"hosts": "192.0.2.1:2", "auto_batch": "4"}, "run 'python -m bench.auto_batch' on one"),
        ({"auto_batch": "many"}, "--auto-batch: expected a whole number, 1 to 65536, got 'many'"),
    ):
        code, line = refusal(fabfile.bench_sweep, path, [], run=f"{tmp_path}/r", **options)
        assert code == 2
        assert said in line


@pytest.mark.mxnet
def test_all_points_of_a_network_get_the_batch_that_was_found_and_keep_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    text = TRAINED + "[[points]]\ndevices = [1]\n" + "[[points]]\nkvstore = 'dist_sync'\n"
    path = sweep_file(tmp_path, text.replace("batch_per_device = 4", "image_shape = [3, 32, 32]"))
    for tries in (("1 a", "1 a", "2 a"), ()):
        fabfile.bench_sweep.body(
            Context(), path, [], run=f"{tmp_path}/run", auto_batch="2", repeats="1"
        )
        out, err = capsys.readouterr()
        said = [line for line in err.splitlines() if line.endswith("a device fits")]
        assert said == [f"tiny float32: {one} device fits" for one in dict.fromkeys(tries)]
        assert "tiny float32: 2 images a device" in out
    assert "as found before for this run" in out
    lines = (tmp_path / "run" / "records.jsonl").read_text().splitlines()
    assert [json.loads(line)["trial"]["batch_per_device"] for line in lines] == [2, 2]
    assert {json.loads(line)["status"] for line in lines} == {"ok"}


def limited(*words: str) -> subprocess.CompletedProcess[str]:
    """Training with 1.6 GB of data."""

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


@pytest.mark.mxnet
def test_training_finds_its_batch_says_it_and_trains_with_it(tmp_path: Path) -> None:
    words = ("--image-shape=3,1800,1800", f"--model-prefix={tmp_path}/m")
    done = limited("--auto-batch", "9", *words)
    assert done.returncode == 0, done.stderr
    tried = {int(line.split()[0]): "not" in line for line in done.stderr.splitlines()[:-1]}
    found = max(batch for batch, full in tried.items() if not full)
    assert tried[found + 1] is True
    assert f"{found} images a device: --batch-size {found}" in done.stderr
    assert f"worker batch {found}" in done.stdout
    assert len(list(tmp_path.glob("m-*.params"))) == 1


@pytest.mark.program
def test_a_batch_is_given_or_found_not_both() -> None:
    done = limited("--auto-batch", "--batch-size=3")
    assert done.returncode == 2
    assert "--batch-size: not allowed with argument --auto-batch" in done.stderr
    assert limited("--auto-batch", "--kv-store=dist_sync").returncode == 2
    with pytest.raises(SpecError, match="--auto-batch: expected 0 or more, got -1"):
        parse(["--benchmark=1", "--windows=1", "--auto-batch=-1"])
    with pytest.raises(SpecError, match="options: --auto-batch follows from"):
        make({"batch_per_device": 1, "options": ["--auto-batch=3"]})
