"""Help of every task and program: METAVARs, defaults, groups, summaries."""

import argparse
import inspect
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from invoke.collection import Collection
from invoke.parser import Parser

import fabfile
from bench import auto_batch, fine_tune, predict, score
from bench.settings import reference as settings_reference
from bench.training import options
from im2rec_tools import cli, im2rec
from im2rec_tools.declarations import COMMANDS
from im2rec_tools.options import OptionHelp, ProgramParser
from launch import launch
from plots.figures import accuracy
from tasks import reference
from tasks.cli import task
from tasks.help import DeclaredTask, help_lines, list_lines, option_groups, parameter_of
from tests.support.paths import ROOT

# What `fab --list` leaves for a summary on a terminal of 80 columns.
SUMMARY = 55
# A task with more options has them in groups.
UNGROUPED = 10
# The default of an option, or that it has none.
DEFAULT = r"\[[^\[\]]+\]( \(repeatable\))?$"
# The tasks that a newcomer needs first.
WITH_EXAMPLE = (
    *(
        "bench.ab",
        "bench.doctor",
        "bench.io",
        "bench.new",
        "bench.plan",
        "bench.sbatch",
        "bench.sweep",
        "data.fetch",
    ),
    *("data.pack", "data.partition", "data.upload"),
    *("data.prepare", "data.sample", "data.verify", "hosts.check", "hosts.install", "hosts.logs"),
    *("hosts.push-data", "practice.up", "report.baseline", "report.build", "report.compare"),
    *("report.explain", "report.figure", "report.predict", "report.show", "report.table"),
    "report.verify",
    *("results.export", "results.import", "results.trace"),
)


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
    assert re.match("[A-Z.]", known.text)
    assert not re.search(r"[^.]\.$", known.text)
    assert bool(known.metavar) == (argument.kind is not bool)
    default = argument.default
    if argument.positional:
        return
    assert re.search(DEFAULT, known.described(default))
    if argument.kind is bool or not default:
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


def test_the_tasks_of_a_newcomer_have_an_example() -> None:
    assert sorted(name for name, one in TASKS.items() if one.example) == sorted(WITH_EXAMPLE)


@pytest.mark.parametrize("name", WITH_EXAMPLE)
def test_an_example_is_a_command_of_its_task(name: str) -> None:
    lines = list(help_lines(name, TASKS[name], 80))
    assert lines[-2] == "Example:"
    words = shlex.split(lines[-1])
    assert words[:2] == ["fab", name]
    (context,) = Parser(contexts=fabfile.namespace.to_contexts()).parse_argv(words[1:])
    assert context.name == name
    assert context.missing_positional_args == []


def test_an_alias_has_a_line_in_the_list() -> None:
    lines = list(list_lines(fabfile.namespace, "practice", 80))
    assert "  practice.restore  Same as practice.mend." in lines
    assert fabfile.namespace["practice.restore"] is fabfile.namespace["practice.mend"]


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
    made = task(declared, optional=["run"], example="mine.toml --quick")(body)
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
        "  --quick             Be quick [off]",
        "",
        "Deadlines:",
        "  --progress SECONDS  Fail after this long [60 s]",
        "",
        "Example:",
        "  fab do.it mine.toml --quick",
    ]


PROGRAMS = {
    "bench.train_imagenet": options.parser(),
    "bench.score": score.parser(),
    "bench.predict": predict.parser(),
    "bench.fine_tune": fine_tune.parser(),
    "bench.auto_batch": auto_batch.parser(),
    "bench.settings.reference": settings_reference.parser(),
    "im2rec_tools.im2rec": im2rec.parser(),
    "launch.launch": launch.parser(),
    "plots.figures.accuracy": accuracy.parser(),
    "tasks.reference": reference.parser(),
    **{f"im2rec_tools {name}": cli.parser(COMMANDS[name]) for name in COMMANDS},
}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_program_gives_metavar_text_and_default_of_every_option(name: str) -> None:
    parser = PROGRAMS[name]
    texts = _help_texts(parser)
    shown = [one for one in parser._actions if one.help != argparse.SUPPRESS]
    assert sorted(texts) == sorted(_place(one) for one in shown)
    for action in shown:
        text = texts[_place(action)]
        assert re.match("[A-Z]", text), text
        if not action.option_strings or action.dest == "help":
            continue
        assert action.nargs == 0 or action.metavar or action.choices, action
        assert re.search(DEFAULT, text), text
        default = action.default
        value = " ".join(default) if isinstance(default, list) else str(default)
        if value not in {"None", "", "True", "False"}:
            assert re.search(rf"\[{re.escape(value)}( \S+)?\]$", text), text


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_the_help_of_a_program_has_the_form_of_the_tasks(name: str) -> None:
    page = PROGRAMS[name].format_help()
    assert page.startswith(f"usage: python -m {name}")
    assert "  -h, --help " in page
    assert "\nOptions:\n" in page
    assert not re.search(r"^[a-z][a-z ]+:$", page, re.MULTILINE)


def _help_texts(parser: argparse.ArgumentParser) -> dict[str, str]:
    """The text of each argument in the parser's help, on one line, by its last name."""
    found: dict[str, str] = {}
    place = ""
    for line in parser.format_help().partition("\nExample: ")[0].splitlines():
        if match := re.match(r"^  (?! )(.+?)(?:  +(\S.*))?$", line):
            place = re.sub(r"[ ,].*", "", re.sub("^-\\w( [A-Z=]+)?, ", "", match[1]))
            found[place] = match[2] or ""
        elif line.startswith("   ") and place:
            found[place] = f"{found[place]} {line.strip()}".strip()
        else:
            place = ""
    return found


def _place(action: argparse.Action) -> str:
    """Return an argument's name: its first long option, or its placeholder."""
    long = [one for one in action.option_strings if one.startswith("--")]
    return long[0] if long else str(action.metavar)


def test_a_flag_and_a_required_option_say_so() -> None:
    made = ProgramParser(prog="x")
    made.add_argument("--quick", action="store_true", help="Be quick")
    made.add_argument("--run", required=True, metavar="RUN", help="A run")
    assert _help_texts(made) == {
        "--help": "Print this help and exit",
        "--quick": "Be quick [off]",
        "--run": "A run [required]",
    }


def test_the_programs_of_the_guide_to_own_images_take_its_options() -> None:
    page = (ROOT / "docs" / "how-to" / "train-on-your-data.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```bash\n(.*?)```", page, re.DOTALL)
    lines = [line for one in blocks for line in one.replace("\\\n", "").splitlines()]
    found = [shlex.split(line.partition("python -m ")[2]) for line in lines]
    for name, *words in found:
        PROGRAMS[name].parse_args(words)
    names = ("train_imagenet", "score", "predict", "fine_tune", "train_imagenet", "fine_tune")
    assert [name for name, *_ in found] == [f"bench.{name}" for name in names]
