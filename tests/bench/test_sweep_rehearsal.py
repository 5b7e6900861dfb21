"""A simulation reproduces the published study, or chosen faults."""

from pathlib import Path
from typing import Any

import pytest
from invoke.context import Context

import fabfile as _fabfile
from bench.errors import SpecError
from bench.settings.point_names import chosen
from bench.sweep import load_sweep, with_fault
from results.run import load
from tests.support.paths import ROOT
from tests.support.programs.commands import SWEEP, fab, refusal, sweep_file
from tests.support.repeats import slow

fabfile: Any = _fabfile
STUDY = load_sweep("seed", engine="fake")
RATES = SWEEP + "[[points]]\ndevices = [1, 2]\n[rehearsal.tiny]\n1 = 10\n2 = 15.5\n"


@pytest.fixture(autouse=True)
def in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_a_measurement_has_nothing_of_the_rehearsal() -> None:
    assert all(not trial.fake.seconds for trial in load_sweep("seed").trials)
    assert all(trial.fake.seconds for trial in STUDY.trials)


def test_rates_of_a_sweep_of_ones_own_are_played(tmp_path: Path) -> None:
    one, two = load_sweep(sweep_file(tmp_path, RATES)).trials
    assert (one.fake.seconds, two.fake.seconds) == ((4 / 10,), (8 / 15.5,))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (RATES.replace("15.5", "0"), "rehearsal.tiny: expected DEVICES = IMAGES_PER_SECOND"),
        (RATES.replace("15.5", "'fast'"), "rehearsal.tiny.2: expected a number, got 'fast'"),
        (RATES.replace("2 =", "two ="), "rehearsal.tiny: expected DEVICES ="),
        (RATES.replace("rehearsal.tiny", "rehearsal.tinny"), "did you mean 'tiny'?"),
        ("rehearsal = 3\n" + SWEEP + "[[points]]\n", "expected [rehearsal.NETWORK] tables, got 3"),
    ],
)
def test_rates_that_are_none_are_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SpecError, match=r"mine.toml: ") as caught:
        load_sweep(sweep_file(tmp_path, text))
    assert said in str(caught.value)


def test_points_are_chosen_by_the_words_of_their_names() -> None:
    assert [trial.layout.devices for trial in chosen(STUDY.trials, "alexnet x2")] == [2]
    assert len(chosen(STUDY.trials, "x256")) == 3
    assert len(chosen(STUDY.trials, "")) == 27
    with pytest.raises(SpecError, match=r"words of a point's name, got 'x3'\. The points: alexnet"):
        chosen(STUDY.trials, "x3")


def test_a_fault_is_in_the_points_that_are_chosen_and_in_no_other() -> None:
    faulty = with_fault(with_fault(STUDY.trials, "x256:worker-3:kill@2"), "x256:server:hang")
    assert len(faulty) == 27
    found = [trial for trial in faulty if trial.fake.faults]
    assert {trial.layout.devices for trial in found} == {256}
    assert {trial.fake.faults for trial in found} == {("worker-3:kill@2", "server:hang")}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("worker-1:kill", "--fault: expected POINT:ROLE:KIND, got 'worker-1:kill'"),
        ("x9:worker:kill", "words of a point's name, got 'x9'"),
        (
            "x16:server:kill",
            "--fault: alexnet device x16: fault 'server:kill': expected a process of the job",
        ),
        ("x32:worker-2:kill", "expected a process of the job (2 workers, 2 servers"),
        ("x32:worker:sleep", "expected ROLE[-INDEX]:KIND[@WINDOW]"),
    ],
)
def test_a_fault_that_cannot_be_rehearsed_is_exit_code_2(
    tmp_path: Path, text: str, said: str
) -> None:
    code, line = refusal(
        fabfile.bench.bench_sweep, "seed", [text], engine="fake", run=str(tmp_path)
    )
    assert code == 2
    assert said in line
    code, line = refusal(fabfile.bench.bench_sweep, "seed", ["x32:worker:kill"], run=str(tmp_path))
    assert (code, "Add --engine fake" in line) == (2, True)


@pytest.mark.slow
@pytest.mark.program
def test_faults_and_deadlines_are_given_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = SWEEP + "fake_seconds = [0.3]\n[[points]]\nkvstore = 'dist_sync'\ndevices = [1, 2]\n"
    words = ("bench.sweep", sweep_file(tmp_path, text), "--run", str(tmp_path / "run"))
    faults = ("--fault", "x1:worker:absent", "--fault", "x2:worker-1:hang@1")
    done = fab(*words, *faults, "--rendezvous", "2", "--first-window", "3", "--progress", "2")
    assert done.returncode == 5
    assert "x1: timeout: rendezvous not complete after 2 s; missing: worker 0 on" in done.stderr
    # a window of the script lasts 0.3 s, and ten of them are more than two seconds
    assert "x2: hung (stalled): no progress for 3 s after 1 window: worker 1 (rank" in done.stderr
    fabfile.bench.bench_sweep.body(Context(), words[1], [], run=words[3])
    assert capsys.readouterr().err.count("images/s") == 2


def test_a_point_that_is_run_again_keeps_the_other_rows_of_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.bench.build_report", lambda folder, baseline: None)
    text = SWEEP + "[[points]]\nkvstore = 'dist_sync'\ndevices = [1, 2, 4]\n"
    sweep, run = sweep_file(tmp_path, text), tmp_path / "run"
    rows = []
    for point in ("x2", "x4", "", "x2"):
        fabfile.bench.bench_sweep.body(Context(), sweep, [], run=str(run), point=point)
        rows.append([row.trial.layout.devices for row in load(run).rows])
    assert rows == [[2], [2, 4], [1, 2, 4], [1, 2, 4]]
    assert not any(row.emulated for row in load(run).rows)


@pytest.mark.program
@pytest.mark.parametrize("words", [("--fault",), *slow((("--fault", "--progress", "5"),))])
def test_a_fault_that_is_not_said_is_exit_code_2(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = fab("bench.sweep", sweep_file(tmp_path, RATES), "--run", f"{tmp_path}/r", *words)
    assert done.returncode == 2
    assert done.stderr == "error: --fault: expected POINT:ROLE:KIND, got none\n"


def test_an_unknown_engine_is_told_of_the_option() -> None:
    code, line = refusal(fabfile.bench.bench_sweep, "seed", [], engine="fale")
    assert (code, line) == (
        2,
        "error: unknown engine 'fale'; did you mean 'fake'? Known: mxnet, torch, command, fake",
    )


def test_a_variable_of_another_form_is_named_with_its_option(tmp_path: Path) -> None:
    code, line = refusal(
        fabfile.bench.bench_sweep, sweep_file(tmp_path), [], ["1BAD=3"], run=str(tmp_path)
    )
    assert (code, line.startswith("error: -x: expected a variable name, got '1BAD'")) == (2, True)


@pytest.mark.parametrize("option", ["rendezvous", "first_window", "progress"])
def test_a_deadline_that_is_no_number_is_exit_code_2(tmp_path: Path, option: str) -> None:
    code, line = refusal(
        fabfile.bench.bench_sweep, sweep_file(tmp_path), [], run=str(tmp_path), **{option: "soon"}
    )
    name = "--" + option.replace("_", "-")
    assert (code, line) == (
        2,
        f"error: {name}: expected a whole number, 1 or more, got 'soon'",
    )
