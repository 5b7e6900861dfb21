"""docs/explanation/convergence.md: its commands train two networks as stated."""

import csv
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.sources import copied

pytestmark = [pytest.mark.mxnet, pytest.mark.slow]


def test_both_networks_end_above_nine_in_ten_by_the_pages_commands(tmp_path: Path) -> None:
    place = tmp_path / "checkout"
    copied(place)
    page = (ROOT / "docs" / "explanation" / "convergence.md").read_text()
    block = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)[0]
    done = subprocess.run(
        ["sh", "-eu", "-c", block], cwd=place, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    with (place / "docs" / "runs" / "training" / "accuracy.csv").open() as file:
        last = {row["network"]: float(row["accuracy"]) for row in csv.DictReader(file)}
    assert set(last) == {"alexnet", "resnet-18"}
    assert min(last.values()) > 0.9, last
