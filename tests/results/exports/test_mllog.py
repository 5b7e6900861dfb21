"""MLPerf's own checker reads the log lines and accepts their content."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from results.run import load
from tests.support.paths import ROOT
from tests.support.runs.exports import HOSTILE, good, needed, repeat, run_of

mllog = needed("mllog")
checker = pytest.importorskip(
    "mlperf_logging.compliance_checker.mlp_compliance",
    reason="needs the libraries of results.export: make exports",
)


def refusals(path: Path, rules: Path | str = mllog.RULES) -> list[str]:
    """Return the checker's complaints about a file."""
    one = checker.make_checker("training", "6.1.0", False, True)
    one.check_file(str(path), str(rules))
    return [*one.overwritable.values(), *one.not_overwritable]


def said(path: Path, key: str) -> list[Any]:
    lines = [json.loads(line.removeprefix(":::MLLOG ")) for line in path.read_text().splitlines()]
    return [line for line in lines if line["key"] == key]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    (home,) = mllog.write(run_of(tmp_path / "run", good()), tmp_path)
    return Path(home) / "alexnet_local_x2" / "result_1.txt"


def test_the_checker_accepts_every_log_of_a_real_run(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs" / "runs" / "demo", tmp_path / "demo")
    (home,) = mllog.write(load(tmp_path / "demo"), tmp_path)
    logs = sorted(home.rglob("*.txt"))
    assert len(logs) == 13  # all but test-io, which trains nothing
    assert {path: refusals(path) for path in logs} == {path: [] for path in logs}


def test_the_checker_accepts_a_log_as_a_person_would_ask_it(written: Path, tmp_path: Path) -> None:
    words = ["--config", mllog.RULES, "--log_output", tmp_path / "log", "--werror", written]
    done = subprocess.run(
        [sys.executable, "-m", "mlperf_logging.compliance_checker", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "SUCCESS" in done.stderr


@pytest.mark.parametrize("key", ["run_stop", "block_start", "init_stop", "seed", "mxscale"])
def test_the_checker_refuses_a_log_that_lacks_a_line(written: Path, key: str) -> None:
    lines = written.read_text().splitlines(keepends=True)
    written.write_text("".join(line for line in lines if f'"key": "{key}"' not in line))
    assert refusals(written)


def test_the_checker_refuses_a_log_that_claims_to_be_handed_in(written: Path) -> None:
    claim = written.read_text().splitlines()[1].replace("cache_clear", "submission_org")
    written.write_text(f"{written.read_text()}{claim}\n")
    assert "submission_org" in refusals(written)[0]


def test_what_mlperf_asks_for_besides_is_what_the_manual_lists(written: Path) -> None:
    against = refusals(written, "training_6.1.0/common.yaml")
    lacking = {line.split("'")[1] for line in against if line.startswith("Required")}
    manual = (ROOT / "docs" / "how-to" / "export.md").read_text()
    assert {key for key in lacking if f"`{key}`" not in manual} == set()
    assert {"submission_org", "submission_division", "eval_accuracy"} <= lacking


def test_blocks_are_the_windows_with_their_times_and_throughputs(written: Path) -> None:
    starts, stops = said(written, "block_start"), said(written, "block_stop")
    spans = zip(starts, stops, strict=True)
    assert [b["time_ms"] - a["time_ms"] for a, b in spans] == [1000, 1300, 1300]
    rates = [line["value"]["throughput"] for line in said(written, "tracked_stats")]
    assert rates == pytest.approx([16, 16 / 1.3, 16 / 1.3])
    assert [line["metadata"]["counts"] for line in stops] == [False, True, True]
    assert [line["metadata"]["samples_count"] for line in stops] == [16, 32, 48]


def test_an_accuracy_is_told_only_where_one_was_measured(tmp_path: Path) -> None:
    run = load(ROOT / "docs" / "runs" / "demo")
    (home,) = mllog.write(run, tmp_path)
    told = {
        path.parent.name: [line["value"] for line in said(path, "eval_accuracy")]
        for path in home.rglob("*.txt")
    }
    (real,) = (row for row in run.rows if row.trial.mode == "real")
    assert told.pop("tiny_dist_sync_real_x2") == list(real.accuracies)
    assert set(map(tuple, told.values())) == {()}


def test_a_source_with_marks_in_it_leaves_the_log_whole(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", [repeat([[1, 1.0, 1.0]], source=HOSTILE)])
    (home,) = mllog.write(run, tmp_path)
    (path,) = home.rglob("*.txt")
    assert refusals(path) == []
    assert said(path, "mxscale")[0]["value"]["standing"] == "imported"


def test_a_point_that_has_failed_since_leaves_no_log_behind(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", good())
    (home,) = mllog.write(run, tmp_path)
    failed = repeat([[1, 1.3, 1.3]], repeat=1, devices=2, status="hung")
    mllog.write(run_of(tmp_path / "again" / "run", [*good()[:2], failed]), tmp_path)
    assert [path.parent.name for path in home.rglob("*.txt")] == ["alexnet_local_x1"]
