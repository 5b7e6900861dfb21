"""The check of a GPU: its steps on CPUs, its deadlines and its table."""

import csv
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.sweep import load_sweep
from tests.support.paths import ROOT

CHECK: dict[str, Any] = runpy.run_path(str(ROOT / "tools" / "gpu_check.py"))
SLEEP = (sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(600)")


def step(name: str, *command: str, seconds: float = 60.0) -> Any:
    return CHECK["Step"](name=name, command=command, seconds=seconds)


@pytest.mark.parametrize("bfloat16", [True, False])
def test_the_sweep_for_cpus_has_the_same_kinds_of_points(tmp_path: Path, bfloat16: bool) -> None:
    full = load_sweep("gpu-check").trials
    path = tmp_path / "short.toml"
    text = (ROOT / "bench" / "sweeps" / "gpu-check.toml").read_text()
    path.write_text(CHECK["short"](text, bfloat16=bfloat16))
    small = load_sweep(str(path)).trials

    def kinds(trials: Any) -> set[Any]:
        names = ["mode", "kvstore", "devices", "emulate", "channels_last", "compile"]
        names += ["dtype"] if bfloat16 else []
        return {tuple(trial.value(name) for name in names) for trial in trials}

    assert kinds(small) == kinds(full)
    assert {one.layout.device for one in full} == {"gpu"}
    assert {one.layout.device for one in small} == {"cpu"}
    assert {one.model.network for one in small} == {"tiny"}
    with pytest.raises(ValueError, match="Correct tools/gpu_check"):
        CHECK["short"]('device = "cpu"', bfloat16=bfloat16)
    assert bfloat16 or {one.training.dtype for one in small} == {"float32"}


def test_a_step_that_fails_or_exceeds_its_deadline_is_one_line(tmp_path: Path) -> None:
    words = "print('a'); print('error: no GPU. Fix it'); raise SystemExit(3)"
    failed = CHECK["perform"](step("x", sys.executable, "-c", words), tmp_path / "x.log", 60.0)
    assert (failed.state, failed.line) == ("failed", "error: no GPU. Fix it")
    late = CHECK["perform"](step("y", *SLEEP, seconds=1.5), tmp_path / "y.log", 60.0)
    assert late.state == "timeout"
    missing = CHECK["perform"](step("z", "/no/such/program"), tmp_path / "z.log", 60.0)
    assert missing.state == "failed"
    assert "/no/such/program" in missing.line
    lines = CHECK["table"]([failed, late], ["a note"])
    assert lines[2].startswith("| x | failed | ")
    assert lines[-1] == "- a note"


def test_a_line_of_output_is_its_error_throughput_or_end() -> None:
    telling = CHECK["telling"]
    assert telling("a\nerror: b\n\nerror: c\n") == "error: b"
    assert telling("x: 3 images/s\ny: 4 images/s\nbatch  images/s\n") == "y: 4 images/s"
    problem = "vm: expected a GPU, got none from the driver. Set device = 'cpu'"
    assert telling(f"host  address\nvm  1\n{problem}\n0 of 1 hosts are ready\n") == problem
    assert telling("a\nb\n\n") == "b"
    assert telling("") == ""


def test_points_without_a_result_are_named(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    with path.open("w") as file:
        rows = csv.writer(file)
        rows.writerow(("network", "kvstore", "devices", "status"))
        rows.writerows([("tiny", "none", "1", "ok"), ("alexnet", "ddp", "2", "failed")])
    assert CHECK["counted"](path) == "1 of 2 points have a result; alexnet ddp x2: failed"


def test_samples_of_a_busy_gpu_become_notes() -> None:
    samples = "31, 345, 1980, 75.1, 0, 4\n61, 1980, 1980, 640.5, 99, 70211\n"
    samples += "68, 1755, 1980, 699.2, 100, 80000\n68, [N/A], 1980, 1, 100, 1\nbroken"
    assert CHECK["telemetry"](samples) == [
        "nvidia-smi: 2 of 3 samples of a busy GPU",
        "temperature: up to 68 °C",
        "SM clock: 1755 to 1980 MHz of 1980 MHz",
        "power: up to 699 W",
        "memory: up to 80000 MiB",
    ]
    assert CHECK["telemetry"]("") == ["nvidia-smi: 0 samples, none of a busy GPU"]


def test_on_a_gpu_the_steps_need_one_and_fill_its_memory(tmp_path: Path) -> None:
    found = {one.name: one for one in CHECK["steps"](tmp_path / "run", cpu=False)}
    assert "--gpu" in found["hosts.check"].command
    assert "--gpus=0" in found["auto-batch"].command
    assert sum(one.seconds for one in found.values() if not one.name.startswith("data.")) > 500
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.mxnet
def test_the_same_steps_run_on_cpus(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs PyTorch: make torch")
    words = ["--cpu", "--run", str(tmp_path / "run"), "--out", str(tmp_path / "out")]
    done = subprocess.run(
        [ROOT / "tools" / "gpu-check", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| report | ok |" in done.stdout
    assert re.search(r"\b([78]) of \1 points have a result", done.stdout)  # 7 without bfloat16
    assert (tmp_path / "out" / "report" / "report.md").is_file()
    assert "| sweep | ok |" in (tmp_path / "out" / "gpu-check.md").read_text()
