"""The commands of docs/tutorials/first-cluster.md run, in a copy of the checkout."""

import re
import subprocess
from pathlib import Path

import pytest

from launch.practice.cluster import down
from tests.support.paths import ROOT
from tests.support.sources import copied

pytestmark = [pytest.mark.cluster, pytest.mark.mxnet]


def test_practising_goes_as_it_is_written(able: None, tmp_path: Path) -> None:
    place = tmp_path / "checkout"
    copied(place)
    sweep = place / "bench" / "sweeps" / "smoke.toml"
    # The sweep of this page is rehearsed; tests/system/cluster/test_sweep.py trains on hosts.
    sweep.write_text('engine = "fake"\n' + sweep.read_text())
    page = (ROOT / "docs" / "tutorials" / "first-cluster.md").read_text()
    section = page.partition("## Practice")[2].partition("\n## ")[0]
    block = "".join(re.findall(r"```sh\n(.*?)```", section, re.DOTALL))
    said = {}
    try:
        for line in block.splitlines():
            command = line.partition("#")[0].strip()
            done = subprocess.run(
                ["sh", "-c", command],
                cwd=place,
                capture_output=True,
                text=True,
                timeout=240,
                check=False,
            )
            said[command.split()[1]] = done.stdout
            busy = (6,) if "bench.sweep" in command else ()  # not steady, but measured
            assert done.returncode in (0, *busy), f"{command}\n{done.stdout}\n{done.stderr}"
    finally:
        down(place / ".practice")
    assert "all 4 ready" in said["hosts.check"]
    assert re.search(r"dist_sync +4\* +\d", said["bench.sweep"])
    assert set(said) >= {f"practice.{name}" for name in ("up", "cut", "restore", "down")}
