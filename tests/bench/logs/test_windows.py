"""Windows of a job by the lines that its program prints."""

from collections.abc import Iterable

import pytest

from bench.engines.command.program import PRINTED
from bench.errors import SpecError
from bench.logs.windows import PrintedJob, Window, WindowReader
from bench.notes import NoteKind
from tests.support.runs.log_samples import speedometer, timed_speedometer

BATCH = 32


def reader(name: str, *, printers: int = 1, devices: int = 2, steps: int = 0) -> WindowReader:
    form = PRINTED[name]
    job = PrintedJob(
        printers=printers,
        devices=devices,
        batch=BATCH,
        global_batch=BATCH * devices,
        steps=steps or form.steps,
    )
    return WindowReader(form, job)


def windows(one: WindowReader, lines: Iterable[str]) -> list[Window]:
    return [window for at, text in enumerate(lines) for window in one.take(text, float(at))]


def speeds(found: Iterable[Window]) -> list[float]:
    return [round(one.images / one.seconds, 1) for one in found]


def iterations(*rates: object) -> list[str]:
    return [f"Iter #{n}: {rate} img/sec per CPU" for n, rate in enumerate(rates)]


def means(*of: tuple[int, float]) -> list[str]:
    return [f"{step}\timages/sec: {rate:.2f} +/- 0.0 (jitter = 0.0)\t8.1" for step, rate in of]


def table(*rows: tuple[int, float]) -> list[str]:
    head = "Step Epoch Speed Loss FinLoss LR"
    return [head, *(f"  {step}  0.1  {speed}  7.1  8.2  0.1" for step, speed in rows)]


def test_a_device_of_horovods_benchmark_counts_for_each_device() -> None:
    (first, second) = windows(reader("horovod-synthetic"), iterations(50, 60))
    assert first == Window(seconds=6.4, steps=10, images=640, span=6.4)
    assert speeds([first, second]) == [100, 120]


def test_the_means_of_tf_cnn_become_the_windows_between_them() -> None:
    """It prints steps 1, 10, 20; the mean over 20 steps is that of two equal windows."""
    found = windows(reader("tf-cnn"), means((1, 50), (10, 100), (20, 400 / 3), (30, 150)))
    assert [one.steps for one in found] == [10, 10, 10]
    assert speeds(found) == [100, 200, 200]


def test_a_mean_that_rounding_hides_is_joined_with_the_next() -> None:
    found = windows(reader("tf-cnn"), means((10, 100), (20, 300), (30, 150)))
    assert [one.steps for one in found] == [10, 20]


def test_a_window_can_have_several_lines() -> None:
    found = windows(reader("tf-cnn", steps=20), means((10, 100), (20, 100), (30, 100), (40, 100)))
    assert [(one.steps, one.images) for one in found] == [(20, 1280), (20, 1280)]


def test_speedometers_of_old_and_new_print_the_batches_since_the_last_line() -> None:
    old = windows(reader("mxnet"), speedometer([100, 200]).splitlines())
    new = windows(reader("mxnet"), timed_speedometer([100, 200], 64).splitlines())
    assert speeds(old) == speeds(new) == [100, 200]
    assert {one.steps for one in (*old, *new)} == {20}


def test_a_line_for_each_metric_counts_once() -> None:
    lines = [f"Epoch[0] Batch [20]\tSpeed: 100.00 samples/sec\t{m}=0.1" for m in ("acc", "top_k")]
    assert len(windows(reader("mxnet"), lines)) == 1


def test_an_epoch_begins_with_a_window_of_its_own() -> None:
    lines = [f"Epoch[{e}] Batch [{b}]\tSpeed: 90.0 samples/sec" for e in (0, 1) for b in (20, 40)]
    assert [one.steps for one in windows(reader("mxnet"), lines)] == [20] * 4


def test_rows_of_horovods_table_have_the_steps_between_them() -> None:
    found = windows(reader("horovod", steps=50), table((1, 10.0), (50, 100.0), (100, 120.0)))
    assert [one.steps for one in found] == [50, 50]
    assert speeds(found)[1] == 120


