"""launch.launch on this machine: scripts of other frameworks, and dry runs."""

import os
import sys
from pathlib import Path

import pytest

from launch.hosts import ROOT
from tests.support.programs.launcher import launched_here as launched

STYLE_SCRIPT = str(ROOT / "tests/support/programs/style_script.py")
pytestmark = pytest.mark.program


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ("--style", "torch", "-n", "2"),
            {
                "worker 0": "rank 0 of 2, local 0 of 2",
                "worker 1": "rank 1 of 2, local 1 of 2",
            },
        ),
        (
            ("--style", "tensorflow", "-n", "2", "-s", "1"),
            {
                "server 0": "ps 0 of 1, met 2 and 2",
                "worker 0": "worker 0 of 2, met 2 and 2",
                "worker 1": "worker 1 of 2, met 2 and 2",
            },
        ),
        (("--style", "mpi", "-n", "3"), {"worker 0": "hosts 127.0.0.1:3"}),
    ],
)
def test_scripts_of_other_frameworks_connect_by_their_variables(
    tmp_path: Path, words: tuple[str, ...], expected: dict[str, str]
) -> None:
    code, lines, said = launched(tmp_path, *words, sys.executable, STYLE_SCRIPT, words[1])
    assert (code, said) == (0, "")
    name = os.uname().nodename
    assert sorted(lines) == [f"[{name} {who}] {line}" for who, line in expected.items()]


def test_a_dry_run_prints_every_process_and_starts_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    words = ("-n", "2", "--style", "torch", "--port", "9000", "-x", "TOKEN=hush", "--dry-run")
    code, lines, said = launched(tmp_path, *words, "touch", "a b")
    assert (code, said, list(tmp_path.iterdir())) == (0, "", [])
    place = "MASTER_ADDR=127.0.0.1 MASTER_PORT=9000 RANK={0} WORLD_SIZE=2 LOCAL_RANK={0}"
    name = os.uname().nodename
    assert lines == [
        line
        for rank in range(2)
        for line in (
            f"{name} worker-{rank}",
            f"    TOKEN=*** {place.format(rank)} LOCAL_WORLD_SIZE=2 touch 'a b'",
        )
    ]
