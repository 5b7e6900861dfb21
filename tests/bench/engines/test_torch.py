"""Engine `torch` on the controller, which needs no PyTorch."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench import libraries, train_imagenet
from bench.engines.catalog import ENGINES
from bench.engines.torch import TORCH
from bench.errors import SpecError
from bench.sweep import load_sweep
from bench.training.options import parse
from bench.trial import Trial, make
from launch import setup
from launch.hosts import Host, pretend
from launch.job.plan import plan
from launch.preflight.findings import HostReport, Requirements, compare_hosts, problems
from launch.remote.errors import LaunchError
from plots.figures.caption import hardware
from tests.support.hosts.host_reports import FIT

pytestmark = pytest.mark.pythons
FOUND = FIT | {"torch": "2.13.0+cpu", "torch_cuda": ""}


def trial(**fields: Any) -> Trial:
    return make({"engine": "torch", "batch_per_device": 8, "devices": 2} | fields)


def test_each_device_has_a_worker_and_gradients_go_by_ddp() -> None:
    assert (trial().comm.name, trial().workers, trial().servers) == ("ddp", 2, 0)
    assert (trial(devices=1).comm.name, trial(device="gpu").workers) == ("none", 2)
    assert trial(devices=1, kvstore="ddp").comm.spans


def test_workers_meet_at_the_first_and_find_their_interface_by_address() -> None:
    first, *_, last = plan(trial(devices=4, devices_per_host=2), pretend(2, 2), 7000)
    root = {"MASTER_ADDR": first.host.address, "MASTER_PORT": "7000", "WORLD_SIZE": "4"}
    assert first.env.items() >= {**root, "RANK": "0"}.items()
    assert last.env["RANK"] == "3"
    assert last.env["MXSCALE_ADDRESS"] == last.host.address != first.host.address
    assert (first.listens, last.listens) == (f"{first.host.address}:7000", "")
    assert {"RANK", "WORLD_SIZE"} <= set(last.foreign)
    assert "RANK" not in plan(trial(devices=1), pretend(1, 1), 7000)[0].env


def test_a_worker_reads_the_options_that_the_trial_has() -> None:
    one = trial(
        channels_last=True,
        compile=True,
        gc_type="fp16",
        dtype="bfloat16",
        options=["--optimizer=nag"],
    )
    module, *rest = TORCH.command(one, "worker", 0)[1:]
    found = parse(rest)
    assert module == "bench.train_imagenet"
    assert (found.engine, found.kv_store, found.gc_type) == ("torch", "ddp", "fp16")
    assert (found.channels_last, found.compile, found.dtype) == (True, True, "bfloat16")
    assert found.optimizer == "nag"
    assert parse(["--engine=torch", "--benchmark=1", "--windows=1"]).kv_store == "none"


READING = {"mode": "test-io", "data_train": "x", "devices": 1, "kvstore": "none"}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"kvstore": "dist_sync"},
            "kvstore: expected one of none, ddp .*, got 'dist_sync'. Use 'ddp', or engine 'mxnet'",
        ),
        ({"kvstore": "none"}, "at most 1 with kvstore 'none', .* Use kvstore 'ddp'"),
        ({"gc_type": "2bit"}, "expected one of none, fp16, bf16, powersgd .* got '2bit'"),
        ({"gc_type": "fp16", "devices": 1}, "expected kvstore 'ddp' for fp16, got 'none'"),
        ({"gc_type": "bf16"}, "PyTorch compresses to bf16 on GPUs only. Use fp16"),
        ({"gc_type": "powersgd", "network": "alexnet"}, "fails on CPUs for alexnet, whose grad"),
        ({"devices_per_worker": 2}, "expected 1, got 2. Leave it out: each device has a process"),
        ({"mode": "bandwidth"}, "'synthetic', 'real' or 'test-io' with engine 'torch'"),
        ({**READING, "devices": 2}, "devices: expected 1 with mode 'test-io' and .*, got 2"),
        ({**READING, "compile": True}, "compile: mode 'test-io' has no use for it. Leave it out"),
        ({"gc_type": "fp16", "gc_threshold": 0.1}, "gc_threshold: expected gc_type '2bit', got"),
        ({"servers_per_host": 1}, "engine 'torch' has no servers"),
        ({"costs": "upstream"}, "costs: expected engine 'mxnet', got 'torch'"),
        ({"env": ["RANK=3"]}, "the launcher sets RANK"),
        ({"env": ["DMLC_LOCAL=1"]}, "PyTorch ignores DMLC_LOCAL"),
        ({"options": ["--optimizer=lamb"]}, "one of sgd, nag, adam with engine 'torch', got lamb"),
        ({"options": ["--monitor=3"]}, "--monitor: expected engine 'mxnet', got 'torch'"),
        ({"options": ["--engine=mxnet"]}, "a field of the trial determines --engine"),
    ],
)
def test_what_pytorch_lacks_is_refused_before_anything_starts(
    fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(SpecError, match=said) as raised:
        trial(**fields)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"kvstore": "ddp"},
            "kvstore 'ddp': expected engine 'torch', got 'mxnet'. Use engine 'torch'",
        ),
        (
            {"gc_type": "fp16", "kvstore": "dist_sync"},
            "expected one of none, 2bit, ternary with engine 'mxnet', got 'fp16'",
        ),
        ({"channels_last": True}, "channels_last: expected engine 'torch', got 'mxnet'"),
        ({"compile": True}, "compile: expected engine 'torch', got 'mxnet'"),
    ],
)
def test_what_mxnet_lacks_is_refused_too(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        make({"batch_per_device": 8} | fields)


def test_powersgd_needs_gradients_of_one_bucket_on_cpus_only() -> None:
    assert trial(gc_type="powersgd", network="tiny").training.gc_type == "powersgd"
    gpus = trial(gc_type="powersgd", network="alexnet", device="gpu")
    assert gpus.training.gc_type == "powersgd"


def test_the_new_fields_leave_the_keys_of_points() -> None:
    assert make({"batch_per_device": 8}).key == "982ccc928c6b"
    assert len({trial().key, trial(compile=True).key, trial(channels_last=True).key}) == 3


def test_a_sweep_mixes_engines_and_is_simulated_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        "batch_per_device = 8\n[[points]]\nengine = ['mxnet', 'torch']\ndevices = 1\n"
        "[[points]]\nengine = 'torch'\ndevices = 2\nchannels_last = true"
    )
    trials = load_sweep(str(path)).trials
    assert [(one.engine, one.comm.name) for one in trials] == [
        *(("mxnet", "local"), ("torch", "none"), ("torch", "ddp")),
    ]
    last = load_sweep("compare-engines", engine="fake").trials[-1]
    assert (last.engine, last.comm.name, last.workers) == ("fake", "ddp", 2)
    path.write_text("batch_per_device = 8\nengine = ['mxnet', 'pytorch']\n[[points]]\ndevices = 1")
    with pytest.raises(SpecError, match="unknown engine 'pytorch'"):
        load_sweep(str(path))


def test_both_engines_of_the_comparison_have_the_same_points() -> None:
    trials = load_sweep("compare-engines").trials
    plain = [one for one in trials if not one.torch.channels_last]
    points = [
        sorted(
            (one.label, one.comm.spans, one.workers, one.global_batch)
            for one in plain
            if one.engine == engine
        )
        for engine in ("mxnet", "torch")
    ]
    assert points[0] == points[1]
    assert len(points[0]) == 9


def test_a_host_without_pytorch_or_with_a_build_for_cpu_is_one_problem() -> None:
    wanted = Requirements(code="c0de", engines=(TORCH,))
    assert problems(FOUND | {"mxnet": "", "dist_kvstore": False}, wanted) == []
    (problem,) = problems(FIT, wanted)
    assert "(it has no torch). Run 'fab hosts.install --engine torch' with" in problem
    gpu = {"index": "0", "name": "NVIDIA H200", "compute_cap": "9.0"}
    (problem,) = problems(FOUND | {"gpus": [gpu]}, replace(wanted, device="gpu"))
    assert "PyTorch 2.13.0+cpu was built without CUDA" in problem
    build = FOUND | {"gpus": [gpu], "torch_cuda": "13.0"}
    assert problems(build, replace(wanted, device="gpu")) == []
    archs = {"torch_archs": ["sm_80", "sm_86"]}
    (problem,) = problems(build | archs, replace(wanted, device="gpu"))
    assert "compute capability 9.0; PyTorch 2.13.0+cpu holds code for sm_80, sm_86" in problem


@pytest.mark.parametrize(
    ("capability", "archs", "runs"),
    [
        ("9.0", ["sm_80", "sm_90"], True),
        ("8.6", ["sm_80"], True),  # code for a lower minor version runs
        ("8.0", ["sm_86"], False),
        ("9.0", ["sm_80"], False),
        ("9.0", ["compute_80"], True),  # the driver compiles it
        ("7.0", ["compute_80"], False),
        ("9.0", ["sm_90a"], True),
        ("12.1", ["sm_90a", "sm_120"], True),
        ("12.1", ["sm_120a"], False),  # for that chip alone
        ("10.3", ["sm_100f"], True),
        ("9.0", ["gfx90a"], False),
        ("7.5", [], True),  # of the locked version
        ("7.0", [], False),
        ("?", ["sm_90"], True),
    ],
)
def test_the_architectures_of_a_build_decide_which_gpus_it_computes_on(
    capability: str, archs: list[str], runs: bool
) -> None:
    gpu = {"index": "0", "name": "a GPU", "compute_cap": capability}
    why = TORCH.no_code(gpu, {"torch": "2.13.0+cu130", "torch_archs": archs})
    assert (why == "") == runs, why


@pytest.mark.parametrize(("own", "bad"), [({"torch": "2.13.0+cpu"}, 1), ({"torch": ""}, 0)])
def test_versions_of_pytorch_must_agree_where_it_is_used(own: dict[str, str], bad: int) -> None:
    hosts = [
        HostReport(
            host=Host(name=name, address="", cpus=2, gpus=0), facts=FOUND | {"torch": version}
        )
        for name, version in (("a", "2.13.0+cpu"), ("b", "2.11.0"))
    ]
    found = compare_hosts(hosts, own)
    lines = [problem for one in found for problem in one.problems]
    assert len(lines) == bad
    for line in lines:
        assert "differs from the controller: PyTorch 2.11.0, the controller has 2.13.0" in line
        assert line.endswith("Run 'fab hosts.install --engine torch' with the same hosts")


@pytest.mark.parametrize(
    ("given", "got"),
    [
        ((), "got none of them. Use"),
        (("RANK", "WORLD_SIZE"), "got all but MASTER_ADDR, MASTER_PORT. Use"),
    ],
)
def test_a_worker_typed_by_hand_names_the_variables_that_are_missing(
    given: tuple[str, ...],
    got: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name in given:
        monkeypatch.setenv(name, "1")
    monkeypatch.setattr(os, "_exit", sys.exit)
    monkeypatch.setattr(train_imagenet, "install_filter", lambda: None)
    words = ["--engine=torch", "--kv-store=ddp", "--benchmark=1", "--windows=1"]
    monkeypatch.setattr(sys, "argv", ["train_imagenet", *words])
    with pytest.raises(SystemExit):
        train_imagenet.main(parse)
    assert got in capsys.readouterr().err


def test_a_sweep_on_this_machine_needs_the_packages_of_its_engines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(setup, "installed_version", lambda package: package == "mxnet" and "1")
    with pytest.raises(LaunchError, match=r"engine 'torch': expected PyTorch.* Run 'make torch'"):
        setup.local_setup(load_sweep("compare-engines"))


def test_facts_of_a_build_for_cpu_need_no_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "torch"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(libraries, "find_spec", lambda name: None)
    assert libraries.torch() == libraries.mxnet() == {}
    found = type("Spec", (), {"origin": str(folder / "__init__.py")})
    monkeypatch.setattr(libraries, "find_spec", lambda name: found)
    assert libraries.torch() == {}
    (folder / "version.py").write_text("__version__ = '2.13.0'\ncuda = None\n")
    assert libraries.torch() == {"torch": "2.13.0", "torch_cuda": ""}


def test_a_build_for_gpus_tells_its_architectures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = tmp_path / "version.py"
    version.write_text("__version__ = '2.13.0'\ncuda = '13.0'\n")
    built = SimpleNamespace(_C=SimpleNamespace(_cuda_getArchFlags=lambda: "sm_80 sm_90"))
    monkeypatch.setitem(sys.modules, "torch", built)
    found = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(libraries, "find_spec", lambda name: found)
    facts = {"torch": "2.13.0", "torch_cuda": "13.0", "torch_archs": ["sm_80", "sm_90"]}
    assert libraries.torch() == facts
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
    assert libraries.torch()["torch_archs"] == []


def test_captions_and_the_wire() -> None:
    assert hardware({"torch": "2.13.0+cpu"}) == "PyTorch 2.13.0+cpu"
    ddp = TORCH.comms["ddp"]
    assert [TORCH.wire_bytes(ddp, kind, 800) for kind in ("none", "fp16")] == [800, 400]
    assert TORCH.wire_bytes(TORCH.comms["none"], "none", 800) == 0
    assert ENGINES["torch"] is TORCH
