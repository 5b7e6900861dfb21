"""Tasks from the command line: errors in one line with the right exit code."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from fabric import Connection
from invoke.context import Context
from invoke.exceptions import Exit

import bench.sweep
import fabfile as _fabfile
from im2rec_tools.declarations import COMMANDS
from tasks import data
from tests.support.data.trees import made, tree
from tests.support.paths import ROOT
from tests.support.programs.commands import POINT, SWEEP, fab, refusal, sweep_file

pytestmark = pytest.mark.pythons

# Invoke types a task as the function it wraps.
fabfile: Any = _fabfile


@pytest.fixture(autouse=True)
def in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.program
def test_the_list_of_tasks_has_one_line_of_help_each() -> None:
    text = fab("--list").stdout
    assert text.splitlines()[0].endswith("fab TASK --help")
    tasks = "bench.plan bench.sweep bench.io hosts.logs report.build report.show smoke demo"
    for name in [*tasks.split(), *(f"data.{name}" for name in COMMANDS)]:
        assert f"  {name} " in text
    assert re.search(r"  bench +Same as bench\.sweep\.\n", text)
    assert "Benchmarks:\n" in text
    one = fab("--list", "hosts").stdout
    assert re.findall(r"^  (\w+)\.", one, re.MULTILINE) == ["hosts"] * 6


@pytest.mark.program
def test_fab_alone_prints_its_own_options() -> None:
    text = fab().stdout
    assert text.startswith("Usage: fab TASK [ARGUMENTS] [options]\n")
    assert "STRING" not in text
    assert "-l, --list[=GROUP]" in text


@pytest.mark.program
def test_a_refusal_is_one_line_on_stderr_with_exit_code_2() -> None:
    done = fab("bench.sweep", "demoo")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: unknown sweep 'demoo'; did you mean 'demo'? Known: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.program
def test_hosts_given_to_fab_are_refused() -> None:
    done = fab("-H", "h1,h2", "report.show")
    assert done.returncode == 2
    assert "error: -H: expected no hosts" in done.stderr
    with pytest.raises(Exit, match="Use --hostfile FILE"):
        fabfile.smoke.body(Connection("h1"))


@pytest.mark.parametrize("task", [fabfile.smoke, fabfile.demo])
def test_what_shows_that_it_runs_fails_on_missing_numbers_not_on_unsteady_ones(
    task: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fabfile.data, "run_data_command", lambda *_, **__: None)

    def ends(code: int) -> None:
        def measure(*_: object) -> None:
            raise Exit("the table says which", code=code)

        monkeypatch.setattr(fabfile.bench, "measure_here", measure)

    ends(6)
    task.body(Context())
    assert "the table says which" in capsys.readouterr().err
    ends(5)
    with pytest.raises(Exit) as failed:
        task.body(Context())
    assert failed.value.code == 5


@pytest.mark.program
def test_a_sweep_prints_its_table_and_writes_its_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fabfile.bench.bench_sweep.body(Context(), sweep_file(tmp_path), [], run=str(tmp_path / "run"))
    out, err = capsys.readouterr()
    assert "dist_sync" in out
    assert "SIMULATED" in out
    assert str(tmp_path / "run" / "report" / "scaling.svg") in out
    assert "dist_sync x2: started, 2 workers on 1 host (" in err
    files = {path.relative_to(tmp_path / "run").parts[0] for path in (tmp_path / "run").iterdir()}
    assert {"sweep.toml", "records.jsonl", "environment.json", "logs", "report"} <= files
    fabfile.bench.bench_sweep.body(Context(), sweep_file(tmp_path), [], run=str(tmp_path / "run"))
    assert "started" not in capsys.readouterr().err
    assert len((tmp_path / "run" / "records.jsonl").read_text().splitlines()) == 2


def test_the_engine_fake_is_also_called_simulated(tmp_path: Path) -> None:
    sweep = sweep_file(tmp_path, SWEEP.replace('engine = "fake"', "") + POINT)
    run = tmp_path / "run"
    fabfile.bench.bench_sweep.body(Context(), sweep, [], run=str(run), engine="simulated")
    lines = (run / "records.jsonl").read_text().splitlines()
    assert [json.loads(line)["trial"]["engine"] for line in lines] == ["fake", "fake"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected at least one [[points]] table"),
        (SWEEP + POINT + "colour = 'red'", "unknown field 'colour'"),
        (SWEEP + POINT.replace("dist_sync", "dist_sink"), "did you mean 'dist_sync'?"),
        (SWEEP.replace("tiny", "tinny") + POINT, "did you mean 'tiny'?"),
        (SWEEP.replace("4", "0") + POINT, "batch_per_device: expected 1 or more, got 0"),
        (
            SWEEP + POINT + "mode = 'real'\ndata_train = 'none.rec'",
            "none.rec: expected a .rec file, got no such file",
        ),
    ],
)
def test_a_sweep_with_a_mistake_is_exit_code_2_and_leaves_no_record(
    tmp_path: Path, text: str, said: str
) -> None:
    run = tmp_path / "run"
    code, line = refusal(fabfile.bench.bench_sweep, sweep_file(tmp_path, text), [], run=str(run))
    assert code == 2
    assert said in line
    assert not (run / "records.jsonl").exists()


def test_a_port_that_is_taken_is_said_before_anything_starts(tmp_path: Path) -> None:
    import socket  # noqa: PLC0415

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, line = refusal(
            fabfile.bench.bench_sweep, sweep_file(tmp_path), [], run=f"{tmp_path}/run", port=port
        )
    assert code == 2
    assert f"--port {port}: cannot be used on 127.0.0.1" in line
    for wrong in ("http", "-1", "99999"):
        code, line = refusal(
            fabfile.bench.bench_sweep, sweep_file(tmp_path), [], run=f"{tmp_path}/run", port=wrong
        )
        assert code == 2
        assert wrong in line


def test_a_run_folder_that_cannot_be_written_is_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, line = refusal(
        fabfile.bench.bench_sweep, sweep_file(tmp_path), [], run=f"{tmp_path}/file/run"
    )
    assert code == 2
    assert "cannot be created" in line
    for name in ("records.jsonl", "environment.json"):
        (tmp_path / name / name).mkdir(parents=True)
        code, line = refusal(
            fabfile.bench.bench_sweep, sweep_file(tmp_path), [], run=f"{tmp_path}/{name}"
        )
        assert code == 2


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "rubbish"])
def test_a_damaged_shard_is_exit_code_2_before_mxnet_reads_it(tmp_path: Path, damage: str) -> None:
    path = made(tree(tmp_path / "t", {"cat": 8}))[0].path
    if damage == "missing":
        path.unlink()
    elif damage == "rubbish":
        path.write_bytes(b"no records here" * 100)
    else:
        path.write_bytes(path.read_bytes()[: 0 if damage == "empty" else -40])
    code, line = refusal(fabfile.bench.bench_io, str(path))
    assert code == 2
    assert "train_0" in line


def test_folders_without_images_are_exit_code_2(tmp_path: Path) -> None:
    for folder, cause in ((tmp_path / "none", "got no such file"), (tmp_path, "expected")):
        code, line = refusal(data.task_of(COMMANDS["prepare"]), dir=str(folder))
        assert code == 2
        assert cause in line


def test_options_that_are_no_numbers_are_exit_code_2(tmp_path: Path) -> None:
    sample, prepare = (data.task_of(COMMANDS[name]) for name in ("sample", "prepare"))
    code, line = refusal(sample, root=str(tmp_path / "s"), images_per_class="many")
    assert (code, line) == (
        2,
        "error: --images-per-class: expected a whole number, 0 or more, got 'many'",
    )
    assert refusal(prepare, dir=str(tmp_path), small="stretch")[0] == 2
    assert refusal(fabfile.bench.bench_io, "x.rec", image_shape="big")[0] == 2


def test_tasks_outside_the_checkout_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert refusal(fabfile.report.report_show)[0] == 2


def test_an_interrupt_is_exit_code_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_args: object, **_kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bench.sweep, "load_sweep", interrupted)
    assert refusal(fabfile.bench.bench_sweep, "demo", [])[0] == 130


def test_the_plan_of_the_study_shows_every_process_of_sixteen_hosts(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    fabfile.plan.bench_plan.body(
        Context(), "seed", point="resnet-152 dist_device_sync x256", commands=True
    )
    text = capsys.readouterr().out
    assert text.count("DMLC_ROLE=worker") == text.count("DMLC_ROLE=server") == 16
    assert text.count("DMLC_ROLE=scheduler") == 1
    assert "batch 32 per device, 512 per worker, 8192 in total" in text
    few = tmp_path / "hosts"
    few.write_text("192.0.2.1 slots=3\n192.0.2.2 slots=3\n192.0.2.3 slots=3\n")
    fabfile.plan.bench_plan.body(
        Context(), "seed", hostfile=str(few), point="alexnet", commands=True
    )
    points = [line for line in capsys.readouterr().out.splitlines() if line.startswith("# alex")]
    names = [line.partition(":")[0] for line in points]
    assert names == [
        *(f"# alexnet device x{count}" for count in (1, 2, 3)),
        *(f"# alexnet dist_device_sync x{count}" for count in (3, 6, 9)),
    ]


def test_what_needs_a_gpu_is_refused_where_there_is_none(tmp_path: Path) -> None:
    if Path("/proc/driver/nvidia/gpus").is_dir():
        pytest.skip("needs a machine without GPUs")
    text = SWEEP.replace("fake", "mxnet") + POINT.replace("2]", "2]\ndevice = 'gpu'")
    code, line = refusal(
        fabfile.bench.bench_sweep, sweep_file(tmp_path, text), [], run=f"{tmp_path}/run"
    )
    assert code == 2
    assert "expected a GPU on every host, got none on" in line


@pytest.mark.program
def test_a_run_is_shown_and_built_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(tmp_path / "run")
    fabfile.bench.bench_sweep.body(Context(), sweep_file(tmp_path), [], run=run)
    first = (tmp_path / "run" / "report" / "scaling.svg").read_bytes()
    shutil.rmtree(tmp_path / "run" / "report")
    fabfile.report.report_build.body(Context(), run=run)
    assert (tmp_path / "run" / "report" / "scaling.svg").read_bytes() == first
    capsys.readouterr()
    fabfile.report.report_show.body(Context(), run=run)
    assert "tiny" in capsys.readouterr().out
