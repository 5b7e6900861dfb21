"""MXNet itself, the networks, and a worker from the command line."""

import math
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.networks import NETWORKS, named
from tests.support.paths import ROOT
from tests.support.training.workers import photos, trained

pytestmark = pytest.mark.mxnet


def worker(*words: str) -> subprocess.CompletedProcess[str]:
    """Run bench.train_imagenet from the command line."""
    return subprocess.run(
        [sys.executable, "-m", "bench.train_imagenet", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.pythons
def test_numpy_is_as_before_once_mxnet_is_imported() -> None:
    code = (
        "import numpy, warnings; before = dict(vars(numpy)); shown = list(warnings.filters)\n"
        "from bench.training.mxnet_shim import mx\n"
        "changed = [n for n, v in before.items() if vars(numpy).get(n) is not v]\n"
        "print(changed, [n for n in ('bool', 'PZERO', 'product') if n in vars(numpy)])\n"
        "print(numpy.bool is numpy.bool_, hasattr(numpy, 'PZERO'), warnings.filters == shown)\n"
        "print(mx.nd.ones(3).sum().asscalar())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["[] ['bool']", "True False True", "3.0"]
    assert "Warning" not in done.stderr


def test_what_mxnet_rarely_uses_is_imported_once_it_is_used() -> None:
    code = (
        "import sys\n"
        "from bench.training.mxnet_shim import mx\n"
        "print([one for one in ('requests', 'scipy.sparse', 'scipy.stats')"
        " if one in sys.modules])\n"
        "print(mx.test_utils.ss.norm.cdf(0.0))\n"
        "import scipy.sparse, scipy.stats.distributions\n"
        "print(mx.nd.sparse.array(scipy.sparse.csr_matrix([[0, 1], [2, 0]])).asnumpy().tolist())\n"
        "print(mx.test_utils.ss is not scipy.stats, mx.test_utils.ss.norm is scipy.stats.norm)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["[]", "0.5", "[[0, 1], [2, 0]]", "True True"]


def test_an_operator_is_compiled_at_its_first_call() -> None:
    code = (
        "import sys; texts = []\n"
        "def watch(event, args):\n"
        "    if event == 'compile' and args[1] == '<string>': texts.append(args[0])\n"
        "sys.addaudithook(watch)\n"
        "from bench.training.mxnet_shim import mx\n"
        "print(len(texts) < 200); texts.clear(); one = mx.nd.array([-1, 2])\n"
        "mx.nd.relu(one); known = len(texts)\n"
        "print(mx.nd.relu(one).asnumpy().tolist(), len(texts) - known, known > 0)\n"
        "print(mx.nd.relu.__name__, 'rectified linear' in mx.nd.relu.__doc__)\n"
        "print(mx.sym.relu(mx.sym.Variable('x')).list_arguments())\n"
        "try: mx.nd.relu('text')\n"
        "except AssertionError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "True",
        "[0.0, 2.0] 0 True",
        "relu True",
        "['x']",
        "Argument data must have NDArray type, but got text",
    ]


def test_mxnet_is_imported_without_scipy_too() -> None:
    code = (
        "import sys; sys.modules['scipy'] = None\n"
        "from bench.training.mxnet_shim import mx\n"
        "print(mx.nd.array([1, 2]).sum().asscalar())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "3.0\n"


def in_environment(code: str, tmp_path: Path, hook: str = "_mxscale_mxnet") -> list[str]:
    """Run code in another folder, with the hook installed."""
    site = tmp_path / "site"
    site.mkdir()
    shutil.copy(ROOT / "bench" / "mxnet_import.py", site / f"{hook}.py")
    (site / f"{hook}.pth").write_text(f"import {hook}\n")
    first = f"import site, sys; site.addsitedir({str(site)!r})\n"
    done = subprocess.run(
        [sys.executable, "-I", "-c", first + code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.pythons
def test_any_program_of_the_environment_imports_mxnet(tmp_path: Path) -> None:
    code = (
        "print('numpy' in sys.modules, 'typing' in sys.modules)\n"
        "import mxnet as mx, numpy\n"
        "print(mx.nd.ones(3).sum().asscalar(), hasattr(numpy, 'PZERO'), mx.__file__[-17:])\n"
        "import inspect; print('Apache License' in inspect.getsource(mx))"
    )
    assert in_environment(code, tmp_path) == [
        "False False",
        "3.0 False mxnet/__init__.py",
        "True",
    ]


def test_without_mxnet_its_import_fails_as_usual(tmp_path: Path) -> None:
    code = (
        "sys.path[:] = [one for one in sys.path if not one.endswith('-packages')]\n"
        "try: import mxnet\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    assert in_environment(code, tmp_path) == ["No module named 'mxnet'"]


@pytest.mark.parametrize(
    ("name", "arrays", "megabytes"),
    [
        ("alexnet", 16, 203.4),
        ("inception-v3", 284, 95.3),
        ("resnet-152", 463, 240.7),
        ("resnet-18", 61, 46.8),
        ("resnet-34", 109, 87.2),
        ("resnet-50", 157, 102.2),
        ("resnet-101", 310, 178.2),
        ("vgg-16", 32, 553.4),
        ("mobilenet", 83, 16.9),
        ("tiny", 8, 0.4),
    ],
)
def test_a_network_has_the_published_size(name: str, arrays: int, megabytes: float) -> None:
    from bench.training.mxnet_shim import mx  # noqa: PLC0415

    family, layers = named(name)
    net = NETWORKS[family].build(num_classes=1000, num_layers=layers)
    shape = (1, *NETWORKS[family].image_shape)
    symbol = net(mx.sym.var("data"))
    arguments, outputs, _ = symbol.infer_shape(data=shape)
    assert outputs == [(1, 1000)]
    shapes = dict(zip(symbol.list_arguments(), arguments, strict=True))
    trained = [one.name for one in net.collect_params().values() if one.grad_req != "null"]
    sizes = [math.prod(shapes[one]) for one in trained]
    assert len(trained) == arrays
    assert round(sum(sizes) * 4 / 1e6, 1) == pytest.approx(megabytes, abs=0.051)
    if name == "alexnet":
        assert round(sum(sizes) / 1e6, 2) == 50.84


def test_a_worker_typed_by_hand_prints_its_own_summary() -> None:
    words = "--network tiny --batch-size 4 --benchmark 1 --windows 3 --kv-store local"
    done = worker(*words.split(), "--disp-batches", "1")
    assert done.returncode == 0
    assert re.fullmatch(
        r"[\d.]+ images/s trained: 12 images in 3 windows after a warm-up of 1; worker batch 4\n",
        done.stdout,
    )
    assert done.stderr.count("images/s on this worker, loss") == 4


def test_a_worker_typed_by_hand_says_what_is_wrong_in_one_line(tmp_path: Path) -> None:
    cut = tmp_path / "cut.rec"
    cut.write_bytes(bytes.fromhex("0a23d7ce40000000") + b"too short")
    for words, said in (
        (
            ("--benchmark", "1", "--windows", "1", "--kv-store", "dist_sync"),
            "(DMLC_ROLE=worker, ",
        ),
        (("--data-train", str(cut), "--kv-store", "local"), "truncated"),
    ):
        done = worker("--network", "tiny", "--batch-size", "4", *words)
        assert done.returncode == 2
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert done.stdout == ""


def test_the_network_is_saved_as_mxnet_loads_it(tmp_path: Path, photographs: Path) -> None:
    trained(*photos(photographs), "--num-epochs=2", "--num-examples=48", f"--model={tmp_path}/tiny")
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        *("tiny-symbol.json", "tiny-mxscale.json"),
        *("tiny-0001.params", "tiny-0002.params"),
        *("tiny-0001.optimizer", "tiny-0002.optimizer"),
    }
    from bench.training.mxnet_shim import mx  # noqa: PLC0415

    symbol, arguments, _ = mx.model.load_checkpoint(str(tmp_path / "tiny"), 2)
    assert len(arguments) == 8
    assert symbol.list_outputs()
