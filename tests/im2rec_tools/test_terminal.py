"""No foreign text controls a terminal, or imitates a line of mxscale."""

import ast
import dataclasses
import io
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.live import Live
from rich.table import Table

from im2rec_tools import terminal
from im2rec_tools.console import Screen, cell, line
from im2rec_tools.errors import DataError
from im2rec_tools.terminal import Filter, echo, error_lines, one_line, printable
from launch.remote.errors import PreflightError
from tests.support.paths import ROOT
from tests.support.runs.scenes import point
from tests.support.runs.stores import stored
from tests.support.sources import modules

# A title, an erased and a forged line, C1, DEL, right-to-left override, a lone surrogate.
EVIL = "\x1b]0;PWN\x07a\x1b[2K\rb\nall 2 hosts ready\x9b31m\x7f\x08\u202eevil\u2066\ud800\u2028c"
# Programs whose output another mxscale program reads, or that need only Python.
PROTOCOLS = {
    *("bench/libraries.py", "bench/data/disk.py", "bench/data/partition.py"),
    *(
        "launch/remote/stop.py",
        "launch/remote/environment.py",
        "launch/remote/facts.py",
        "launch/remote/probe.py",
        "launch/transport/join.py",
    ),
    "im2rec_tools/transfer/host_program.py",
}
FAB = Path(sys.executable).with_name("fab")
# The last two print how a command is run.
PRINTS = {
    *("im2rec_tools/terminal.py", "im2rec_tools/console.py", "im2rec_tools/__init__.py"),
    "im2rec_tools/commands/im2rec_tools.py",
}


def is_safe(text: str) -> bool:
    return all(c.isprintable() or c in "\t\n" for c in text)


def test_a_line_keeps_its_words_and_loses_its_controls() -> None:
    assert printable("plain\twords, é 漢") == "plain\twords, é 漢"
    assert printable(EVIL).isprintable()
    assert "PWN" in printable(EVIL)
    assert one_line("a \n b") == "a b"


@given(st.text())
def test_no_text_makes_more_than_one_line(text: str) -> None:
    assert is_safe(printable(text))
    assert "\n" not in printable(text)
    assert len(printable(text).splitlines()) <= 1


def test_a_value_with_ends_of_lines_forges_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    echo(f"node01: {EVIL}", "ours")
    out = capsys.readouterr().out
    assert is_safe(out)
    assert [text.startswith("node01: ") for text in out.splitlines()] == [True, False]


@pytest.mark.parametrize("kind", [PreflightError, DataError])
def test_an_error_of_several_lines_has_no_more_than_it_was_given(kind: type[Exception]) -> None:
    error = kind("1 of 2 hosts are not ready:", f"node01: {EVIL}\n  node02: ready")
    assert len(error_lines(error).split("\n")) == 2
    assert is_safe(error_lines(error))


def test_a_word_of_thousands_of_letters_is_cut_in_an_error() -> None:
    text = error_lines(DataError(f"list.lst:1: expected a number, got {'9' * 70_000!r}"))
    assert len(text) < 500
    assert len(error_lines(DataError("word " * 20_000))) < 5000


def test_the_filter_holds_what_is_printed_past_our_own_functions() -> None:
    stream = io.StringIO()
    print(EVIL, end="\nend\n", file=Filter(stream))
    assert is_safe(stream.getvalue())
    assert stream.getvalue().endswith("end\n")


def shown(screen: Screen) -> str:
    """Return a screen's output without Rich's codes for styles, cursor and lines."""
    file = screen.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def a_screen(**settings: Any) -> Screen:
    return Screen(**{"file": io.StringIO(), "width": 200, "_environ": {}, **settings})


def test_tables_show_texts_of_others_without_controls() -> None:
    screen = a_screen()
    table = Table()
    table.add_column("host")
    table.add_row(cell(EVIL))
    table.add_row(EVIL)
    screen.print(table, line(EVIL))
    assert is_safe(shown(screen))
    assert "PWN" in shown(screen)


def test_a_live_display_keeps_its_own_escapes_and_passes_no_others() -> None:
    screen = a_screen(force_terminal=True, height=20)
    with Live(line(EVIL), console=screen, auto_refresh=False) as live:
        live.refresh()
        screen.print(line(EVIL), style="red")
    text = shown(screen)
    assert "\x1b[?25l" in text  # the cursor is hidden by Rich
    assert "\x1b[31m" in text
    for evil in ("\x1b]0", "\x07", "\x9b", "\u202e", "\ud800", "\x7f"):
        assert evil not in text


