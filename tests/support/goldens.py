"""Texts kept in tests/golden; MXSCALE_GOLDEN=renew makes a test write its own anew."""

import os

from tests.support.paths import GOLDEN


def assert_golden(name: str, text: str) -> None:
    """Compares the text with the kept one of this name; look at the difference after renewing."""
    path = GOLDEN / name
    if os.environ.get("MXSCALE_GOLDEN") == "renew":
        path.write_text(text, encoding="utf-8")
    kept = path.read_text(encoding="utf-8") if path.exists() else ""
    # Not `assert text == kept`: pytest would take minutes to tell two pictures apart.
    assert (text == kept) is True, (
        f"{path} is not what is made now; MXSCALE_GOLDEN=renew, then git diff"
    )
