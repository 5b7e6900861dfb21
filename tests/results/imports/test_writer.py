"""Imports from the command line: files, options, errors and the resulting run."""

import gzip
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from invoke.context import Context
from invoke.exceptions import Exit

import fabfile as _fabfile
from bench.notes import NoteKind
from plots.summary import summary
from plots.tables.comparison import remarks
from plots.tables.scaling import markdown
from results.comparison.compare import compare
from results.exports.point import standing
from results.run import load, with_baseline
from results.store import Store, read_json, read_records
from tests.support.paths import LOGS, ROOT
from tests.support.runs.imported_logs import SPEED

fabfile: Any = _fabfile
ASKED = {"network": "resnet-50", "devices": "1", "batch_per_device": "10"}
HOROVOD = {"network": "resnet-50", "batch_per_device": "256"}
LINES = "\n".join(SPEED.format(20 * n, 100.0) for n in range(1, 6)) + "\n"


@pytest.fixture(autouse=True)
def in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def bring(path: Path | str, run: Path, **options: Any) -> None:
    fabfile.results.results_import.body(Context(), str(path), run=str(run), **options)


def refused(path: Path | str, run: Path, **options: Any) -> str:
    with pytest.raises(Exit) as caught:
        bring(path, run, **options)
    assert caught.value.code == 2
    assert "\n" not in str(caught.value)
    return str(caught.value)


def log(folder: Path, text: str | bytes = LINES, name: str = "a.log") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_points_of_several_logs_stand_in_one_table_as_not_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bring(LOGS / "horovod-32.log", tmp_path / "r", devices="32", hosts="4", **HOROVOD)
    bring(LOGS / "horovod-64.log", tmp_path / "r", devices="64", hosts="8", **HOROVOD)
    rows = load(tmp_path / "r").rows
    assert [(row.trial.layout.devices, row.trial.hosts, row.status) for row in rows] == [
        (32, 4, "ok"),
        (64, 8, "ok"),
    ]
    assert all(row.device is None for row in rows)
    assert "not measured by mxscale: imported from horovod-64.log" in rows[1].note_text
    told = " ".join(capsys.readouterr().out.split())
    assert "7039 steps in the job's 2685 s give 42949 images/s" in told


def test_the_horovod_logs_reach_98_5_percent_against_32_gpus(tmp_path: Path) -> None:
    bring(LOGS / "horovod-32.log", tmp_path / "r", devices="32", hosts="4", **HOROVOD)
    bring(LOGS / "horovod-64.log", tmp_path / "r", devices="64", hosts="8", **HOROVOD)
    one, two = with_baseline(load(tmp_path / "r"), "horovod x32").rows
    found = two.baseline.efficiency
    assert found.value == pytest.approx(0.985, abs=0.0005)
    assert (found.low, found.high) == pytest.approx((0.942, 1.029), abs=0.002)
    assert (
        "the log prints the throughput of only 4 % of its steps, 43129 images/s)" in two.note_text
    )
    (note,) = [note for note in two.notes if note.kind is NoteKind.LOG_TOTAL_SPEEDUP]
    assert note.figures["epochs"] == 90
    assert note.figures["efficiency"] == pytest.approx(0.985, abs=0.0005)
    assert "(90 epochs): 1.97 times horovod x32, efficiency 98.5 %" in two.note_text
    assert one.baseline.efficiency.value == 1.0


