"""docs/tutorials/imagenet.md: its commands, in its order, on a small tar of tars."""

import re
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from im2rec_tools.formats.images import check
from im2rec_tools.formats.recordio import headers, records, unpack
from tests.support.data.datasets import tar_of_tars
from tests.support.paths import ROOT

pytestmark = pytest.mark.program
TEXT = (ROOT / "docs" / "tutorials" / "imagenet.md").read_text()


def blocks(heading: str) -> str:
    """Return the shell commands under a heading."""
    section = re.split(r"^## ", TEXT, flags=re.MULTILINE)
    mine = next(part for part in section if part.startswith(heading))
    return "\n".join(re.findall(r"^```sh\n(.*?)^```", mine, re.MULTILINE | re.DOTALL))


def collection(folder: Path) -> Path:
    """Make three classes of 58, 58 and 3 images, in the layout of fall11_whole.tar."""
    noise = np.random.default_rng(0)
    for name, count in (("n00004475", 58), ("n00005787", 58), ("n00006024", 3)):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            picture = cv2.resize(noise.integers(0, 255, (8, 8, 3), dtype=np.uint8), (120, 90))
            cv2.imwrite(str(folder / name / f"{name}_{number}.JPEG"), picture)
    return folder


@pytest.mark.parametrize("heading", ["With mxscale's tools", "With upstream's commands"])
def test_the_commands_lead_from_the_tar_to_train_and_val(tmp_path: Path, heading: str) -> None:
    tar_of_tars(tmp_path / "fall11_whole.tar", collection(tmp_path / "made"))
    script = blocks(heading).replace("500", "50")
    assert "im2rec_tools" in script
    bin_folder = Path(sys.executable).parent
    done = subprocess.run(
        ["bash", "-eu", "-c", f'PATH="{bin_folder}:$PATH"; PYTHONPATH={ROOT}\n{script}'],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    shards = {name: sorted((tmp_path / name).glob("*.rec")) for name in ("train", "val")}
    counts = [sum(len(list(headers(rec))) for rec in recs) for recs in shards.values()]
    assert counts == [16, 100]
    assert len(shards["train"]) == 8
    assert sorted(path.name for path in (tmp_path / "full_filtered").iterdir()) == ["n00006024"]
    for rec in [*shards["train"], *shards["val"]]:
        for _, payload in records(rec):
            assert min(check(unpack(payload, str(rec)).image)) == (
                90 if "mxscale" in heading else 480
            )
