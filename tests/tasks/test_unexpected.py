"""An unexpected error is one line, which names the file with its traceback."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from invoke.context import Context
from invoke.exceptions import Exit

from bench import errors, train_imagenet
from bench.training.options import parse
from im2rec_tools.terminal import unexpected
from tasks.cli import command
from tests.support.paths import ROOT

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def fails(text: str) -> None:
    raise IndexError(text)


def raised(text: str) -> Exception:
    with pytest.raises(IndexError) as caught:
        fails(text)
    return caught.value


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_the_line_names_the_error_its_place_and_a_private_file(tmp_path: Path) -> None:
    line = unexpected(raised("list index\nout of range"))
    found = re.fullmatch(
        r"mxscale: unexpected IndexError: list index out of range "
        r"\(tests/tasks/test_unexpected.py:\d+\)\. Report it with the traceback in (\S+)",
        line,
    )
    assert found
    path = Path(found[1])
    assert path.parent == tmp_path
    assert path.stat().st_mode & 0o777 == 0o600
    assert "Traceback (most recent call last)" in path.read_text()


def test_without_a_folder_for_the_file_the_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere/at/all")
    line = unexpected(raised("x"))
    assert line.endswith("Set TMPDIR to a folder for its traceback, and run the same command again")


def test_a_task_ends_with_one_line_and_hides_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)

    @command
    def task(_: Context) -> None:
        raise KeyError("HF_TOKEN=s3cret")

    with pytest.raises(Exit) as caught:
        task(Context())
    assert caught.value.code == 1
    assert str(caught.value).startswith("error: mxscale: unexpected KeyError: ")
    assert "\n" not in str(caught.value)
    [file] = tmp_path.iterdir()
    assert "s3cret" not in str(caught.value) + file.read_text().partition("KeyError: ")[2]


def by_chance() -> None:
    raise ImportError("half loaded")


def of_a_part() -> None:
    raise Exit("error: a part of the report failed", code=1)


@pytest.mark.parametrize("consequence", [by_chance, of_a_part])
def test_an_interrupt_that_a_library_turns_into_another_error_is_an_interrupt(
    consequence: Callable[[], None],
) -> None:
    kept = [signal.getsignal(one) for one in SIGNALS]

    @command
    def task(_: Context) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            consequence()

    try:
        with pytest.raises(Exit) as caught:
            task(Context())
    finally:
        for one, handler in zip(SIGNALS, kept, strict=True):
            signal.signal(one, handler)
    assert (caught.value.code, str(caught.value)[:12]) == (130, "interrupted;")


@pytest.mark.parametrize("in_a_job", [False, True])
def test_a_worker_prints_a_traceback_only_into_the_log_of_a_job(
    in_a_job: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ends(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(os, "_exit", ends)
    monkeypatch.setattr(sys, "argv", ["train_imagenet"])
    monkeypatch.setattr(train_imagenet, "install_filter", lambda: None)
    monkeypatch.delenv("MXSCALE_EVENTS", raising=False)
    monkeypatch.setattr(train_imagenet, "announce_rendezvous", lambda: fails("x"))
    monkeypatch.setattr(train_imagenet, "sized", lambda _, argv: argv)
    if in_a_job:
        monkeypatch.setenv("MXSCALE_EVENTS", os.devnull)
    with pytest.raises(SystemExit) as caught:
        train_imagenet.main(lambda _: parse(["--benchmark=1", "--windows=1"]))
    assert caught.value.code == 1
    said = capsys.readouterr().err
    assert ("Traceback" in said) == in_a_job
    assert "IndexError" in said


def test_a_python_without_mxnet_is_told_which_to_use(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(errors, "find_spec", lambda _: None)
    with pytest.raises(SystemExit) as caught:
        errors.check_python("bench.score")
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert "expected a Python with MXNet, got none. Use .venv/bin/python" in said
    assert said.endswith(".venv/bin/python -m bench.score\n")


def test_a_folder_that_an_uninstalled_package_left_is_no_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(sys, "argv", ["x", "--engine=torch"])
    with pytest.raises(SystemExit):
        errors.check_python("bench.train_imagenet")


@pytest.mark.program
@pytest.mark.parametrize("name", ["train_imagenet", "score", "fine_tune", "predict"])
def test_a_bare_python_gets_one_line_from_every_program_of_bench(name: str) -> None:
    code = (
        "import runpy, sys; sys.path.insert(0, '.'); "
        f"sys.argv = ['x']; runpy.run_module('bench.{name}', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "Use .venv/bin/python" in done.stderr


@pytest.mark.program
@pytest.mark.parametrize("raised", ["1 / 0", "raise KeyboardInterrupt"])
def test_what_nothing_catches_is_one_line(raised: str) -> None:
    code = f"from im2rec_tools.terminal import install_filter\ninstall_filter()\n{raised}"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    for path in re.findall(r"traceback in (\S+)", done.stderr):
        Path(path).unlink()
