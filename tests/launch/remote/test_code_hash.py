"""The hash over the code that decides a number."""

import os
from pathlib import Path

import pytest

from launch.remote.code_hash import code_hash


def test_a_pipe_in_a_checkout_is_an_error_and_no_wait(tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    os.mkfifo(tmp_path / "bench" / "pipe.py")
    with pytest.raises(OSError, match="no regular file") as caught:
        code_hash(tmp_path)
    assert caught.value.filename == str(tmp_path / "bench" / "pipe.py")
