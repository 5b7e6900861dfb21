"""Caveats in the summary, beside a row and around a point."""

import dataclasses
import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bench.notes import Note, NoteKind
from im2rec_tools.console import keep_headers
from plots.figures import scaling as figure
from plots.page.page import page
from plots.page.panels import panel_data
from plots.quality import quality_sentence
from plots.summary import summary
from plots.tables.layout import terminal_table
from plots.tables.scaling import (
    MARK,
    cells,
    column_notes,
    filled_table,
    markdown,
    notes,
    short_table,
    show,
)
from results.record import Record
from results.run import Run
from results.scaling import scaling
from tests.support.runs.records import record, with_versions
from tests.support.runs.scenes import emulated, point, run, three

NONE = "No caveats were found in the records."
HOST = {"host": "vm"}
OTHERS = Note(NoteKind.OTHER_PROGRAMS, {"cores": 1.0, "of": 2}, HOST)
SLOW = Note(NoteKind.SLOW_RANK, {"excess": 0.2}, HOST)
THROTTLED = Note(NoteKind.THROTTLED, {"count": 3}, HOST)


def repeats(devices: int, *notes: Note, **fields: Any) -> list[Record]:
    """Return three close repeats, all of which have these notes."""
    found = [point(devices, 10.0 * devices, repeat=n, **fields) for n in range(3)]
    return [dataclasses.replace(one, notes=notes) for one in found]


def test_three_tight_repeats_beside_other_programs_are_not_headed_as_good() -> None:
    study = run([*repeats(1, OTHERS, THROTTLED), *repeats(2)])
    text = summary(study)
    assert NONE not in text
    assert (
        "Caveats (! marks a point in the table): other programs used the CPUs during the "
        "measurement: alexnet local x1; "
    ) in text
    assert "CPUs were thermally throttled: alexnet local x1" in text
    assert NONE in summary(run(list(map(with_versions, [*repeats(1), *repeats(2)]))))


@pytest.mark.parametrize("kind", [kind for kind in NoteKind if kind.headline])
def test_each_kind_with_a_headline_is_in_summary_table_figure_and_page(kind: NoteKind) -> None:
    note = Note(kind, {"text": "so it was"}, HOST)
    study = run([*repeats(1, note), *repeats(2)])
    headline = kind.headline.replace("{cell}", "efficiency")
    assert headline in summary(study)
    first, second = study.rows
    assert cells(first)[-1] == f"{first.status} {MARK}"
    assert cells(second)[-1] == "ok"
    names, (short, plain) = short_table(study.rows)
    at = names.index("quality")
    assert (short[at].endswith(f" {MARK}"), plain[at].endswith(MARK)) == (True, False)
    assert f"- {MARK} the point has caveats" in markdown(study.rows)
    one, other = panel_data(study)["lines"][0]["points"]
    assert one["marks"] == [headline]
    assert other["marks"] == ["quality: doubtful"] * second.is_ringed  # by its baseline
    assert "Points ringed in red" in page(study)


def test_points_with_caveats_are_ringed_in_figures() -> None:
    def ringed(study: Run) -> str:
        drawn = figure.draw(study.rows, "t", "")
        return str([text.get_text() for text in drawn.legends[0].get_texts()])

    assert "ringed: has caveats, see notes" in ringed(run([*repeats(1, OTHERS), *repeats(2)]))
    assert "ringed" not in ringed(run([*repeats(1), *repeats(2)]))


def test_a_repeat_that_failed_is_counted_in_the_summary() -> None:
    failed = dataclasses.replace(repeats(2)[2], status="failed", message="broken", ranks=())
    text = summary(run([*repeats(1), *repeats(2)[:2], failed]))
    assert "No result for 1 of 2 points: alexnet local x2 (failed in 1 of 3 repeats)." in text


def test_more_than_a_third_of_the_windows_dropped_is_in_the_summary() -> None:
    one = point(1, 10.0)
    late = (1.0, *[1.6, 1.61, 1.59] * 8, *[1.0, 1.01, 0.99] * 14)
    (rank,) = one.ranks
    ranks = (dataclasses.replace(rank, seconds=late, ends=late, images=(8,) * len(late)),)
    (row,) = scaling([dataclasses.replace(one, ranks=ranks)])
    assert {*row.headline_kinds} & {NoteKind.MANY_WINDOWS_DROPPED, NoteKind.NOT_STEADY}
    study = run([dataclasses.replace(one, ranks=ranks)])
    assert f"table): {row.headline_kinds[0].headline}: alexnet local x1" in summary(study)


def test_a_message_of_an_older_record_is_in_the_summary() -> None:
    said = "vm: other programs used 1.0 of its 2 cores while this was measured"
    old = [dataclasses.replace(one, message=said, schema=2) for one in repeats(1)]
    text = summary(run(old))
    assert f"notes of an older version: {said}" in text
    assert NONE not in text


