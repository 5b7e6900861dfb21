"""The error of a file that is not TOML shows the line."""

import tomllib

import pytest

from bench.errors import toml_error


@pytest.mark.parametrize(
    ("text", "number", "shown", "column"),
    [
        ("a = 1\nrepeats 3\n", 2, "repeats 3", 8),
        ("a = 1\nb = [1, 2\nc = 3\n[[points]]\nd = [1]\n", 2, "b = [1, 2", 4),
        ("a = [1, '[', 2\n# ]\n", 1, "a = [1, '[', 2", 4),
        ("[[points\nb = 1\n", 1, "[[points", 0),
        ("a = [\n 1\n 2\n]\n", 3, " 2", 1),
        ("a = \n", 1, "a = ", 4),
        ('a = "open\nb = 2\n', 1, 'a = "open', 9),
        ("\ta = = 1\n", 1, "\ta = = 1", 5),
        ("a = " + "[" * 5000, 1, "a = " + "[" * 30, 4),
    ],
)
def test_the_line_of_a_toml_error_is_shown_with_a_caret(
    text: str, number: int, shown: str, column: int
) -> None:
    with pytest.raises((ValueError, RecursionError)) as caught:
        tomllib.loads(text)
    error = toml_error("mine.toml", text, caught.value, "See the page")
    head, line, caret = error.lines  # type: ignore[attr-defined]
    assert head.startswith(f"mine.toml:{number}: not a TOML file: ")
    assert " line " not in head
    assert (line, caret.index("^")) == (shown, column)
    assert str(error) == head


def test_an_error_without_a_place_is_one_line() -> None:
    error = toml_error("mine.toml", "a = 1\n", ValueError("an integer is too long"))
    assert str(error) == "mine.toml: not a TOML file: an integer is too long"
