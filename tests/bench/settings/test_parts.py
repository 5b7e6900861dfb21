"""A setting is added in one file."""

import json
import subprocess
import sys
from pathlib import Path

from bench.settings.reference import table
from bench.sweep import load_sweep
from tests.support.sources import copied

DECLARED = """    label_smoothing: float = setting(
        "share of each label that all classes get",
        0.0,
        least=0,
        below=1,
        flag="--label-smoothing",
        unless="label_smoothing",
        later=True,
    )
"""
SCRIPT = """
import json
from types import SimpleNamespace
from bench.engines.catalog import ENGINES
from bench.errors import SpecError
from bench.settings.reference import table
from bench.sweep import load_sweep
from bench.training.options import parser
from bench.trial import make
from results import record
from results.comparison.pairs import same_settings, setting_changes
from results.speedup import choose_baselines

def point(trial):
    return SimpleNamespace(trial=trial, rate=None, status="failed", emulated=False)

def has_baseline(smoothing):
    one = make(BASE | {"label_smoothing": smoothing})
    return bool(choose_baselines([point(one), point(make(BASE | {"devices": 2}))])[1].notes)

BASE = {"network": "tiny", "batch_per_device": 8}
usual, smooth = make(BASE), make(BASE | {"label_smoothing": 0.25})
try:
    make(BASE | {"label_smoothing": 1.0})
except SpecError as error:
    refused = str(error)
print(json.dumps({
    "argv": [ENGINES["mxnet"].command(one, "worker", 0) for one in (usual, smooth)],
    "help": parser().format_help(),
    "reference": table(),
    "settings": list(map(str, setting_changes(usual, smooth))),
    "same": same_settings(usual) == same_settings(smooth),
    "baseline": [has_baseline(0.0), has_baseline(0.25)],
    "keys": [one.key for one in load_sweep("seed").trials],
    "refused": refused,
    "stored": record.stored_trial(smooth.fields).training.label_smoothing,
    "earlier": record.stored_trial(STORED).key,
}))
"""


def test_a_setting_is_declared_in_one_file_and_all_readers_have_it(tmp_path: Path) -> None:
    copied(tmp_path)
    parts = tmp_path / "bench" / "settings" / "parts.py"
    text = parts.read_text(encoding="utf-8")
    first = "    gc_type: str = setting(\n"
    assert text.count(first) == 1
    parts.write_text(text.replace(first, DECLARED + first), encoding="utf-8")
    before = load_sweep("seed").trials
    done = subprocess.run(
        [sys.executable, "-c", f"STORED = {before[0].fields!r}\n{SCRIPT}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    usual, smooth = found["argv"]
    assert "--label-smoothing" not in usual
    assert smooth[smooth.index("--label-smoothing") + 1] == "0.25"
    assert "--label-smoothing LABEL_SMOOTHING" in found["help"]
    assert "share of each label that all classes get" in found["help"]
    (row,) = [line for line in found["reference"].splitlines() if "`label_smoothing`" in line]
    assert "| number | `0.0` |  | ≥ 0, < 1 |" in row
    assert "label_smoothing" not in table()
    assert found["settings"] == ["label_smoothing 0 (default) → 0.25"]
    assert not found["same"]
    assert found["baseline"] == [True, False]
    assert found["refused"] == "label_smoothing: expected 0 or more, below 1, got 1.0"
    assert found["keys"] == [one.key for one in before]
    assert (found["stored"], found["earlier"]) == (0.25, before[0].key)
