"""fab's own options: --dry, -h, --help, and the exit code of unknown ones."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from invoke.collection import Collection
from invoke.config import Config
from invoke.context import Context
from invoke.exceptions import Exit

import fabfile
from tasks import report, results
from tests.support.paths import ROOT
from tests.support.programs import kills
from tests.support.programs.commands import fab
from tests.support.programs.kills import Commands, Done, Try

FAB = Path(sys.executable).parent / "fab"
# Nothing that a person made is changed by these.
READERS = {
    *(
        "bench.plan",
        "bench.sbatch",
        "hosts.from-ec2",
        "hosts.logs",
        "practice.show",
        "report.baselines",
        "report.show",
    ),
    *("report.verify", "results.list", "results.show"),
}


def every_task(collection: Collection, prefix: str = "") -> Iterator[tuple[str, Any]]:
    yield from ((prefix + name, task) for name, task in collection.tasks.items())
    for name, inner in collection.collections.items():
        yield from every_task(inner, f"{prefix}{name}.")


TASKS = dict(every_task(fabfile.namespace))


@pytest.fixture(scope="module")
def commands() -> Iterator[Commands]:
    with kills.commands() as found:
        yield found


def forked(commands: Commands, *words: str) -> Done:
    """Run fab in a process that has imported it."""
    return commands.run(Try(words=words, tree="/nowhere"))


def dry() -> Context:
    return Context(Config(overrides={"run": {"dry": True}}))


def positional(task: Any) -> list[str]:
    return ["anything" for argument in task.get_arguments() if argument.positional]


@pytest.mark.parametrize("name", sorted(TASKS))
def test_every_task_honors_a_dry_run_or_refuses_it(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(report, "RUNS", tmp_path)
    monkeypatch.setattr(results, "RUNS", tmp_path)
    task = TASKS[name]
    honors = "dry_run" in {argument.attr_name or argument.name for argument in task.get_arguments()}
    assert honors == (name.startswith("data.") or name == "results.rm")
    if honors or name in READERS:
        return
    with pytest.raises(Exit) as caught:
        task.body(dry(), *positional(task))
    assert caught.value.code == 2
    assert str(caught.value).startswith("error: --dry (-R): this task has no dry run")


def test_a_dry_run_of_results_rm_removes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    run = tmp_path / "nan"
    run.mkdir()
    (run / "records.jsonl").write_text("")
    TASKS["results.rm"].body(dry(), str(run), yes=True)
    assert f"would remove {run}" in capsys.readouterr().out
    assert (run / "records.jsonl").exists()
    TASKS["results.rm"].body(Context(), str(run), yes=True)
    assert not run.exists()


def test_a_dry_run_of_results_list_keeps_no_catalogue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(results, "RUNS", tmp_path)
    (tmp_path / "nan").mkdir()
    (tmp_path / "nan" / "records.jsonl").write_text("")
    TASKS["results.list"].body(dry())
    assert [one.name for one in tmp_path.iterdir()] == ["nan"]
    TASKS["results.list"].body(Context())
    assert len(list(tmp_path.iterdir())) == 2


def test_a_dry_run_of_data_prepare_moves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    for name in ("cat", "dog"):
        (tmp_path / "mine" / name).mkdir(parents=True)
        for number in range(4):
            (tmp_path / "mine" / name / f"{number}.jpg").write_bytes(b"\xff\xd8\xff" + bytes(200))
    before = sorted(tmp_path.rglob("*"))
    TASKS["data.prepare"].body(dry(), dir=str(tmp_path / "mine"), val_per_class="1")
    assert capsys.readouterr().out
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.program
@pytest.mark.parametrize("words", [("--dry", "smoke"), ("smoke", "-R"), ("-R", "practice.down")])
def test_a_dry_run_is_refused_wherever_the_option_stands(
    commands: Commands, words: tuple[str, ...]
) -> None:
    done = forked(commands, *words)
    assert done.code == 2
    assert done.printed.count("\n") == 1
    assert "--dry (-R)" in done.printed


@pytest.mark.program
@pytest.mark.parametrize("option", ["-R", "--dry"])
def test_a_dry_run_between_a_task_and_its_arguments_is_no_argument(
    commands: Commands, tmp_path: Path, option: str
) -> None:
    done = forked(commands, "data.sample", option, str(tmp_path / "made"))
    assert done.code == 0
    assert done.printed.startswith(f"would create {tmp_path}")
    assert forked(commands, "data.sample", option).code == 2  # not a folder of that name
    assert not (ROOT / option).exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.program
@pytest.mark.parametrize(
    "words",
    [
        ("data.prepare", "-h"),
        ("data.prepare", "--help"),
        ("data.prepare", "folder", "-h"),
        ("--help", "data.prepare"),
        ("-h", "data.prepare"),
    ],
)
def test_help_of_a_task_is_printed_wherever_it_is_asked_for(
    commands: Commands, words: tuple[str, ...]
) -> None:
    done = forked(commands, *words)
    assert done.code == 0
    assert "data.prepare" in done.printed.splitlines()[0]
    assert "--short-edge" in done.printed


def test_no_task_makes_short_options_of_long_ones() -> None:
    for name, task in TASKS.items():
        parameters = {one.attr_name or one.name for one in task.get_arguments()}
        short = {
            option
            for one in task.get_arguments()
            for option in one.names
            if len(option) == 1 and option not in parameters
        }
        assert short == set(), name


# On standard error, as any refusal of a program.
UNKNOWN = ("nosuch",)


@pytest.mark.program
@pytest.mark.parametrize(
    "words",
    [
        UNKNOWN,
        ("--nosuch",),
        ("--help", "nosuch"),
        ("nosuch", "-h"),
        ("--list", "nosuch"),
        ("report.show", "--zzzzzz"),
        ("report.show", "nosuch"),
        ("data.sample", "-q"),
        ("results.rm", "--zzzzzz"),
        ("bench.sweep",),
        ("bench.io", "data", "--threads"),
    ],
)
def test_what_fab_does_not_know_ends_with_2_and_one_line(
    commands: Commands, words: tuple[str, ...]
) -> None:
    done = forked(commands, *words)
    assert (done.code, done.printed.count("\n")) == (2, 1)
    if words == UNKNOWN:
        program = fab(*words)
        assert (program.returncode, program.stdout, program.stderr) == (2, "", done.printed)


@pytest.mark.program
@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("bench.sweep",), "bench.sweep: expected SWEEP, got none. Run 'fab --help bench.sweep'"),
        (("nosuch",), "fab: expected a task, got 'nosuch'. Run 'fab --list'"),
        (
            ("bench.io", "data", "--image-shape"),
            "bench.io: --image-shape: expected a value, got none. Run 'fab --help bench.io'",
        ),
        (
            ("report.show", "--zzzzzz"),
            "report.show: expected an option of this task, got '--zzzzzz'. Run 'fab --help "
            "report.show'",
        ),
    ],
)
def test_a_usage_error_names_the_place_what_was_expected_and_the_help(
    commands: Commands, words: tuple[str, ...], line: str
) -> None:
    assert forked(commands, *words).printed == f"error: {line}\n"


def test_a_setting_that_fab_does_not_know_is_named_without_its_secret() -> None:
    done = fab("report.show", "env.HF_TOKEN=s3cret")
    assert (done.returncode, "s3cret" in done.stderr) == (2, False)
    assert "HF_TOKEN=***" in done.stderr


def test_a_packed_run_is_unpacked_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(report, "RUNS", tmp_path)
    monkeypatch.setattr(results, "RUNS", tmp_path)
    (tmp_path / "gc").mkdir()
    (tmp_path / "gc" / "records.jsonl").write_text("{}\n")
    TASKS["results.pack"].body(Context(), "gc")
    assert f"{tmp_path}/gc.zip: 1 files" in capsys.readouterr().out
    TASKS["results.rm"].body(Context(), "gc", yes=True)
    TASKS["results.unpack"].body(Context(), "gc")
    assert (tmp_path / "gc" / "records.jsonl").read_text() == "{}\n"
    with pytest.raises(Exit, match=r"already exists\. Unpack under another name with --run NAME"):
        TASKS["results.unpack"].body(Context(), "gc")


@pytest.mark.program
@pytest.mark.parametrize("command", ["fab results.list", "python -m im2rec_tools info data"])
def test_a_closed_standard_output_is_one_line(command: str) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f"{FAB.parent}/{command} >&-"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: standard output: closed")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [("--via", ""), ("--via=",)])
def test_an_empty_template_is_refused_and_not_replaced_by_ssh(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", ["fab", "bench.plan", "smoke", *words])
    with pytest.raises(Exit, match=r"^error: --via: expected a command with {host}, got ''\. Set"):
        TASKS["bench.plan"].body(Context(), "smoke", via="")
