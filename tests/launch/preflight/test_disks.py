"""Whether a disk feeds the devices: verdicts, lines, and the check of a host."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launch.hosts import Host, this_machine
from launch.preflight.disks import DiskVerdict, disk_lines, disk_report, disk_reports
from launch.remote.errors import PreflightError
from launch.transport.line import start_local
from tasks.hosts import hosts_check
from tests.support.data.shards import write
from tests.support.paths import ROOT
from tests.support.programs.commands import fab, refusal

# 1,000 images of 100 kB at 50 MB/s in order, and a half of them at random in 5 s.
FOUND: dict[str, Any] = {"data_bytes": 10**8, "data_images": 1000, "cached": 0.0}
FOUND |= {"ordered_bytes": 10**8, "ordered_seconds": 2.0}
FOUND |= {"random_bytes": 5 * 10**7, "random_images": 500, "random_seconds": 5.0}
ALL = {"random_bytes": 10**8, "random_images": 1000, "random_seconds": 10.0}
TINY = {"data_bytes": 10**6, "data_images": 10, "random_bytes": 10**6, "random_images": 10}


def own() -> Host:
    return replace(this_machine(), tree=str(ROOT), python=sys.executable)


@pytest.mark.parametrize(
    ("found", "needed", "verdict", "sentence"),
    [
        ({}, 80, DiskVerdict.FAST, "fast enough: 1.2 times the 80 images/s needed"),
        (ALL, 100, DiskVerdict.FAST, "fast enough: 1.0 times the 100 images/s needed"),
        ({}, 200, DiskVerdict.SLOW, "too slow: 50 % of the 200 images/s needed"),
        (TINY, 1000, DiskVerdict.SMALL, "no verdict: too little data, only 1 MB"),
        (
            {"cached": 0.06},
            200,
            DiskVerdict.CACHED,
            "no verdict: the data stay in memory, so the figures are not the disk's",
        ),
        (
            {"cached": None},
            80,
            DiskVerdict.HIDDEN,
            "no verdict: the page cache is unknown, because another user owns the data",
        ),
    ],
)
def test_the_images_read_at_random_decide(
    found: dict[str, Any], needed: float, verdict: DiskVerdict, sentence: str
) -> None:
    report = disk_report("h1", FOUND | found, needed)
    assert report.verdict == verdict
    assert list(disk_lines([report]))[1] == f"h1: disk: {sentence}"


def test_a_line_has_images_and_bytes_of_both_orders() -> None:
    (line, _) = disk_lines([disk_report("h1", FOUND, 80)])
    assert line == (
        "h1: disk: 100 images/s in random order (10 MB/s), 500 images/s in file order (50 MB/s)"
    )


def test_figures_of_a_host_that_lies_break_nothing() -> None:
    for value in (0, 10**15):
        odd = dict.fromkeys(FOUND, value)
        list(disk_lines([disk_report("h1", odd, 80)]))


def test_hosts_measure_with_their_own_checkout(tmp_path: Path) -> None:
    write(tmp_path / "a.rec", [bytes(100_000)] * 20)
    (found,) = disk_reports(str(tmp_path), [own()], start_local, 80)
    assert found.verdict == DiskVerdict.SMALL
    assert found.bytes_read == (tmp_path / "a.rec").stat().st_size
    with pytest.raises(PreflightError, match=r"1 hosts cannot read the data:\n .*no such file"):
        disk_reports(str(tmp_path / "none"), [own()], start_local, 80)


@pytest.mark.program
def test_a_disk_that_is_too_slow_is_a_problem_of_its_host(tmp_path: Path) -> None:
    write(tmp_path / "a.rec", [bytes(1_000_000)] * 70)
    done = fab("hosts.check", "--data", str(tmp_path), "--feed", "1e9", "--json")
    assert done.returncode == 3, done.stderr
    (found,) = json.loads(done.stdout)
    assert found["disk"]["verdict"] == "slow"
    assert found["disk"]["bytes_read"] > 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"feed": "100"}, "--feed: expected --data PATH, got none"),
        ({"feed": "0", "data": "x"}, "--feed: expected images per second, above 0"),
        ({"feed": "many", "data": "x"}, "--feed: expected a number, 0 or more, got 'many'"),
    ],
)
def test_a_feed_that_is_none_is_rejected(given: dict[str, str], message: str) -> None:
    code, said = refusal(hosts_check, **given)
    assert code == 2
    assert message in said
