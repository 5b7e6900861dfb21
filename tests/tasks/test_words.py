"""The words of a command: runs by place, near names, missing and additional words."""

import re
import shutil
import subprocess

import pytest
from invoke.exceptions import ParseError

import fabfile
from tasks.help import Words, help_lines
from tests.support.paths import ROOT

WORDS = Words(fabfile.namespace)
CORE = {"--echo": None}


def arranged(*words: str) -> list[str]:
    return WORDS.arranged(words, CORE)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "run"),
    [
        (("report.show", "demo"), "--run=demo"),
        (("report.build", "--over", "tutorial", "demo"), "--run=demo"),
        (("report.verify", "bench", "--digest=x"), "--run=bench"),
        (("report.history", "monday,main", "--point", "x2"), "--runs=monday,main"),
        (("report.baseline", "main", "monday"), "--run=monday"),
        (("results.export", "junit", "monday"), "--run=monday"),
        (("results.unpack", "monday.zip", "again"), "--run=again"),
        (("hosts.logs", "monday", "--lines", "3"), "--run=monday"),
    ],
)
def test_a_run_can_be_given_by_place(words: tuple[str, ...], run: str) -> None:
    made = arranged(*words)
    assert run in made
    assert len(made) == len(words)


def test_every_task_that_reads_a_run_takes_it_by_place() -> None:
    for name, task in (
        (name, WORDS.tasks[name]) for name in WORDS.contexts if not name.startswith("bench")
    ):
        arguments = {one.name: one for one in task.get_arguments()}
        writes = name in {"smoke", "results.import"}
        if "run" in arguments and not writes:
            assert arguments["run"].positional or "run" in task.by_place, name


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("bench.swep",), "expected a task, got 'bench.swep'; did you mean 'bench.sweep'?"),
        (("zzz",), "expected a task, got 'zzz'"),
        (
            ("bench.sweep", "smoke", "--repeat", "3"),
            "expected an option of this task, got '--repeat'; did you mean '--repeats'?",
        ),
        (("bench.sweep", "smoke", "more"), "expected SWEEP, got also 'more'"),
        (("report.show", "monday", "tuesday"), "expected [RUN], got also 'tuesday'"),
        (("results.export", "junit", "a", "b"), "expected TARGET [RUN], got also 'b'"),
        (("results.list", "a"), "expected no argument, got also 'a'"),
    ],
)
def test_a_wrong_word_names_what_is_near_and_what_the_task_takes(
    words: tuple[str, ...], line: str
) -> None:
    with pytest.raises(ParseError) as caught:
        arranged(*words)
    assert str(caught.value) == line


def test_words_that_are_right_stay_as_they_are() -> None:
    for words in (
        ["bench.ab", "", "dtype=bfloat16", "--sweep", "smoke", "--point", "local x1"],
        ["bench.sweep", "smoke", "--repeats", "3", "--run=monday"],
        ["report.show", "--reference", "--echo"],
        ["hosts.check", "--hostfile", "hosts", "report.baselines", "report.show", "report.build"],
        ["practice.down", "--", "anything", "--at", "all"],
    ):
        try:
            assert arranged(*words) == words
        except ParseError as error:
            pytest.fail(f"{words}: {error}")


def test_help_shows_the_run_that_can_be_left_out() -> None:
    text = "\n".join(help_lines("report.show", fabfile.namespace["report.show"], 80))
    assert text.startswith("Usage: fab report.show [RUN] [options]\n")
    assert "  RUN " in text


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
@pytest.mark.parametrize("words", [(), ("help",)])
def test_make_alone_prints_its_targets(words: tuple[str, ...]) -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    lines = done.stdout.splitlines()
    assert lines[0].startswith("make demo ")
    assert "first step" in lines[0]
    assert any(line.startswith("make environment ") for line in lines)
    makefile = (ROOT / "Makefile").read_text()
    targets = makefile.partition(".PHONY: ")[2].partition("\n")[0].split()
    named = {line.split()[1] for line in lines if line.startswith("make ")}
    assert set(targets) - {"help"} == named
    assert sorted(re.findall(r"^([a-z-]+):$", makefile, re.MULTILINE)) == sorted(targets)


def test_a_second_value_of_an_option_is_an_error() -> None:
    with pytest.raises(ParseError, match="expected --repeats once, got it twice"):
        WORDS.arranged(["bench.sweep", "smoke", "--repeats", "2", "--repeats=3"], {})
    many = ["bench.sweep", "smoke", "-x", "A=1", "-x", "B=2"]
    assert WORDS.arranged(many, {}) == many
