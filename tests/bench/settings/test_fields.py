"""Names, keys and command lines of settings do not change."""

import hashlib
import json
from pathlib import Path

import pytest

from bench.engines.catalog import ENGINES
from bench.errors import SpecError
from bench.settings.parts import PART_FIELDS
from bench.sweep import SHIPPED, load_sweep
from bench.trial import FIELDS, Trial, composed
from results import record
from tests.support.goldens import assert_golden
from tests.support.paths import ROOT
from tests.support.programs.jobs import trial

PROCESSES = (("worker", 0), ("server", 0), ("scheduler", 0))
DEMO = ROOT / "docs" / "runs" / "demo"


def argv(trial: Trial) -> list[tuple[str, ...]]:
    roles = [*PROCESSES, ("worker", trial.workers - 1)]
    return [ENGINES[trial.engine].command(trial, role, index) for role, index in roles]


def digest(trial: Trial) -> str:
    return hashlib.sha256(json.dumps(argv(trial)).encode()).hexdigest()[:12]


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.toml")), ids=lambda path: path.stem)
def test_points_of_shipped_sweeps_keep_keys_and_command_lines(path: Path) -> None:
    lines = []
    for engine in (None, "fake"):
        trials = load_sweep(path.stem, engine=engine).trials
        lines += [f"{one.engine} {one.key} {digest(one)} {one.name}" for one in trials]
        lines += map(" ".join, argv(trials[0]))
    assert_golden(f"settings/{path.stem}.txt", "\n".join(lines) + "\n")


def test_records_of_the_demo_keep_keys_and_text() -> None:
    lines = (DEMO / "records.jsonl").read_text(encoding="utf-8").splitlines()
    for line in lines:
        found = record.parse(line)
        assert found is not None
        assert found.trial.key == found.identity.key
        assert record.emit(found) == line


def test_fields_by_stored_name_make_the_trial_again() -> None:
    trial = load_sweep("seed").trials[0]
    assert composed(trial.fields) == trial
    assert [*trial.fields] == [*FIELDS] == ["engine", "mode", *PART_FIELDS]
    assert trial.replace(fake_noise=0.25).fake.noise == trial.replace(fake_noise=0.25).value(
        "fake_noise"
    )
    with pytest.raises(TypeError, match="no setting of a trial: colour"):
        trial.replace(colour=1)


def test_a_list_with_a_wrong_number_is_printed_as_in_a_sweep() -> None:
    with pytest.raises(SpecError, match=r"got \[3, 224, 99999999\]$"):
        trial(image_shape=[3, 224, 99999999])
