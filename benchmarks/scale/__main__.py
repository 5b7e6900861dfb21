"""Measure how the cost of reports, digests and resumed sweeps grows with a run.

Writes runs with artificial times into a folder, measures commands on them, and prints a table with
the growth exponent from each size to the next. A measured line is kept in measures.json of the
folder and is not measured again; delete it to start over. Results: docs/explanation/growth.md.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

from bench.engines.fake import FAKE
from bench.environment import describe
from bench.trial import make
from benchmarks.scale.costs import Cost, table
from benchmarks.scale.runs import (
    LOGGED_WINDOWS,
    Trials,
    families,
    one_family,
    timed,
    write_run,
    write_unfinished,
)
from launch.hosts import ROOT
from results.integrity import digest
from results.run_folder import DIGESTS, RECORDS, REPORT

_MEASURES = "measures.json"
_DEMO = ROOT / "docs" / "runs" / "demo"
_STARTS = 5
# Windows per rank of the run with the most ranks, which would otherwise take 12 GB.
_FEW_WINDOWS = 20
_NULL = subprocess.DEVNULL
_Result = TypeVar("_Result")


def _alone(work: Callable[[], _Result]) -> _Result:
    """Return the result of work in another process.

    The peak memory of a program includes that of the process that started it.
    """
    with ProcessPoolExecutor(1, get_context("fork")) as pool:
        return pool.submit(work).result()


def _run(run: Path, kind: Trials, points: int, ranks: int) -> Path:
    """Return a run of this size, written if it is not there.

    Its name ends with the windows per rank, and '-logs' if it has logs.
    """
    if not (run / RECORDS).exists():
        print(f"writing {run}", file=sys.stderr)
        windows, _, logs = run.name.removeprefix(f"{kind.__name__}-{points}-{ranks}-").partition(
            "-"
        )
        write_run(run, kind(points, ranks), int(windows), bool(logs))
        os.sync()  # otherwise the disk is written to while the first command is measured
    return run


def _fab(task: str, run: Path) -> Cost:
    seconds, memory = timed(task, "--run", f"{run}/")
    written = run / REPORT / DIGESTS
    size = written.stat().st_size / 1e6 if task == "report.build" else None
    return Cost(seconds=seconds, mebibytes=memory, megabytes=size)


def _digest(run: Path) -> Cost:
    return _alone(partial(_timed_digest, run))


def _timed_digest(run: Path) -> Cost:
    began = time.perf_counter()
    found = digest.files(run)
    seconds = time.perf_counter() - began
    (run / REPORT).mkdir(exist_ok=True)
    digest.write(run, "", found)
    return Cost(seconds=seconds, megabytes=(run / REPORT / DIGESTS).stat().st_size / 1e6)


def _resume(run: Path) -> Cost:
    """Return the seconds of a sweep until its last point runs, without the point itself."""
    folder = run.with_name(f"{run.name}-unfinished")
    shutil.rmtree(folder, ignore_errors=True)
    what = _alone(partial(write_unfinished, folder, run))
    os.sync()
    log = folder / RECORDS
    size = log.stat().st_size
    command = [sys.executable, "-m", "fabric", "bench.sweep", str(what), "--run", f"{folder}/"]
    began = time.time()
    with subprocess.Popen(command, cwd=ROOT, stdout=_NULL, stderr=_NULL) as sweep:
        while sweep.poll() is None and log.stat().st_size == size:
            time.sleep(0.01)
        ended = log.stat().st_mtime
        sweep.terminate()  # before the report
    with log.open("rb") as lines:
        lines.seek(size)
        elapsed = json.loads(lines.read())["elapsed_seconds"]
    shutil.rmtree(folder)
    return Cost(seconds=ended - began - elapsed)


def _small_build(folder: Path) -> Cost:
    run = folder / "demo"
    shutil.copytree(_DEMO, run, dirs_exist_ok=True)
    return _median(partial(_fab, "report.build", run))


def _start(*arguments: str) -> Cost:
    def once() -> Cost:
        seconds, memory = timed(*arguments)
        return Cost(seconds=seconds, mebibytes=memory)

    return _median(once)


def _median(once: Callable[[], Cost]) -> Cost:
    found = [once() for _ in range(_STARTS)]
    return sorted(found, key=lambda one: one.seconds)[_STARTS // 2]


def _fake_process() -> Cost:
    """Return the cost of a simulated worker that waits for nothing."""
    trial = make({"batch_per_device": 1, "engine": "fake", "windows": 3, "fake_seconds": [1e-6]})
    command = [sys.executable, *FAKE.command(trial, "worker", 0)]

    def once() -> Cost:
        began = time.perf_counter()
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        return Cost(seconds=time.perf_counter() - began)

    return _median(once)


def _rehearsal(folder: Path) -> Cost:
    run = folder / "rehearsal"
    shutil.rmtree(run, ignore_errors=True)
    arguments = ("bench.sweep", "seed", "--engine", "fake", "--run", f"{run}/")
    seconds, memory = timed(*arguments)
    return Cost(seconds=seconds, mebibytes=memory)


# Name, number of points (0: one size only) and what measures it.
_Line = tuple[str, int, Callable[[], Cost]]


def lines_of(folder: Path, asked: argparse.Namespace) -> list[_Line]:
    """Return what to measure."""
    found: list[_Line] = []
    for kind in (families, one_family):
        for points in asked.points:
            path = folder / f"{kind.__name__}-{points}-1-{asked.windows}"
            run = partial(_run, path, kind, points, 1)
            for task in ("report.show", "report.build"):
                found.append((f"{task}, {kind.__name__}", points, _of(partial(_fab, task), run)))
    for points in asked.ranked:
        named = f"{asked.ranks} ranks, logs"
        path = folder / f"{families.__name__}-{points}-{asked.ranks}-{asked.windows}-logs"
        run = partial(_run, path, families, points, asked.ranks)
        found.append((f"digest, {named}", points, _of(_digest, run)))
        found.append((f"resume, {asked.ranks} ranks", points, _of(_resume, run)))
        for task in ("report.show", "report.build"):
            found.append((f"{task}, {named}", points, _of(partial(_fab, task), run)))
    for points in asked.ranked[-1:]:
        path = folder / f"{families.__name__}-{points}-{asked.most_ranks}-{_FEW_WINDOWS}"
        run = partial(_run, path, families, points, asked.most_ranks)
        name = f"report.show, {asked.most_ranks} ranks"
        found.append((name, points, _of(partial(_fab, "report.show"), run)))
    starts: dict[str, Callable[[], Cost]] = {
        "fab --version": partial(_start, "--version"),
        "fab --list": partial(_start, "--list"),
        "report.build, demo": partial(_small_build, folder),
        "a fake process": _fake_process,
        "27 simulated points": partial(_rehearsal, folder),
    }
    found += [(name, 0, measure) for name, measure in starts.items()]
    return found


def _of(measure: Callable[[Path], Cost], run: Callable[[], Path]) -> Callable[[], Cost]:
    """Return the measurement of a run, which is written when it is measured."""
    return lambda: measure(_alone(run))


def _measured(folder: Path, lines: Sequence[_Line]) -> list[Cost]:
    """Return the cost of each line; those that the folder has are not measured again."""
    path = folder / _MEASURES
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for name, points, measure in lines:
        key = f"{name}, {points}"
        if key not in known:
            print(f"measuring {key}", file=sys.stderr)
            known[key] = vars(measure())
            path.write_text(json.dumps(known, indent=1), encoding="utf-8")
    return [Cost(**known[f"{name}, {points}"]) for name, points, _ in lines]


def main() -> None:
    """Parse the command line, measure what is not measured yet, and print the table."""
    parser = argparse.ArgumentParser("python -m benchmarks.scale", description=__doc__)
    for name, default, text in (
        ("points", [10, 1000, 3000], "Points of runs with one rank per point"),
        ("ranked", [100, 1000], "Points of runs with many ranks and logs"),
    ):
        shown = " ".join(map(str, default))
        parser.add_argument(
            f"--{name}", metavar="N", nargs="*", type=int, default=default, help=f"{text} [{shown}]"
        )
    for name, count, text in (
        ("ranks", 256, "Ranks per point of runs with many"),
        ("most-ranks", 1024, f"Ranks per point of a run of {_FEW_WINDOWS} windows without logs"),
        ("windows", 100, "Windows per rank"),
    ):
        parser.add_argument(
            f"--{name}", metavar="N", type=int, default=count, help=f"{text} [%(default)s]"
        )
    parser.add_argument(
        "--folder", metavar="DIR", type=Path, required=True, help="Folder of the runs and measures"
    )
    parser.add_argument(
        "--only", metavar="TEXT", default="", help="Only lines with this text [all]"
    )
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    lines = [one for one in lines_of(asked.folder.resolve(), asked) if asked.only in one[0]]
    costs = _measured(asked.folder, lines)
    about = describe(ROOT)
    print(
        f"{about['date'][:10]}, {about['processor']}, {len(os.sched_getaffinity(0))} cores, "
        f"Python {about['python']}, commit {about['commit']}; n = 1, starts, a fake process and "
        f"the demo: medians of {_STARTS}; {LOGGED_WINDOWS} windows in each worker's log\n"
    )
    print(table([(name, points) for name, points, _ in lines], costs))


if __name__ == "__main__":
    main()