def test_a_total_that_its_speeds_contradict_or_a_whole_table_leaves_the_speeds(
    tmp_path: Path,
) -> None:
    said = (LOGS / "horovod-64.log").read_text()
    rows = "".join(
        f"    - {step} {step * 90 / 7039:.1f} 43000.0 1.0 1.0 0.1\n"
        for step in range(100, 7000, 50)
    )
    texts = {
        "other": said.replace("2685.1825189590454", "3500.0"),
        "whole": said.replace("    - ...\n", rows),
        "short": said.replace("    - Finished", "    - Ended"),
    }
    for name, text in texts.items():
        path = log(tmp_path, text, f"{name}.log")
        bring(path, tmp_path / name, devices="64", hosts="8", **HOROVOD)
        (row,) = load(tmp_path / name).rows
        assert NoteKind.LOG_WHOLE_JOB not in {note.kind for note in row.notes}, name
        assert row.rate.windows > 1
    bring(LOGS / "horovod-64.log", tmp_path / "w", devices="64", warmup="2", **HOROVOD)
    assert load(tmp_path / "w").rows[0].rate.windows == 3


def test_what_neither_log_nor_person_says_is_named_as_assumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = "assumed (not in the log): "
    bring(log(tmp_path), tmp_path / "r", **ASKED, dtype="float16")
    assert f"{taken}real images, gpu" in " ".join(capsys.readouterr().out.split())
    assert f"{taken}real images, gpu" in markdown(load(tmp_path / "r").rows)
    said = {"data": "synthetic", "device": "cpu", "dtype": "float32"}
    bring(log(tmp_path), tmp_path / "s", **ASKED, **said)
    assert taken not in load(tmp_path / "s").rows[0].note_text


def test_points_of_imports_are_each_others_bases(tmp_path: Path) -> None:
    faster = LINES.replace("100.0", "720.0")
    bring(log(tmp_path), tmp_path / "r", **ASKED, kvstore="nccl")
    bring(
        log(tmp_path, faster, "b.log"), tmp_path / "r", **ASKED | {"devices": "8"}, kvstore="nccl"
    )
    one, eight = load(tmp_path / "r").rows
    assert one.device is not None
    assert eight.device is not None
    assert eight.device.speedup.value == pytest.approx(7.2)


def test_a_full_host_is_a_base_where_its_devices_are_told(tmp_path: Path) -> None:
    asked = ASKED | {"devices_per_host": "8", "kvstore": "nccl"}
    for devices, speed in (("1", "100.0"), ("8", "720.0"), ("16", "1400.0")):
        path = log(tmp_path, LINES.replace("100.0", speed), f"{devices}.log")
        bring(path, tmp_path / "r", **asked | {"devices": devices, "speeds_of": "job"})
    one, eight, sixteen = load(tmp_path / "r").rows
    assert one.host is None
    assert eight.host is not None
    assert sixteen.trial.hosts == 2
    assert sixteen.host.efficiency.value == pytest.approx(1400 / 1440)


def test_another_log_of_a_point_is_a_repeat_and_the_same_one_is_refused(tmp_path: Path) -> None:
    run = tmp_path / "r"
    bring(log(tmp_path), run, **ASKED)
    assert "already has this log, as resnet-50" in refused(log(tmp_path), run, **ASKED)
    bring(log(tmp_path, LINES.replace("100.0", "110.0")), run, **ASKED)
    (row,) = load(run).rows
    assert row.rate is not None
    assert row.rate.repeats == 2


def test_the_logs_are_kept_as_they_were_with_where_they_came_from(tmp_path: Path) -> None:
    path = log(tmp_path)
    bring(path, tmp_path / "r", description="a study of ours", **ASKED)
    (record,) = read_records(tmp_path / "r")
    kept = tmp_path / "r" / "logs" / record.trial.key / "0" / "a.log"
    assert kept.read_bytes() == path.read_bytes()
    environment: dict[str, str] = read_json(tmp_path / "r", "environment.json", {})
    assert environment["imported"] == "a.log (mxnet)"
    assert environment["description"] == "a study of ours (imported, not measured by mxscale)"


def test_a_folder_of_workers_is_named_by_a_pattern(tmp_path: Path) -> None:
    for node in range(3):
        folder = tmp_path / f"node{node}"
        folder.mkdir()
        log(folder, name="worker.log")
    bring(f"{tmp_path}/node?/worker.log", tmp_path / "r", hosts="3", **ASKED | {"devices": "3"})
    (record,) = read_records(tmp_path / "r")
    kept = tmp_path / "r" / "logs" / record.trial.key / "0"
    assert sorted(one.name for one in kept.iterdir()) == [f"{n}-worker.log" for n in range(3)]
    assert len(record.ranks) == 3


