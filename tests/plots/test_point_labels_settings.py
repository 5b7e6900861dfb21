"""Every setting that is not the default is in table, figure, page and report."""

import dataclasses
import html
from typing import Any

import pytest

from bench.settings.point_names import point_names
from bench.trial import FIELDS, Trial, make
from plots.figures.caption import caption, settings_line
from plots.markdown import document
from plots.page.page import page
from plots.point_labels import common_settings, settings_of, varied_settings
from plots.tables.scaling import notes, show
from results.run import Run
from tests.support.runs.scenes import point, run, three

# A table's own columns and the words above it have these.
ELSEWHERE = {"network", "num_layers", "mode", "kvstore", "device", "devices", "batch_per_device"}
# How many devices share a process or a host follows from their number, point by point.
LAYOUT = {"devices_per_worker", "devices_per_host"}
SCRIPT = [name for name in FIELDS if name.startswith("fake_")]
SETTINGS = [name for name in FIELDS if name not in {*ELSEWHERE, *LAYOUT, *SCRIPT}]


def other(value: Any) -> Any:
    """Return a value of the same type that is not the default."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, tuple):
        return (*value, type(value[0])(7) if value else "B=7")
    return f"{value}x" if isinstance(value, str) else value * 2 + 1


def changed(trial: Trial, name: str) -> tuple[Trial, str]:
    """Return the trial with another value in a field, and the expected text."""
    value = other(trial.value(name))
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    shown = shown.lower() if isinstance(value, bool) else shown
    if isinstance(value, tuple):
        shown = (
            f"[{', '.join(f'{one:g}' if isinstance(one, float) else str(one) for one in value)}]"
        )
    return trial.replace(**{name: value}), f"{name} = {shown}"


def study(name: str, *, everywhere: bool) -> tuple[Run, str]:
    whole = run([point(1, 10.0), point(2, 19.0), point(4, 30.0)])
    rows, text = [], ""
    for row in whole.rows:
        trial, said = changed(row.trial, name)
        text = said if everywhere or row.trial.layout.devices == 2 else text
        is_changed = everywhere or row.trial.layout.devices == 2
        rows.append(dataclasses.replace(row, trial=trial if is_changed else row.trial))
    return dataclasses.replace(whole, rows=rows), text


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_that_all_points_share_is_in_the_header_line(name: str) -> None:
    found, text = study(name, everywhere=True)
    assert text in settings_line(found.rows)
    assert text in document(found).replace("\\", "")
    assert text in caption(found)


@pytest.mark.parametrize("name", [name for name in SETTINGS if name != "engine"])
def test_a_setting_of_one_point_is_among_its_notes(name: str) -> None:
    found, text = study(name, everywhere=False)
    points, _ = notes(found.rows)
    (one,) = points
    assert one.parts == (f"settings: {text}",)
    assert f"x2: settings: {text}." in document(found).replace("\\", "")
    assert text in caption(found)


def test_each_point_of_several_engines_names_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    found = run([point(1, 10.0), point(2, 19.0), point(1, 9.0, kvstore="none", engine="torch")])
    show(found)
    assert "engine" in capsys.readouterr().out
    names = point_names([row.trial for row in found.rows])
    assert sorted(names) == [
        "alexnet local x1 (engine mxnet)",
        "alexnet local x2 (engine mxnet)",
        "alexnet none x1 (engine torch)",
    ]
    assert "engine = " not in common_settings([row.trial for row in found.rows])


@pytest.mark.parametrize("name", SCRIPT)
@pytest.mark.parametrize("everywhere", [True, False])
def test_a_script_is_in_no_table_or_figure(name: str, everywhere: bool) -> None:
    found, text = study(name, everywhere=everywhere)
    shown = "".join([document(found), page(found), caption(found), settings_line(found.rows)])
    assert text.partition(" = ")[2] not in settings_line(found.rows)
    assert f"{name} = " not in shown.replace("\\", "")


def test_a_script_names_points_only_if_nothing_else_tells_them_apart() -> None:
    (row,) = run([point(1, 1.0)]).rows
    base = row.trial.replace(engine="fake")
    other_script = base.replace(fake_noise=0.5)
    both = base.replace(dtype="bfloat16", fake_noise=0.5)
    assert "fake_noise" in point_names([base, other_script])[1]
    assert point_names([base, both]) == ["alexnet local x1", "alexnet local bfloat16 x1"]


def test_a_setting_of_most_points_is_in_the_header_line_and_others_at_their_points() -> None:
    rows = run([point(n, 10.0 * n) for n in (1, 2, 4)]).rows
    trials = [rows[0].trial, *(row.trial.replace(windows=5) for row in rows[1:])]
    assert common_settings(trials) == "unless noted: windows = 5"
    assert settings_of(trials).own == (("windows = 60",), (), ())


def test_a_value_of_0_is_explained() -> None:
    trial = run([point(1, 1.0)]).rows[0].trial.replace(precision=0.0)
    assert common_settings([trial]) == "precision = 0 (runs every window)"


def test_a_layout_that_is_not_the_usual_one_is_shown() -> None:
    fields: dict[str, Any] = {"kvstore": "dist_sync", "devices_per_host": 2}
    usual, pairs = (point(4, 1.0, devices_per_worker=n, **fields).trial for n in (1, 2))
    assert common_settings([usual]) == "devices_per_host = 2"
    assert common_settings([pairs]) == "devices_per_worker = 2, devices_per_host = 2"


def test_a_page_shows_settings_in_its_head_and_among_the_notes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found, text = study("env", everywhere=True)
    assert f">settings: {html.escape(text)}" in page(found)
    found, text = study("gc_type", everywhere=False)
    assert f"x2: settings: {text}.</li>" in page(found)
    show(found)
    assert text in capsys.readouterr().out


def test_fields_at_their_defaults_are_not_shown() -> None:
    assert settings_of([row.trial for row in run(three()).rows]).own == ((),) * 3
    assert common_settings([row.trial for row in run([point(1, 1.0)]).rows]) == ""


def test_points_of_other_tools_are_shown_by_the_defaults_of_the_field_table() -> None:
    row = run([point(1, 1.0)]).rows[0]
    theirs = row.trial.replace(network="swin", engine="imported mxnet", kvstore="ring")
    assert common_settings([theirs]) == "engine = imported mxnet"


def test_a_setting_that_is_true_is_printed_as_in_a_sweep() -> None:
    row = run([point(1, 1.0)]).rows[0]
    assert common_settings([row.trial.replace(emulate=True)]) == "emulate = true"


def test_a_caption_lists_few_settings_of_single_points_and_counts_the_others() -> None:
    trials = [
        make(
            {
                "devices": n,
                "batch_per_device": 1,
                "devices_per_worker": n,
                "kvstore": "dist_sync",
                "num_layers": layers,
                "network": "resnet",
            }
        )
        for n in range(2, 15)
        for layers in (18, 34)
    ]
    text = varied_settings(trials)
    assert text.count("devices_per_worker = ") == 8
    assert text.endswith("; 10 more points")
