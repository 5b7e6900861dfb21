"""The reference of settings equals their declaration."""

from bench.settings.reference import PAGE, renewed


def test_the_reference_is_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert renewed(page) == page, "run python -m bench.settings.reference"
