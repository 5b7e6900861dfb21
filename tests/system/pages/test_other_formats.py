"""docs/how-to/other-formats.md: its commands, in its order, on a small tree."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from im2rec_tools.formats.boxes import boxes_of
from im2rec_tools.formats.recordio import headers
from tests.support.data.datasets import annotation
from tests.support.data.trees import tree
from tests.support.paths import ROOT

pytestmark = pytest.mark.program
TEXT = (ROOT / "docs" / "how-to" / "other-formats.md").read_text()


def run(folder: Path, heading: str) -> None:
    """Run the shell commands under a heading in a folder."""
    sections = re.split(r"^## ", TEXT, flags=re.MULTILINE)
    mine = next(part for part in sections if part.startswith(heading))
    script = "\n".join(re.findall(r"^```sh\n(.*?)^```", mine, re.MULTILINE | re.DOTALL))
    assert "im2rec_tools" in script
    done = subprocess.run(
        ["bash", "-eu", "-c", script],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr


def test_boxes_reach_shards_and_tfrecords_by_the_pages_commands(tmp_path: Path) -> None:
    tree(tmp_path / "photos", {"cat": 3, "dog": 2})
    annotation(tmp_path / "boxes" / "cat" / "0.xml", (90, 70), ("cat", 9, 7, 45, 70))
    annotation(tmp_path / "boxes" / "1.xml", (90, 71), ("dog", 0, 0, 90, 71))
    run(tmp_path, "Bounding boxes")
    for rec in ("detection/boxes.rec", "from_tfrecords/train.rec"):
        found = [boxes_of(record.labels) for record, _ in headers(tmp_path / rec)]
        assert sorted(box.label for (box,) in found) == [0, 1, 1]


def test_shards_become_tars_and_shards_again_by_the_pages_commands(tmp_path: Path) -> None:
    tree(tmp_path / "photos", {"cat": 3, "dog": 2})
    run(tmp_path, "WebDataset")
    pairs = [
        [[record.labels for record, _ in headers(rec)] for rec in sorted(found.glob("*.rec"))]
        for found in (tmp_path / "shards", tmp_path / "from_tars")
    ]
    assert pairs[0] == pairs[1]
    assert len(pairs[0]) == 2
