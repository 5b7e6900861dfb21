"""A full or read-only disk, a store of another version: one line, no lost results."""

import json
import os
import re
import resource
import sys
from pathlib import Path
from typing import Any

import pytest

import fabfile as _fabfile
from launch.remote.errors import LaunchError
from results.run import load
from results.store import Store
from tests.support.data.trees import jpeg, tree
from tests.support.hosts.pushes import on_a_disk_of_its_own
from tests.support.paths import ROOT
from tests.support.programs.commands import refusal, sweep_file
from tests.support.programs.jobs import left_over, measured, trial
from tests.support.runs.stores import record, stored

fabfile: Any = _fabfile
FAB = Path(sys.executable).parent / "fab"
pytestmark = pytest.mark.program


@pytest.fixture(autouse=True)
def in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.slow
def test_a_sweep_goes_on_when_a_full_disk_has_room_and_says_that_it_is_read_only(
    tmp_path: Path,
) -> None:
    disk = tmp_path / "disk"
    run = f"--run {disk}/run"
    sweep = f"{FAB} bench.sweep {sweep_file(tmp_path)} {run}"
    said = on_a_disk_of_its_own(
        f"{sweep} 2>&1 >/dev/null | tail -n 1;"
        f"mount -o remount,size=16m {disk}; {sweep} >/dev/null 2>&1; echo $?;"
        f"grep -c ok {disk}/run/records.jsonl; mount -o remount,ro {disk};"
        f"{sweep} 2>&1; echo $?; {FAB} report.show --wide {run} | grep -c '^ .* dist_sync .* ok';"
        f"{FAB} report.build {run} 2>&1 | tail -n 1",
        disk,
    )
    assert said[0].startswith(f"error: {disk}/run")
    assert "cannot be written (No space left on device)" in said[0]
    assert "Free disk space" in said[0]
    assert said[1:3] == ["0", "2"]
    assert said[3].startswith(f"error: {disk}/run: cannot be written (Read-only file system)")
    assert said[4:6] == ["2", "2"]
    refused = f"error: {disk}/run/report: cannot be written (Read-only file system). Check "
    assert said[6].startswith(refused)


def test_logs_that_cannot_grow_end_the_sweep_with_one_line(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, before[1]))
    try:
        with pytest.raises(LaunchError, match=r"cannot be written .* earlier records are kept"):
            measured(tmp_path, trial(windows=3000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert left_over() == []


def test_a_store_of_a_newer_version_is_exit_code_2_and_stays_as_it_is(tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    log = stored(tmp_path / "run", record(), record(repeat=1))
    newer = json.loads(log.read_text().splitlines()[0]) | {"schema": 99}
    log.write_text(log.read_text() + json.dumps(newer) + "\n")
    kept = log.read_bytes()
    code, line = refusal(fabfile.bench.bench_sweep, sweep_file(tmp_path), [], run=run)
    assert code == 2
    (trouble,) = load(tmp_path / "run").troubles  # a report shows what is left
    for said, place in ((line, f"{log}:3: "), (trouble, "records.jsonl:3: ")):
        assert place in said
        assert "written by a newer version of mxscale" in said
    assert log.read_bytes() == kept


def test_a_second_sweep_in_the_same_folder_is_told_who_has_it(tmp_path: Path) -> None:

    held = Store(tmp_path / "run")
    try:
        code, line = refusal(
            fabfile.bench.bench_sweep, sweep_file(tmp_path), [], run=str(tmp_path / "run")
        )
    finally:
        held.close()
    assert code == 2
    assert f"another sweep (process {os.getpid()}) is writing to it" in line


@pytest.mark.parametrize("name", [".", "..", "x" * 300])
def test_a_run_that_cannot_be_is_exit_code_2(tmp_path: Path, name: str) -> None:
    assert refusal(fabfile.bench.bench_sweep, sweep_file(tmp_path), [], run=name)[0] == 2
    assert refusal(fabfile.report.report_show, run=name)[0] == 2


def packing(root: Path, disk: Path) -> str:
    return f"{sys.executable} -m im2rec_tools pack {root.parent}/x {root} --out {disk}"


def test_packing_onto_a_disk_that_is_too_small_says_what_it_needs(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 100})
    pack = packing(root, tmp_path / "disk")
    said = on_a_disk_of_its_own(f"{pack} 2>&1; echo $?; ls -A {tmp_path}/disk", tmp_path / "disk")
    assert re.search(
        r"disk: expected about \d+ kB of free disk space, got [\d.]+ kB\. Pack into", said[-2]
    )
    assert said[-1] == "2"


def test_a_disk_that_fills_up_in_the_middle_of_a_shard_costs_that_shard_only(
    tmp_path: Path,
) -> None:
    root = tree(tmp_path / "t", {"ant": 40})
    (root / "bee").mkdir()
    for number in range(40):
        (root / "bee" / f"{number}.jpg").write_bytes(jpeg(900, 1200, number))
    disk, whole = tmp_path / "disk", tmp_path / "whole"
    listing = f"{sys.executable} -m im2rec_tools list {tmp_path}/x {root} --no-shuffle"
    pack = f"{packing(root, disk)} --short-edge 0"
    said = on_a_disk_of_its_own(
        f"mount -o remount,size=400k {disk}; {listing} >/dev/null;"
        f"{pack} 2>&1 | tail -n 1; ls -A {disk} | wc -l;"
        f"mount -o remount,size=8m {disk}; {pack} >/dev/null 2>&1; echo $?;"
        f"{packing(root, whole)} --short-edge 0 >/dev/null 2>&1; cmp {disk}/x.rec {whole}/x.rec",
        disk,
    )
    assert said[0].startswith(f"error: {disk}/.x.rec.part: cannot be written (No space left")
    assert said[1:] == ["0", "0"]
