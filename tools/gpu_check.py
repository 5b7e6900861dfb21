"""Check the GPU path of engine `torch`: tools/gpu-check, in under ten minutes.

    tools/gpu-check          check and measure on the first GPU; write docs/runs/gpu
    tools/gpu-check --cpu    run the same steps, small, on CPUs, which tests this script alone

Each step is a task of its own with a deadline. A step that fails is one line of the table at the
end, and the others go on. Run the command again to complete what a deadline cut off; it does not
repeat steps that succeeded.
"""

import argparse
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.training.startup import cpu_flags, newest_instruction_set

ROOT = Path(__file__).resolve().parent.parent
_SWEEP = ROOT / "bench" / "sweeps" / "gpu-check.toml"
_SHARDS = Path("data", "sample_rec", "train")
# What shortens the sweep for CPUs: lines of the file, and what replaces them.
_SHORT = (
    ('device = "gpu"', 'device = "cpu"\nimage_shape = [3, 64, 64]'),
    ("{ alexnet = 512, resnet-50 = 32, resnet-152 = 32, tiny = 32 }", "4"),
    ("windows = 1000", "windows = 3"),
    ("budget_seconds = 8.0", "budget_seconds = 1.0"),
    ("steps_per_window = 100\n", ""),
    ('["alexnet", "resnet-50", "resnet-152"]', '"tiny"'),
    ('network = "resnet-50"', 'network = "tiny"'),
)
_NO_BFLOAT16 = (('["float32", "bfloat16"]', '"float32"'), ('"bfloat16"', '"float32"'))
# Files of a run that docs/runs keeps.
_KEPT = (
    *("asked.json", "environment.json", "records.jsonl", "sweep.toml"),
    *(f"report/{name}" for name in ("report.md", "results.csv", "scaling.svg", "scaling.png")),
)
# Steps whose whole output it keeps.
_KEPT_OUTPUT = ("hosts.check", "bench.io", "auto-batch")
_TOTAL_SECONDS, _REPORT_SECONDS, _END_SECONDS = 560.0, 30.0, 20.0
_QUERY = ("temperature.gpu", "clocks.sm", "clocks.max.sm", "power.draw", "utilization.gpu")
_QUERIED = (*_QUERY, "memory.used")
_BUSY_PERCENT = 50.0
_MOST_LETTERS = 200


