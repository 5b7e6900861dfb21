"""The help of every task and program: METAVARs, defaults, groups, one line per summary."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest
from invoke.collection import Collection

import fabfile
from bench import fine_tune, score
from bench.training import options
from im2rec_tools import im2rec
from im2rec_tools.options import OptionHelp
from tasks.cli import task
from tasks.help import DeclaredTask, help_lines, option_groups, parameter_of

# What `fab --list` leaves for a summary on a terminal of 80 columns.
SUMMARY = 55
# A task with more options has them in groups.
UNGROUPED = 10


def every_task(collection: Collection, prefix: str = "") -> Iterator[tuple[str, Any]]:
    yield from ((prefix + name, one) for name, one in collection.tasks.items())
    for name, inner in collection.collections.items():
        yield from every_task(inner, f"{prefix}{name}.")


TASKS = dict(every_task(fabfile.namespace))
OPTIONS = [(name, option) for name, one in TASKS.items() for option in one.options]


@pytest.mark.parametrize("name", sorted(TASKS))
def test_a_summary_is_one_short_imperative_sentence(name: str) -> None:
    summary = (inspect.getdoc(TASKS[name]) or "").split("\n\n")[0]
    assert len(summary) <= SUMMARY
    assert re.fullmatch(r"[A-Z][a-z]+ [^\n]*[^.]\.", summary)
    assert not summary.split()[0].endswith("s")


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_every_option_has_a_metavar_a_text_and_its_default(name: str, option: str) -> None:
    (argument,) = (one for one in TASKS[name].get_arguments() if parameter_of(one) == option)
    known: OptionHelp = TASKS[name].options[option]
    assert not re.search(r"[^.]\.$", known.text)
    assert bool(known.metavar) == (argument.kind is not bool)
    default = argument.default
    if argument.kind is bool or not default or argument.positional:
        return
    assert re.search(rf"\[{re.escape(str(default))}( \S+)?\]$", known.described(default))


@pytest.mark.parametrize("name", sorted(TASKS))
def test_help_names_every_argument_and_fits_the_terminal(name: str) -> None:
    lines = list(help_lines(name, TASKS[name], 80))
    text = "\n".join(lines)
    assert "STRING" not in text
    assert max(map(len, lines)) <= 80
    for argument in TASKS[name].get_arguments():
        known = TASKS[name].options[parameter_of(argument)]
        if argument.positional:
            assert f" {known.metavar}" in lines[0]
        else:
            assert f" {argument.names[0]}" in text.replace("--", " ").replace(" -", "  ")


@pytest.mark.parametrize("name", sorted(TASKS))
def test_more_than_ten_options_are_in_groups(name: str) -> None:
    groups = option_groups(TASKS[name])
    assert len(groups) > 1 or sum(map(len, groups.values())) <= UNGROUPED


def test_an_undeclared_argument_is_refused() -> None:
    def body(c: Any, one: str = "", two: str = "") -> None:
        """Do nothing."""

    with pytest.raises(ValueError, match="undeclared or unknown: two"):
        DeclaredTask(body, options={"one": OptionHelp("ONE", "A value")})


def test_help_shows_arguments_defaults_with_units_and_groups() -> None:
    def body(c: Any, sweep: str, run: str = "", progress: str = "60", quick: bool = False) -> None:
        """Do it.

        At once.
        """

    declared = {
        "sweep": OptionHelp("SWEEP", "A sweep"),
        "progress": OptionHelp("SECONDS", "Fail after this long", unit="s", group="Deadlines"),
        "run": OptionHelp("RUN", "A run", empty="the newest run"),
        "quick": OptionHelp("", "Be quick"),
    }
    made = task(declared, optional=["run"])(body)
    assert list(help_lines("do.it", made, 80)) == [
        "Usage: fab do.it SWEEP [options]",
        "",
        "Do it.",
        "",
        "At once.",
        "",
        "Arguments:",
        "  SWEEP               A sweep",
        "",
        "Options:",
        "  --run[=RUN]         A run [the newest run]",
        "  --quick             Be quick",
        "",
        "Deadlines:",
        "  --progress SECONDS  Fail after this long [60 s]",
    ]


PROGRAMS = {
    "train_imagenet": options.parser(),
    "score": score.parser(),
    "fine_tune": fine_tune.parser(),
    "im2rec": im2rec.parser(),
}
OPTION = re.compile(r"^  (?:-\w [^,]*, )?(--[a-z0-9-]+)(?:[, ].*?)?(?:\s{2,}|$)")


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_program_gives_metavar_text_and_default_of_every_option(name: str) -> None:
    parser = PROGRAMS[name]
    texts = _option_texts(parser.format_help())
    assert len(texts) > 8
    for option, text in texts.items():
        destination = option.removeprefix("--").replace("-", "_")
        assert f"{option} {destination.upper()} " not in f"{text} " or len(destination) < 5
        default = parser.get_default(destination)
        shown = " ".join(default) if isinstance(default, list) else str(default)
        if shown not in {"None", "", "True", "False"}:
            assert re.search(rf"\[{re.escape(shown)}( \S+)?\]$", text), text


def _option_texts(page: str) -> dict[str, str]:
    """Each option with its whole help on one line."""
    found: dict[str, str] = {}
    option = ""
    for line in page.splitlines():
        if match := OPTION.match(line):
            option = match[1]
            found[option] = line.strip()
        elif line.startswith("   ") and option:
            found[option] += f" {line.strip()}"
        else:
            option = ""
    return found
