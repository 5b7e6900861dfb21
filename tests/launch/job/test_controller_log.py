"""The controller's log: what ran where, in clean lines of a bounded file."""

import logging
import re
from pathlib import Path

import pytest

from bench.errors import SpecError
from launch.job import controller_log as log
from results.integrity.digest import covered_files
from results.run_folder import CONTROLLER_LOG
from tests.support.programs.jobs import measured, trial

LOGGER = logging.getLogger("launch.sweep")


@pytest.mark.program
def test_a_sweep_logs_who_was_started_where_and_how_it_ended(tmp_path: Path) -> None:
    measured(tmp_path, trial("worker-1:kill@2"))
    lines = (tmp_path / CONTROLLER_LOG).read_text().splitlines()
    entry = re.compile(
        r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00 (DEBUG|INFO|WARNING) [a-z.]+: (.*)"
    )
    assert [line.split(": ")[1] for line in lines if " WARNING " in line] == [
        "tiny dist_sync x2, repeat 1"
    ]
    texts = [found[2] for found in map(entry.fullmatch, lines) if found]
    assert len(texts) == len(lines)
    text = "\n".join(texts)
    for said in (
        r"^sweep t: 1 of 1 repeats to run on ",
        r"^tiny dist_sync x2, repeat 1: try 1 of at most 1$",
        r"^start worker-1 on \S+, cores ",
        r": started: id worker-1, pid \d+",
        r": event ready$",
        r"^tiny dist_sync x2, repeat 1: failed after [\d.]+ s, cause killed: ",
        r"^all 1 repeats ran; 0 have a result$",
    ):
        assert re.search(said, text, re.MULTILINE), said
    assert CONTROLLER_LOG in covered_files(tmp_path)
    assert LOGGER.parent is not None
    assert not [one for one in LOGGER.parent.handlers if isinstance(one, logging.FileHandler)]


def test_entries_hide_secrets_and_control_characters(tmp_path: Path) -> None:
    with log.controller_log(tmp_path):
        LOGGER.info("why %s", "API_KEY=s3cret \x1b[2J\nhttps://me:word@host/")
    text = (tmp_path / CONTROLLER_LOG).read_text()
    assert "API_KEY=***" in text
    assert not re.search("s3cret|word@|\x1b", text)
    assert text.count("\n") == 1
    assert log.clean("a\udcff\nb") == "a? b"


def test_the_log_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "MOST_BYTES", 4000)
    with log.controller_log(tmp_path):
        for number in range(500):
            LOGGER.info("entry %d", number)
        LOGGER.info("x" * 100_000)
    files = [tmp_path / CONTROLLER_LOG, tmp_path / f"{CONTROLLER_LOG}.1"]
    assert sum(path.stat().st_size for path in files) <= 4000 + 5000
    assert sorted(path.name for path in tmp_path.iterdir()) == [path.name for path in files]


def test_a_log_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / CONTROLLER_LOG).mkdir()
    with log.controller_log(tmp_path):
        LOGGER.info("entry")


def test_a_full_disk_raises_nothing(tmp_path: Path) -> None:
    (tmp_path / CONTROLLER_LOG).symlink_to("/dev/full")
    with log.controller_log(tmp_path):
        LOGGER.info("entry")


def test_what_the_sweep_prints_is_not_printed_twice(capsys: pytest.CaptureFixture[str]) -> None:
    for level in ("info", "warning"):
        log.print_log(level)
        LOGGER.warning("failed", extra=log.PRINTED)
        LOGGER.warning("other")
    log.print_log("warning")
    shown = ["warning: failed", "warning: other", "warning: other"]
    assert capsys.readouterr().err.splitlines() == shown


def test_the_option_precedes_the_variable_and_decides_what_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert log.parse_level("") == "warning"
    monkeypatch.setenv(log.VARIABLE, "INFO")
    assert (log.parse_level(""), log.parse_level("debug")) == ("info", "debug")
    log.print_log("info")
    try:
        LOGGER.debug("hidden")
        LOGGER.info("shown\n")
    finally:
        log.print_log("warning")
    LOGGER.info("hidden")
    assert capsys.readouterr().err == "info: shown \n"
    monkeypatch.setenv(log.VARIABLE, "loud")
    with pytest.raises(SpecError, match=r"MXSCALE_LOG_LEVEL: expected a level, got .loud.\. Use"):
        log.parse_level("")