def test_a_screen_writes_to_the_terminal_itself_and_not_to_the_filter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", Filter(stream))
    assert Screen(err=True).file is stream
    assert terminal.unfiltered(err=True) is stream


def prints(source: str) -> list[int]:
    """Return lines that print possibly foreign text without `echo` and `Screen`."""
    tree = ast.parse(source)
    fixed = {
        id(node.func)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and all(isinstance(arg, ast.Constant) for arg in node.args)
    }
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Name)
        and (node.id == "Console" or (node.id == "print" and id(node) not in fixed))
        and isinstance(node.ctx, ast.Load)
    ]


def annotations(source: str) -> set[int]:
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.arg) and node.annotation:
            found.add(node.annotation.lineno)
    return found


def test_what_is_printed_is_printed_in_one_place() -> None:
    wrong = {}
    for path in modules():
        name, source = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
        if name not in PROTOCOLS | PRINTS and ("print" in source or "Console" in source):
            wrong[name] = set(prints(source)) - annotations(source)
    assert {name: lines for name, lines in wrong.items() if lines} == {}


def on_terminal(*words: str | Path) -> str:
    """Return what a command writes to a terminal that is its stdout and stderr."""
    mine, its = pty.openpty()
    taken = bytearray()

    def read() -> None:
        try:
            while data := os.read(mine, 65536):
                taken.extend(data)
        except OSError:  # it has closed its end
            pass

    reader = threading.Thread(target=read)
    reader.start()
    subprocess.run(
        words,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=its,
        stderr=its,
        timeout=120,
        check=False,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "300", "PYTHONUTF8": "1"},
    )
    os.close(its)
    reader.join(60)
    os.close(mine)
    return taken.decode("utf-8", "replace")


@pytest.fixture
def evil_run(tmp_path: Path) -> Path:
    """Return a foreign run, each of whose texts has terminal controls."""
    record = point(1, 10.0, env=[f"NOTE={EVIL}"])
    text = EVIL.replace("\ud800", "")
    failed = dataclasses.replace(
        point(2, 10.0, status="failed"), message=text, commands={"worker-0": f"echo {text}"}
    )
    folder = tmp_path / "run"
    stored(folder, record, failed)
    facts = {"cores": [0], "processor": text, "memory_mib": 1024, text: text}
    known = {"description": text, "processor": text, "commit": text, "hosts": {text: facts}}
    (folder / "environment.json").write_text(json.dumps(known | {"date": text}))
    (folder / "x\x1b]0;PWN\x07").write_text("")
    return Path(shutil.move(folder, tmp_path / "run\x1b]0;PWN\x07\nall ready"))


TASKS = ("report.show", "results.show", "report.build", "report.verify")
# fab with each of the tasks, in one process, whatever exit codes they end with.
EACH = """
import sys
from contextlib import suppress
from fabric.main import program
for task in sys.argv[2:]:
    print("begin", task, flush=True)
    with suppress(SystemExit):
        program.run(["fab", task, "--run", sys.argv[1]])
"""


def test_the_run_of_a_stranger_sends_no_escape_to_the_terminal(evil_run: Path) -> None:
    out = on_terminal(sys.executable, "-c", EACH, evil_run, *TASKS)
    parts = re.split("begin .*", out)[1:]
    assert ["PWN" in part for part in parts] == [True] * len(TASKS)
    for evil in ("\x1b]", "\x07", "\x9b", "\u202e", "\u2066", "\x7f", "\x08", "\x1b[2K"):
        assert evil not in out
    forged = ("all 2 hosts ready", "all ready")
    assert not any(text.startswith(forged) for text in out.splitlines())


@pytest.mark.program
def test_a_sweep_on_a_terminal_has_its_live_display_and_no_escape_of_its_texts(
    tmp_path: Path,
) -> None:
    sweep = tmp_path / "s.toml"
    sweep.write_text(
        'network = "tiny"\nbatch_per_device = 2\nwindows = 3\nengine = "fake"\n'
        'description = "\\u001b]0;PWN\\u0007\\u001b[2K\\nall 2 hosts ready"\n'
        'env = ["NOTE=\\u001b]0;PWN\\u0007\\u202e"]\nfake_faults = ["worker-0:exit"]\n[[points]]\n'
    )
    out = on_terminal(FAB, "bench.sweep", sweep, "--run", tmp_path / "run")
    assert "\x1b[?25l" in out  # the cursor is hidden while the display is live
    assert "PWN" in out
    for evil in ("\x1b]", "\x07", "\u202e"):
        assert evil not in out
    assert not any(text.startswith("all 2 hosts ready") for text in out.splitlines())