def test_a_point_too_uncertain_to_use_is_marked_everywhere() -> None:
    study = run([record([[1.0, 1.0, 9.0]]), record([[1.0, 1.0, 1.01, 0.99]], devices=2)])
    names, found = filled_table(study.rows)
    assert [one[names.index("status")] for one in found] == ["ok !", "ok !"]
    assert found[1][names.index("speed-up")].endswith(" (uncertain)")
    assert panel_data(study)["ringed"]
    points = [one for line in panel_data(study)["lines"] for one in line["points"]]
    assert [one["marks"] for one in points] == [["too uncertain to use"]] * 2
    drawn = figure.draw(study.rows, "t", "f").legends[0].get_texts()
    assert "ringed" in str([text.get_text() for text in drawn])


def test_equal_notes_of_several_points_are_one_entry() -> None:
    kept, _ = notes(run([*repeats(1, OTHERS), *repeats(2, OTHERS), *repeats(4)]).rows)
    (one,) = kept
    assert one.text == "2 points (alexnet local x1, alexnet local x2)"
    kept, _ = notes(run([*repeats(1, OTHERS), *repeats(2, OTHERS)]).rows)
    assert [one.text for one in kept] == ["all points"]


def test_empty_columns_are_left_out_and_empty_cells_explained() -> None:
    names, _ = filled_table(scaling(three()))
    assert "vs 1 worker" not in names
    served = [point(n, 9.0 * n, kvstore="dist_sync", devices_per_host=4) for n in (1, 2, 8)]
    text = "\n".join(column_notes(scaling([*three(), *served])))
    assert "; empty for points smaller than a host." in text
    assert "parameter servers included; empty without a distributed kvstore." in text