def test_gzipped_and_utf_16_logs_are_read(tmp_path: Path) -> None:
    bring(log(tmp_path, gzip.compress(LINES.encode()), "a.log.gz"), tmp_path / "a", **ASKED)
    bring(log(tmp_path, LINES.encode("utf-16")), tmp_path / "b", **ASKED)
    assert [load(tmp_path / name).rows[0].status for name in "ab"] == ["ok", "ok"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"", "got an empty file"),
        (b"\x7fELF\0\0", "got a binary file"),
        (b"1 " * 1_000_000, "in one of the formats"),
        (gzip.compress(LINES.encode(), mtime=0)[:-20], "damaged"),
        (b"hello <b>\nworld\n", "in one of the formats mxnet, tf-inception, horovod, tf-cnn, "),
        (SPEED.format(20, 0).encode(), "1 line has an unusable value"),
        (SPEED.format(20, "nan").encode(), "1 line has an unusable value"),
        (SPEED.format(20, 9.5).encode(), "--warmup 0"),
        ((LINES + LINES).encode(), "epoch 0 batch 20 is repeated or out of order"),
        (LINES.replace("100.0", "1e-320").encode(), "an unusable value"),
        (LINES.replace("[20]", f"[{'9' * 9000}]").encode(), ""),
    ],
)
def test_what_is_no_log_gets_one_line(tmp_path: Path, text: bytes, told: str) -> None:
    path = log(tmp_path, text)
    if told:
        assert told in refused(path, tmp_path / "r", **ASKED)
        assert not (tmp_path / "r").exists()
    else:
        bring(path, tmp_path / "r", **ASKED)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"network": "", "devices": ""}, "Add --network NAME --devices N"),
        ({"batch_per_device": ""}, "Add --batch-per-device N"),
        ({"devices": "many"}, "--devices: expected a whole number"),
        ({"devices": "3", "hosts": "2"}, "3 devices do not fill 2 hosts of 2"),
        ({"dtype": "float8"}, "--dtype: expected one of float32"),
        ({"speeds_of": "me"}, "--speeds-of: expected one of workers, one-worker"),
        ({"data": "mixed"}, "--data: expected one of real, synthetic"),
        ({"format": "mxnets"}, "did you mean 'mxnet'?"),
        ({"format": "horovod"}, "expected lines with a throughput (Horovod's"),
    ],
)
def test_options_that_cannot_be_get_one_line(
    tmp_path: Path, options: dict[str, str], told: str
) -> None:
    assert told in refused(log(tmp_path), tmp_path / "r", **ASKED | options)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"network": "alexnet"}, "network = resnet50 in the log, but --network gives alexnet"),
        ({"devices": "8"}, "devices = 4 in the log, but --devices gives 8"),
        ({"batch_per_device": "32"}, "batch per device = 64 in the log, but --batch-per-device"),
        ({"kvstore": "horovod"}, "kvstore = replicated in the log, but --kvstore gives horovod"),
    ],
)
def test_an_option_against_the_log_gets_one_line(
    tmp_path: Path, options: dict[str, str], told: str
) -> None:
    assert told in refused(LOGS / "tf-cnn.log", tmp_path / "r", **options)


def test_options_that_say_what_the_log_says_are_taken(tmp_path: Path) -> None:
    bring(LOGS / "tf-cnn.log", tmp_path / "r", network="ResNet-50", devices="4")
    assert load(tmp_path / "r").rows[0].trial.label == "resnet-50"