@dataclass(frozen=True, kw_only=True)
class Step:
    """A command with its deadline in seconds."""

    name: str
    command: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a step: ok, failed, timeout or skipped, with one line."""

    name: str
    state: str
    seconds: float = 0.0
    line: str = ""


def short(text: str, *, bfloat16: bool) -> str:
    """Return the sweep for CPUs; ValueError if it has changed.

    bfloat16  whether the CPUs have it
    """
    for before, after in (*_SHORT, *(() if bfloat16 else _NO_BFLOAT16)):
        if before not in text:
            raise ValueError(f"{_SWEEP}: expected {before!r}, got none. Correct tools/gpu_check.py")
        text = text.replace(before, after)
    return text


def steps(run: Path, *, cpu: bool) -> list[Step]:
    """Return the steps before the report, the longest one last."""
    fab = (sys.executable, "-m", "fabric")
    sweep = _SWEEP
    if cpu:
        sweep = run.with_name(f"{run.name}.toml")
        sweep.parent.mkdir(parents=True, exist_ok=True)
        capable = newest_instruction_set(cpu_flags()).startswith("AVX512")
        sweep.write_text(short(_SWEEP.read_text(), bfloat16=capable))
    gpu = () if cpu else ("--gpu",)
    auto = (sys.executable, "-m", "bench.auto_batch", "--engine=torch")
    # Large images: a GPU of any size is full after few tries.
    large = ("--network=resnet-152", "--image-shape=3,1792,1792", "--gpus=0")
    small = ("--network=tiny", "--image-shape=3,32,32", "--auto-batch=2")
    made = [
        Step(name="hosts.check", command=(*fab, "hosts.check", "--engine=torch", *gpu), seconds=60),
        Step(
            name="data.sample",
            command=(*fab, "data.sample", "data/sample"),
            seconds=60,
        ),
        Step(
            name="data.prepare",
            command=(*fab, "data.prepare", "data/sample", "--val-per-class=12"),
            seconds=60,
        ),
        Step(
            name="bench.io",
            command=(*fab, "bench.io", str(_SHARDS), "--engine=torch"),
            seconds=90,
        ),
        Step(name="auto-batch", command=(*auto, *(small if cpu else large)), seconds=200),
        Step(
            name="sweep",
            command=(*fab, "bench.sweep", str(sweep), f"--run={run}", "--in-order"),
            seconds=_TOTAL_SECONDS,
        ),
    ]
    packed = any((ROOT / _SHARDS).glob("*.rec"))
    return [one for one in made if not (packed and one.name.startswith("data."))]


def perform(step: Step, log: Path, seconds: float) -> Outcome:
    """Run a step; end all of its processes at the deadline or an interrupt."""
    began = time.monotonic()
    if shutil.which(step.command[0]) is None:
        return Outcome(name=step.name, state="failed", line=f"{step.command[0]}: no such program")
    with log.open("wb") as file:
        child = subprocess.Popen(
            step.command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = child.wait(min(step.seconds, seconds))
            state = "failed" if code else "ok"
        except subprocess.TimeoutExpired:
            state = "timeout"
        finally:
            if child.poll() is None:
                _end(child)
    spent = time.monotonic() - began
    return Outcome(name=step.name, state=state, seconds=spent, line=telling(log.read_text("utf-8")))


def _end(child: "subprocess.Popen[bytes]") -> None:
    """Interrupt a step as Ctrl-C does, so that a sweep can be resumed; then kill it."""
    os.killpg(child.pid, signal.SIGINT)
    try:
        child.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def telling(output: str) -> str:
    """Return an output's first error, last throughput or last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    # hosts.check lists problems by host.
    errors = [line for line in lines if line.startswith("error:") or ": expected " in line]
    rates = [line for line in lines if re.search(r"\d images/s", line)]
    return (errors[:1] or rates[-1:] or lines[-1:] or [""])[0][:_MOST_LETTERS]


def counted(results: Path) -> str:
    """Return how many points of a report have a result, and why others have none."""
    with results.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    bad = [row for row in rows if row["status"] != "ok"]
    named = [f"{row['network']} {row['kvstore']} x{row['devices']}: {row['status']}" for row in bad]
    return "; ".join([f"{len(rows) - len(bad)} of {len(rows)} points have a result", *named])


def telemetry(text: str) -> list[str]:
    """Return the notes on samples of nvidia-smi: heat, clock, power, load, memory."""
    rows = []
    for line in text.splitlines():
        try:
            rows.append(dict(zip(_QUERIED, map(float, line.split(",")), strict=True)))
        except ValueError:  # a header, or '[N/A]'
            continue
    busy = [row for row in rows if row["utilization.gpu"] >= _BUSY_PERCENT]
    if not busy:
        return [f"nvidia-smi: {len(rows)} samples, none of a busy GPU"]
    clocks, most = [row["clocks.sm"] for row in busy], max(row["clocks.max.sm"] for row in busy)
    return [
        f"nvidia-smi: {len(busy)} of {len(rows)} samples of a busy GPU",
        f"temperature: up to {max(row['temperature.gpu'] for row in busy):.0f} °C",
        f"SM clock: {min(clocks):.0f} to {max(clocks):.0f} MHz of {most:.0f} MHz",
        f"power: up to {max(row['power.draw'] for row in busy):.0f} W",
        f"memory: up to {max(row['memory.used'] for row in busy):.0f} MiB",
    ]


@contextmanager
def sampled(samples: Path) -> Iterator[None]:
    """Sample the first GPU every second during the block."""
    program = shutil.which("nvidia-smi")
    if program is None:
        yield
        return
    query = [
        f"--query-gpu={','.join(_QUERIED)}",
        "--format=csv,noheader,nounits",
        "--id=0",
        "--loop=1",
    ]
    with samples.open("ab") as file:
        child = subprocess.Popen([program, *query], stdin=subprocess.DEVNULL, stdout=file)
        try:
            yield
        finally:
            child.kill()
            child.wait()


