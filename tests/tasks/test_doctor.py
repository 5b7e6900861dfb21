"""Task bench.doctor: its rejected input, and its whole work on a tiny sweep."""

import json
import re
from pathlib import Path

import pytest

from tests.support.programs.commands import fab

SWEEP = """
device = "cpu"
network = "tiny"
image_shape = [3, 32, 32]
batch_per_device = 8
steps_per_window = 5

[[points]]
kvstore = ["local", "dist_sync"]
devices = [1, 2]
"""


def test_simulations_and_sweeps_without_training_are_rejected(tmp_path: Path) -> None:
    sweep = tmp_path / "mine.toml"
    sweep.write_text('engine = "fake"\n' + SWEEP)
    done = fab("bench.doctor", "--sweep", str(sweep))
    assert done.returncode == 2
    assert done.stderr.startswith("error: --sweep: expected engine 'mxnet'")


@pytest.mark.slow
@pytest.mark.mxnet
def test_the_parts_of_a_machine_are_measured_and_its_limits_named(tmp_path: Path) -> None:
    sweep = tmp_path / "mine.toml"
    sweep.write_text(SWEEP)
    run = tmp_path / "doctor"
    done = fab("bench.doctor", "--sweep", str(sweep), "--run", str(run), timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("machine: processor ")
    (row,) = re.findall(r"^ +tiny +8 .*", done.stdout, re.MULTILINE)
    assert re.search(r"\d +≤ \d+ % +\d+ +\d+ *$", row)
    assert "one raw TCP connection: " in done.stdout
    assert "\nlimits:" in done.stdout
    lines = (run / "records.jsonl").read_text().splitlines()  # a busy machine can need a second try
    names = {json.loads(line)["identity"]["name"] for line in lines}
    # With shards in the checkout, reading them is a point too.
    assert names >= {"tiny local x1", "tiny dist_sync bandwidth x2"}