def test_a_run_that_was_measured_takes_no_imports(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs" / "runs" / "demo", tmp_path / "r")
    before = (tmp_path / "r" / "records.jsonl").read_bytes()
    assert "a run measured by mxscale" in refused(log(tmp_path), tmp_path / "r", **ASKED)
    assert (tmp_path / "r" / "records.jsonl").read_bytes() == before


def test_a_log_of_a_whole_job_is_imported_alone(tmp_path: Path) -> None:
    text = refused(
        LOGS / "horovod-32.log",
        tmp_path / "r",
        also=[str(LOGS / "horovod-64.log")],
        devices="32",
        **HOROVOD,
    )
    assert "Import them one by one" in text


def test_a_report_of_imports_is_built(tmp_path: Path) -> None:
    bring(LOGS / "horovod-32.log", tmp_path / "r", devices="32", hosts="4", **HOROVOD)
    fabfile.report.report_build.body(Context(), run=str(tmp_path / "r"))
    assert "imported from horovod-32.log" in (tmp_path / "r" / "report" / "report.md").read_text()


def test_a_report_has_no_control_characters_and_no_marks_of_a_description(tmp_path: Path) -> None:
    words = "_under_ $x^2$ dist_sync"
    bring(LOGS / "tf-cnn.log", tmp_path / "r", description=words)
    fabfile.report.report_build.body(Context(), run=str(tmp_path / "r"))
    report = tmp_path / "r" / "report"
    assert r"\_under\_ \$x^2\$ dist_sync" in (report / "report.md").read_text()
    page = (report / "index.html").read_text()
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", page)


def test_the_logs_own_total_and_what_does_not_count_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    speeds = [900.0, 310.0, 312.0, 998.0, *[1000.0 + n % 3 for n in range(16)]]
    text = "\n".join(SPEED.format(20 * n, speed) for n, speed in enumerate(speeds, 1))
    bring(log(tmp_path, text), tmp_path / "r", **ASKED)
    told = capsys.readouterr().out
    assert "the first window of each worker is discarded (warm-up)" in told
    assert "of 19 windows (time per image differs by " in told
    bring(LOGS / "tf-cnn.log", tmp_path / "s")
    assert "images/s; the log's own total: 4024 images/s" in capsys.readouterr().out
    bring(LOGS / "horovod-64.log", tmp_path / "t", devices="64", hosts="8", **HOROVOD)
    assert "images/s; the log's own total: 42949 images/s" in (told := capsys.readouterr().out)
    assert "throughput of the whole job, from the log's total time" in " ".join(told.split())


def test_speeds_that_a_logs_times_contradict_lead_the_caveats_of_the_report(
    tmp_path: Path,
) -> None:
    speeds = [900.0, 310.0, 312.0, 300.0, *[1000.0 + n % 3 for n in range(6)]]
    text = "\n".join(SPEED.format(20 * n, speed) for n, speed in enumerate(speeds, 1))
    bring(log(tmp_path, f"{text}\nEpoch[0] Time cost=120.5"), tmp_path / "r", **ASKED)
    headline = "imported throughput that the log's own times contradict: resnet-50"
    assert f". Caveats (! marks a point in the table): {headline}" in summary(load(tmp_path / "r"))
    (row,) = load(tmp_path / "r").rows
    assert standing(row).startswith("imported, doubtful")


def test_a_comparison_says_what_a_speedometers_speeds_contain(tmp_path: Path) -> None:
    bring(log(tmp_path), tmp_path / "a", **ASKED)
    bring(log(tmp_path, name="b.log"), tmp_path / "c", **ASKED)
    (record,) = read_records(tmp_path / "a")
    store = Store(tmp_path / "b")
    store.append(replace(record, notes=(), source=""))
    store.close()
    theirs, ours, others = (load(tmp_path / name) for name in "abc")
    text = "B: Speedometer's throughput includes copying the input"
    assert any(line.startswith(text) for line in remarks(compare(ours, theirs)))
    assert not any(text[3:] in line for line in remarks(compare(others, theirs)))