def test_a_sampled_step_has_the_span_of_all_steps_since_the_last_line() -> None:
    lines = [
        f"2017-01-01 00:00:0{n}.0: step {10 * n}, loss = 2.30 (32.0 examples/sec; 2.0 sec/batch)"
        for n in (1, 2)
    ]
    found = windows(reader("tf-inception"), lines)
    assert [(one.steps, one.seconds, one.span) for one in found][1] == (1, 2.0, 20.0)


@pytest.mark.parametrize("named", [True, False])
def test_the_slowest_of_several_processes_decides_a_window(named: bool) -> None:
    lines = [
        f"{f'[1,{rank}]<stdout>:' if named else ''}Epoch[0] Batch [{batch}]\tSpeed: {speed} "
        "samples/sec"
        for batch in (20, 40)
        for rank, speed in enumerate((100.0, 80.0))
    ]
    found = windows(reader("mxnet", printers=2), lines)
    assert speeds(found) == [160, 160]  # 80 images/s of each


@pytest.mark.parametrize(
    ("text", "rate"), [("50,5", 101), ("50,25", 100.5), ("5,1234", 10.2), ("50.5", 101)]
)
def test_a_decimal_comma_is_read(text: str, rate: float) -> None:
    assert speeds(windows(reader("horovod-synthetic"), iterations(text))) == [rate]


def test_a_comma_outside_the_throughput_is_not_ambiguous() -> None:
    lines = [f"{step}\timages/sec: 100,0 +/- 0,3 (jitter = 0,5)\t7,912" for step in (10, 20)]
    assert speeds(windows(reader("tf-cnn"), lines)) == [100, 100]


@pytest.mark.parametrize(
    ("name", "lines", "said"),
    [
        (
            "horovod-synthetic",
            iterations("6,400"),
            "line 1 of .*decimal point, got 'Iter #0: 6,4",
        ),
        ("horovod-synthetic", iterations(5, 5) + iterations(5), "line 3 .*step 0 is printed again"),
        ("tf-cnn", means((10, 50), (20, 50), (10, 50)), "step 10 is printed again"),
        (
            "mxnet",
            [f"[1,{n}]<stdout>:Epoch[0] Batch [20]\tSpeed: 9.0 samples/sec" for n in (0, 1)],
            "printers: expected .* got 1; line 2 .* Set printers = 2",
        ),
        ("tf-cnn", means((25, 50), (50, 50)), "steps_per_window: expected 25, as .* got 10"),
    ],
)
def test_output_that_contradicts_the_settings_is_refused(
    name: str, lines: list[str], said: str
) -> None:
    with pytest.raises(SpecError, match=said):
        windows(reader(name), lines)


def test_unusable_lines_are_counted_and_named() -> None:
    one = reader("horovod-synthetic")
    assert len(windows(one, iterations(320, "nan", 0, 320))) == 2
    (note,) = one.notes()
    assert (note.kind, note.figures) == (NoteKind.LOG_SPOILT, {"count": 2, "first": "line 2"})


def test_a_torn_line_makes_a_longer_window() -> None:
    lines = means((10, 100), (20, 100), (30, 100))
    lines[1] = lines[1][:12]
    found = windows(reader("tf-cnn"), lines)
    assert [one.steps for one in found] == [10, 20]


def test_settings_that_the_program_prints_must_be_those_of_the_sweep() -> None:
    one = reader("horovod-synthetic")
    windows(one, ["Batch size: 16", "Number of CPUs: 4", *iterations(5, 5)])
    assert [text.partition(":")[0] for text in one.contradictions()] == [
        "devices that the program prints",
        "batch_per_device that the program prints",
    ]
    same = reader("horovod-synthetic")
    windows(same, ["Batch size: 32", "Number of CPUs: 2", *iterations(5, 5)])
    assert same.contradictions() == []


@pytest.mark.parametrize("count", [2, 6])
@pytest.mark.parametrize(("rate", "kinds"), [(320.0, []), (80.0, [NoteKind.PRINTED_CONTRADICTED])])
def test_the_times_of_lines_check_the_throughput(
    rate: float, kinds: list[NoteKind], count: int
) -> None:
    """A line per second with 640 images of two devices is right at 320 images/s."""
    one = reader("horovod-synthetic")
    windows(one, iterations(*[rate] * count))
    assert [note.kind for note in one.notes()] == kinds
    assert [note.figures["factor"] for note in one.notes()] == [0.25] * len(kinds)
