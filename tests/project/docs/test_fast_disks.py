"""docs/how-to/fast-disks.md: its output is true, and its recipe is text only."""

import re

from launch.preflight.disks import DiskReport, DiskVerdict, disk_lines
from tests.support.paths import ROOT
from tests.support.sources import modules

TEXT = (ROOT / "docs" / "how-to" / "fast-disks.md").read_text()
ERASE = ("mdadm", "mkfs")


def test_the_output_on_the_page_is_that_of_the_check() -> None:
    report = DiskReport(
        host="node01",
        needed=1000,
        images_ordered=8120,
        images_random=2914,
        bytes_ordered=897e6,
        bytes_random=322e6,
        bytes_read=10**9,
        verdict=DiskVerdict.FAST,
    )
    assert "\n".join(disk_lines([report])) in TEXT


def test_nothing_runs_the_commands_that_erase_disks() -> None:
    programs = [*modules(), *(ROOT / "tools").iterdir(), ROOT / "Makefile", ROOT / ".ci" / "run"]
    found = [
        path for path in programs if path.is_file() for word in ERASE if word in path.read_text()
    ]
    assert found == []
    run_by_tests = re.findall(r"^```sh\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    assert run_by_tests == []
    assert all(word in TEXT for word in ERASE)