@pytest.mark.parametrize(("columns", "most"), [("", 100), ("90", 90)])
def test_piped_notes_are_wrapped(
    columns: str, most: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    show(run([*repeats(1, OTHERS), *repeats(2)]))
    text = capsys.readouterr().out
    notes_begin = "" if columns else "Notes:"  # without a limit, the table is as wide as it needs
    assert max(map(len, text[text.index(notes_begin) :].splitlines())) <= most
    assert ("Hidden on this narrow terminal" in text) is bool(columns)


def test_80_columns_keep_the_interval_and_n_rather_than_the_speed_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    fields: dict[str, Any] = {"network": "inception-v3", "devices_per_host": 1}
    fields["kvstore"] = "dist_device_sync"
    found = [point(n, 123.4 * n, repeat=m, **fields) for n in (1, 256) for m in range(3)]
    show(run(found), parts=("wide",))
    text = capsys.readouterr().out
    head = next(one for one in text.splitlines() if one.startswith("network"))
    assert re.split(r"\s\s+", head.strip())[3:7] == ["images/s", "95 % CI", "n", "efficiency"]
    assert max(map(len, text.splitlines())) <= 80
    assert "speed-up" in text[text.index("Hidden on this narrow terminal") :].partition(".\n")[0]


@pytest.mark.parametrize("width", [30, 40])
def test_no_header_is_folded_into_fewer_than_5_letters(width: int) -> None:
    file = io.StringIO()
    grid = terminal_table(["network", "devices", "images/s", "n"])
    grid.add_row("inception-v3", "256", "61938.4", "3")
    keep_headers(grid, width)
    Console(file=file, width=width).print(grid)
    head = file.getvalue().splitlines()[1].split()
    assert all(len(one) >= 5 for one in head if one != "n")
    assert head[0].startswith("netwo")


def picture(folder: Path) -> None:
    """Write pictures to inspect; not a test."""
    study = run([*repeats(1, OTHERS, THROTTLED), *repeats(2), *repeats(4), *repeats(8, OTHERS)])
    figure.save(figure.draw(study.rows, "study", "footer"), folder)
    (folder / "index.html").write_text(page(study))


def test_accuracy_is_a_column_once_a_point_has_one() -> None:
    plain = run([*repeats(1), *repeats(2)])
    assert "accuracy" not in filled_table(plain.rows)[0]
    trained = [dataclasses.replace(one, accuracy=0.25) for one in repeats(1)]
    study = run([*trained, *repeats(2)])
    names, found = filled_table(study.rows)
    at = names.index("accuracy")
    assert [one[at] for one in found] == ["0.250", ""]
    assert ">accuracy</" in page(study)
    assert "accuracy: of the last validation, mean of the repeats." in markdown(study.rows)


def test_the_short_table_fits_100_columns_and_tells_rows_apart(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "")
    study = run([*repeats(1, OTHERS), *repeats(2), *repeats(4, batch_per_device=4)])
    show(study, parts=())
    text = capsys.readouterr().out
    assert max(map(len, map(str.rstrip, text.splitlines()))) <= 100
    assert "Notes: busy machine (1 point)" in text
    assert "How to read the table" not in text
    names, found = short_table(study.rows)
    assert names == ["network", "kvstore", "devices", "images/s", "efficiency", "quality"]
    assert len({tuple(row[:3]) for row in found}) == len(found)


def test_the_short_table_explains_its_mark_and_offers_what_it_leaves_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    study = run([*repeats(1), *repeats(2)])
    study = dataclasses.replace(study, rows=emulated(study.rows, 2))
    show(study, parts=())
    short = " ".join(capsys.readouterr().out.split())
    assert " 2* " in short
    assert "* oversubscribed: the point used more devices than the machine has" in short
    assert "--notes prints the notes in full" in short
    show(study, parts=("notes",))
    assert "--notes prints" not in capsys.readouterr().out


def test_a_missing_efficiency_is_named_beside_the_others_of_its_row() -> None:
    note = Note(NoteKind.BASELINE_OVERSUBSCRIBED, {"cell": "efficiency vs 1 host"})
    study = run([*repeats(1), *repeats(2)])
    study = dataclasses.replace(
        study, rows=[study.rows[0], dataclasses.replace(study.rows[1], notes=(note,))]
    )
    text = "no efficiency vs 1 host because the baseline is oversubscribed: alexnet local x2"
    assert text in summary(study)


def test_the_next_command_depends_on_the_reasons() -> None:
    def sentence(*records: Record) -> str:
        environment = {"command": ["fab", "bench.sweep", "mine.toml", "--repeats=2", "--point=x"]}
        return " ".join(
            quality_sentence(dataclasses.replace(run(records), environment=environment))
        )

    assert sentence(*repeats(1, OTHERS)).endswith(
        "Next: fab bench.sweep mine.toml --wait-idle 600 --repeats=2 --again doubtful"
    )
    assert sentence(*repeats(1, SLOW)).endswith("mine.toml --repeats=2 --again doubtful")
    assert sentence(*repeats(1)[:2]).endswith("Next: fab bench.sweep mine.toml --repeats 3")
    two = sentence(*repeats(1, OTHERS)[:2])  # no other try of two repeats can be published
    assert two.endswith("mine.toml --wait-idle 600 --repeats 3 --again doubtful")
    # With --again, the second point would not get its third repeat.
    other = sentence(*repeats(1, OTHERS)[:2], *repeats(2)[:2])
    assert other.endswith("mine.toml --wait-idle 600 --repeats 3")
    assert not sentence(*[point(1, 10.0, engine="fake")])
    lost = dataclasses.replace(repeats(1)[0], status="failed", ranks=())
    found = sentence(lost, *repeats(2, OTHERS))
    assert found.endswith(
        "Next: fab bench.sweep mine.toml --repeats=2 --point=x"
    )  # ends the sweep, too


def test_the_next_step_leaves_out_reported_points() -> None:
    program = {"engine": "command", "command": ["prog"], "format": "horovod-synthetic"}
    brief = Note(NoteKind.BRIEF, {"seconds": 0.3})
    reported = [
        dataclasses.replace(one, source="reported by prog (horovod-synthetic)", notes=(brief,))
        for one in repeats(1, brief, **program)
    ]

    def sentence(*records: Record) -> str:
        environment = {"command": ["fab", "bench.sweep", "mine.toml"]}
        return " ".join(
            quality_sentence(dataclasses.replace(run(records), environment=environment))
        )

    assert "Next" not in sentence(*reported)
    said = "Next: set steps_per_window = 4 of the points that mxscale measures, then fab"
    assert said in sentence(*reported, *repeats(2, brief, steps_per_window=1))


def test_points_that_are_too_brief_need_longer_windows_before_another_run() -> None:
    def sentence(*notes: Note) -> str:
        environment = {"command": ["fab", "bench.sweep", "mine.toml", "--repeats=4"]}
        study = run([with_versions(one) for one in repeats(1, *notes, steps_per_window=3)])
        return " ".join(quality_sentence(dataclasses.replace(study, environment=environment)))

    brief = Note(NoteKind.BRIEF, {"seconds": 0.3})
    said = "Next: set steps_per_window = 12 in the sweep, then fab bench.sweep mine.toml"
    assert sentence(brief).endswith(f"{said} --repeats=4")
    assert sentence(brief, OTHERS).endswith(f"{said} --wait-idle 600 --repeats=4")


def test_figures_fill_publishable_points_and_ring_others() -> None:
    drawn = figure.draw(run(repeats(1)).rows, "t", "").legends[0].get_texts()
    assert "pale: indicative" in str([text.get_text() for text in drawn])
    good = list(map(with_versions, repeats(1)))
    drawn = figure.draw(run(good).rows, "t", "").legends[0].get_texts()
    assert "pale" not in str([text.get_text() for text in drawn])