def table(outcomes: Sequence[Outcome], notes: Sequence[str]) -> list[str]:
    """Return the summary as Markdown."""
    rows = ["| step | result | seconds | output |", "|---|---|--:|---|"]
    for one in outcomes:
        line = one.line.replace("|", "/")
        rows.append(f"| {one.name} | {one.state} | {one.seconds:.0f} | {line} |")
    return [*rows, "", *(f"- {note}" for note in notes)]


def copy(run: Path, logs: Path, out: Path, lines: Sequence[str]) -> None:
    """Copy the files of a run that are committed, outputs of steps, and the summary."""
    for name in _KEPT:
        if (run / name).is_file():
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(run / name, out / name)
    out.mkdir(parents=True, exist_ok=True)
    for name in _KEPT_OUTPUT:
        if (logs / f"{name}.log").is_file():
            shutil.copy(logs / f"{name}.log", out / f"{name}.txt")
    (out / "gpu-check.md").write_text("\n".join([*lines, ""]), "utf-8")


def check(run: Path, logs: Path, *, cpu: bool) -> tuple[list[Outcome], list[str]]:
    """Run all steps and the report; return the outcomes and the notes on the GPU."""
    began, outcomes = time.monotonic(), []
    samples, finished = logs / "nvidia-smi.csv", logs / "finished.json"
    known = json.loads(finished.read_text("utf-8")) if finished.is_file() else {}
    with sampled(samples):
        for step in steps(run, cpu=cpu):
            if step.name in known:
                outcomes.append(Outcome(**known[step.name]))
                continue
            left = _TOTAL_SECONDS - (time.monotonic() - began) - _REPORT_SECONDS
            if left <= 0:
                outcomes.append(Outcome(name=step.name, state="skipped", line="no time left"))
                continue
            print(f"{step.name} ...", flush=True)
            outcomes.append(perform(step, logs / f"{step.name}.log", left))
            ok = {one.name: asdict(one) for one in outcomes if one.state == "ok"}
            finished.write_text(json.dumps(ok), "utf-8")
    build = Step(
        name="report",
        command=(sys.executable, "-m", "fabric", "report.build", f"--run={run}"),
        seconds=_REPORT_SECONDS,
    )
    outcomes.append(perform(build, logs / "report.log", _REPORT_SECONDS))
    results = run / "report" / "results.csv"
    if results.is_file():
        last = outcomes.pop()
        outcomes.append(
            Outcome(name="report", state=last.state, seconds=last.seconds, line=counted(results))
        )
    return outcomes, telemetry(samples.read_text("utf-8")) if samples.is_file() else []


def main() -> None:
    """Check, print the table and copy the run; exit with 5 if a step has failed."""
    parser = argparse.ArgumentParser(prog="tools/gpu-check", description=__doc__.splitlines()[0])
    parser.add_argument("--cpu", action="store_true", help="run small steps on CPUs")
    parser.add_argument("--run", metavar="FOLDER", help="run folder [results/runs/gpu]")
    parser.add_argument("--out", metavar="FOLDER", help="folder to copy to [docs/runs/gpu]")
    typed = parser.parse_args()
    name = "gpu-check-cpu" if typed.cpu else "gpu"
    run = Path(typed.run or ROOT / "results" / "runs" / name).resolve()
    logs = run.with_name(f"{run.name}-logs")
    logs.mkdir(parents=True, exist_ok=True)
    try:
        outcomes, notes = check(run, logs, cpu=typed.cpu)
    except KeyboardInterrupt:
        print("interrupted; the same command continues", file=sys.stderr)
        sys.exit(130)
    lines = table(outcomes, notes)
    print(*lines, f"logs: {logs}", sep="\n")
    out = typed.out or (None if typed.cpu else ROOT / "docs" / "runs" / "gpu")
    if out:
        copy(run, logs, Path(out), lines)
        print(f"copied to {out}")
    sys.exit(5 * any(one.state != "ok" for one in outcomes))


if __name__ == "__main__":
    main()
