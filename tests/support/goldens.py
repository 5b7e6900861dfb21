"""Texts kept in tests/golden; with MXSCALE_GOLDEN=renew a test rewrites its own."""

import os

from tests.support.paths import GOLDEN


def assert_golden(name: str, text: str) -> None:
    """Compare the text with the kept one of this name. Read the diff after renewing."""
    path = GOLDEN / name
    if os.environ.get("MXSCALE_GOLDEN") == "renew":
        path.write_text(text, encoding="utf-8")
    kept = path.read_text(encoding="utf-8") if path.exists() else ""
    # Not `assert text == kept`: pytest would need minutes for the diff of two pictures.
    assert (text == kept) is True, (
        f"{path} is not what is made now; MXSCALE_GOLDEN=renew, then git diff"
    )
