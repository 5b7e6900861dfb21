"""A run and its report are checked against a digest and the raw events."""

import gzip
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

import fabfile as _fabfile
import launch.job.logs
from launch.hosts import ROOT
from plots.check import verify_report
from plots.report import build
from results.integrity import digest
from results.integrity.file_changes import changes
from results.run import load
from results.store import Store, read_records
from tasks.report import costs_of
from tests.support.programs.commands import refusal
from tests.support.programs.jobs import measured, trial
from tests.support.repeats import numbers

fabfile: Any = _fabfile
pytestmark = pytest.mark.program


@pytest.fixture(autouse=True)
def in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run with its report: two points with two repeats and a failed point."""
    folder = tmp_path_factory.mktemp("run")
    one = trial(devices=1, devices_per_host=1, kvstore="local")
    measured(folder, one, trial(), trial("worker-1:exit@2", network="alexnet"), repeats=2)
    built(folder)
    return folder


def built(folder: Path) -> str:
    build(run := load(folder), costs_of(run, None))
    return digest.write(folder, "code")


def copy(folder: Path, to: Path) -> Path:
    return Path(shutil.copytree(folder, to / folder.name))


def replaced(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def events_of(folder: Path, name: str) -> Path:
    return min(folder.glob(f"logs/*/*/{name}.events.jsonl"))


def test_an_untouched_run_holds_wherever_it_lies(run: Path, tmp_path: Path) -> None:
    moved = copy(run, tmp_path)
    result = verify_report(moved, digest.run_digests(run).digest)
    assert result.wrong == []
    ranks = [rank for one in read_records(run) for rank in one.ranks]
    assert (result.ranks, result.rows) == (len(ranks), 3)
    assert len(ranks) >= 6  # of the four runs that ended; a failed one may stop before its windows
    assert result.windows == sum(len(rank.seconds) for rank in ranks)


def test_the_same_records_have_the_same_digest_when_the_report_is_built_again(
    run: Path, tmp_path: Path
) -> None:
    again = copy(run, tmp_path)
    before = digest.load(again)
    assert before is not None
    assert built(again) == before.digest == digest.run_digests(run).digest


@pytest.mark.parametrize("seed", numbers(20, 1))
def test_a_flipped_digit_is_found_and_its_line_named(run: Path, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    changed, expected = copy(run, tmp_path), digest.run_digests(run).digest
    files = [
        *changed.glob("*.json*"),
        *changed.glob("*.toml"),
        *changed.glob("logs/*/*/*"),
        *changed.glob("report/*.[cmsj][svs]*"),
    ]
    kind = chance.choice(sorted({path.name for path in files}))
    path = chance.choice(sorted(one for one in files if one.name == kind))
    data = bytearray(path.read_bytes())
    digits = [n for n, byte in enumerate(data) if chr(byte).isdigit()]
    if not digits:
        data += b"1"  # sweep.toml of a sweep that tests make
    else:
        place = chance.choice(digits)
        data[place] = ord("0") + (data[place] - ord("0") + chance.randint(1, 9)) % 10
    line = data[: place if digits else 0].count(b"\n") + 1
    path.write_bytes(data)
    wrong = verify_report(changed, expected).wrong
    name = path.relative_to(changed).as_posix()
    if name == "report/digests.json":
        assert any(name in one for one in wrong), wrong
    else:
        assert any(f"{name} line {line}: modified" in one for one in wrong) or (
            not digits and any(name in one for one in wrong)
        ), wrong


@pytest.mark.parametrize(
    "kept", ["", "{}\n", "the first line", "a link", "a folder that is a link"]
)
def test_a_worker_whose_events_do_not_count_is_told(run: Path, tmp_path: Path, kept: str) -> None:
    changed = copy(run, tmp_path)
    path = events_of(changed, "worker-1")
    text = path.read_text()
    if kept == "a link":
        path.rename(tmp_path / "events")
        path.symlink_to(tmp_path / "events")
    elif kept == "a folder that is a link":
        path.parent.rename(tmp_path / "events")
        path.parent.symlink_to(tmp_path / "events")
    else:
        path.write_text(text.splitlines(keepends=True)[0] if kept == "the first line" else kept)
    if kept:
        shutil.rmtree(changed / "report")  # or all of it is drawn again
    else:
        built(changed)  # nor does a new digest hide it
    after = verify_report(changed)
    assert after.ranks < sum(len(one.ranks) for one in read_records(run))
    if kept == "a folder that is a link":
        assert any(" no logs; windows taken as" in one for one in after.unchecked)
        return
    said = "worker-1 has no events" if kept == "a link" else "the events of worker-1 give no rank"
    assert any(said in one for one in after.wrong), after.wrong


def test_a_changed_event_is_told_by_rank_and_window(run: Path, tmp_path: Path) -> None:
    changed = copy(run, tmp_path)
    shutil.rmtree(changed / "report")  # or all of it is drawn again
    path = events_of(changed, "worker-1")
    line = [json.loads(one) for one in path.read_text().splitlines()][2]
    replaced(path, f'"seconds": {line["seconds"]}', '"seconds": 0.125')
    wrong = verify_report(changed).wrong
    who = f"rank {line['rank']} (worker-1 on "
    assert any(
        who in one and "window 1: seconds" in one and "events give 0.125" in one for one in wrong
    ), wrong


@pytest.mark.parametrize("name", ["input_wait", "run_delay", "own_seconds"])
def test_a_changed_wait_is_told(run: Path, tmp_path: Path, name: str) -> None:
    changed = copy(run, tmp_path)
    shutil.rmtree(changed / "report")
    path = events_of(changed, "worker-1")
    line = [json.loads(one) for one in path.read_text().splitlines()][3]
    replaced(path, f'"{name}": {line[name]}', f'"{name}": 0.125')
    wrong = verify_report(changed).wrong
    assert any(f": {name} " in one and "events give 0.125" in one for one in wrong), wrong


@pytest.mark.slow
def test_a_digit_changed_everywhere_but_in_the_events_is_still_found(
    run: Path, tmp_path: Path
) -> None:
    changed = copy(run, tmp_path)
    lines = (changed / "records.jsonl").read_text().splitlines()
    first = json.loads(lines[0])
    first["ranks"][0]["seconds"][1] /= 2
    (changed / "records.jsonl").write_text("\n".join([json.dumps(first), *lines[1:]]) + "\n")
    after = built(changed)
    wrong = verify_report(changed, digest.run_digests(run).digest).wrong
    told = "\n".join(wrong)
    assert wrong[0].endswith(f", got {after}")
    assert "was rebuilt since, or this file was changed with the others" in wrong[1]
    assert "records.jsonl line 1 (" in told
    assert "window 2: seconds" in told
    name = load(changed).rows[0].trial.name
    assert f"({name}), images_per_second: expected" in told
    shutil.rmtree(changed / "report")
    assert verify_report(changed).wrong != []


def test_a_cell_that_does_not_follow_is_told_with_what_it_should_be(
    run: Path, tmp_path: Path
) -> None:
    changed = copy(run, tmp_path)
    rate = load(run).rows[0].rate
    assert rate is not None
    path = changed / "report" / "results.csv"
    replaced(path, str(rate.images_per_second), "77.5")
    digest.write(changed, "code")
    (wrong,) = verify_report(changed, digest.run_digests(run).digest).wrong
    assert wrong == (
        f"results.csv row 1 (tiny local x1), images_per_second: expected "
        f"{rate.images_per_second} (from the events), got 77.5"
    )


def test_a_line_of_the_page_that_does_not_follow_is_told(run: Path, tmp_path: Path) -> None:
    changed = copy(run, tmp_path)
    replaced(changed / "report" / "report.md", "| tiny", "| tony")
    digest.write(changed, "code")
    (wrong,) = verify_report(changed).wrong
    assert "report.md line " in wrong
    assert "'| tony" in wrong


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda path: path.unlink(), "missing; it was there"),
        (
            lambda path: path.write_text(path.read_text() + "{}\n"),
            "lines added after line 4; 5 lines now",
        ),
        (lambda path: path.write_text(path.read_text()[:-9]), "line 4: modified"),
        (
            lambda path: path.write_text("".join(path.read_text().splitlines(True)[:3])),
            "truncated after",
        ),
        (lambda path: path.with_name("x.log").touch(), "x.log: added after"),
    ],
)
def test_files_that_came_went_grew_or_shrank_are_told(
    run: Path, tmp_path: Path, change: Any, said: str
) -> None:
    changed = copy(run, tmp_path)
    logs = sorted(changed.glob("logs/*/*/worker-0.log"))
    change(next(log for log in logs if len(log.read_text().splitlines()) == 4))
    was = digest.load(changed)
    assert was is not None
    assert any(said in one for one in changes(changed, was, digest.run_digests(changed)))


def test_packed_logs_and_events_are_read_and_a_damaged_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch.job.logs, "COMPRESS_ABOVE_BYTES", 20)
    measured(tmp_path, trial())
    expected = built(tmp_path)
    result = verify_report(tmp_path, expected)
    assert (result.wrong, result.ranks) == ([], 2)
    path = min(tmp_path.glob("logs/*/*/worker-0.events.jsonl.gz"))
    lines = gzip.decompress(path.read_bytes()).decode().splitlines(keepends=True)
    lines[3] = lines[3].replace('"seconds": 0', '"seconds": 1')
    path.write_bytes(gzip.compress("".join(lines).encode()))
    name = path.relative_to(tmp_path).as_posix()
    was = digest.load(tmp_path)
    assert was is not None
    found = changes(tmp_path, was, digest.run_digests(tmp_path))
    assert any(f"{name} line 4: modified" in one for one in found)
    path.write_bytes(path.read_bytes()[:60])
    shutil.rmtree(tmp_path / "report")
    wrong = "\n".join(verify_report(tmp_path).wrong)
    assert f"{name}: " in wrong
    assert "cannot be read" in wrong


def test_a_run_without_events_is_checked_as_far_as_that_goes(run: Path, tmp_path: Path) -> None:
    changed = copy(run, tmp_path)
    shutil.rmtree(changed / "logs")
    shutil.rmtree(changed / "report")
    result = verify_report(changed)
    assert result.wrong == []
    told = "\n".join(result.unchecked)
    assert "6 of 6 repeats: no logs; windows taken as recorded" in told
    assert "report/digests.json: missing" in told


def test_logs_of_a_try_that_left_no_record_are_not_held_against_another(tmp_path: Path) -> None:
    measured(tmp_path, trial())
    path = min(tmp_path.glob("logs/*/*/recorded.json"))
    path.unlink()
    replaced(events_of(tmp_path, "worker-0"), '"seconds": 0.', '"seconds": 1.')
    result = verify_report(tmp_path)
    assert result.wrong == []
    assert any("1 of 1 repeats: logs are of another attempt" in one for one in result.unchecked)


def test_a_failed_check_ends_with_2_and_says_where(run: Path, tmp_path: Path, capsys: Any) -> None:
    changed = copy(run, tmp_path)
    replaced(changed / "environment.json", '"cores": ', '"cores": 1')
    code, line = refusal(fabfile.report.report_verify, run=str(changed))
    assert (
        code,
        "failed verification. docs/reference/verification.md has the fix of each" in line,
    ) == (2, True), line
    assert "WRONG: environment.json line " in capsys.readouterr().out


def test_a_run_that_is_being_written_is_not_checked(tmp_path: Path) -> None:
    store = Store(tmp_path)
    code, line = refusal(fabfile.report.report_verify, run=str(tmp_path))
    store.close()
    assert (code, "is writing to it. Wait for it to end" in line) == (2, True)


def test_a_digest_that_is_none_is_refused() -> None:
    code, line = refusal(fabfile.report.report_verify, digest="sha256:12")
    assert (code, "--digest: expected 'sha256:' and 64 hex digits" in line) == (2, True)
