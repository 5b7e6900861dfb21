"""Error lines have one form everywhere."""

import inspect

import pytest

import launch.remote.errors
from im2rec_tools.errors import error_line
from im2rec_tools.options import ProgramParser


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ({"expected": "1 to 8", "got": "'9'"}, "FILE:3: expected 1 to 8, got '9'"),
        ({"expected": "1 to 8", "got": 0, "fix": "Use 1"}, "FILE:3: expected 1 to 8, got 0. Use 1"),
        ({"expected": "a name"}, "FILE:3: expected a name"),
        ({"problem": "cannot be read"}, "FILE:3: cannot be read"),
        ({"problem": "torn", "fix": "Copy it again"}, "FILE:3: torn. Copy it again"),
        ({"expected": "a", "got": "b", "problem": "c"}, "FILE:3: expected a, got b; c"),
    ],
)
def test_an_error_names_the_place_first_and_the_fix_last(parts: dict[str, str], line: str) -> None:
    assert error_line("FILE:3", **parts) == line


def test_the_rest_of_a_line_has_no_place_of_its_own() -> None:
    assert error_line("", expected="a GPU", got="none", fix="Add one") == (
        "expected a GPU, got none. Add one"
    )


def test_hosts_compose_errors_by_the_same_code() -> None:
    assert inspect.getsource(launch.remote.errors.error_line) == inspect.getsource(error_line)


def test_a_wrong_command_line_of_a_program_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        ProgramParser(prog="python -m x").parse_args(["--bogus"])
    assert capsys.readouterr().err == (
        "error: python -m x: unrecognized arguments: --bogus. Run 'python -m x --help'\n"
    )
