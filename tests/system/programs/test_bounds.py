"""Upper bounds: huge figures in sweeps and logs, and hostile lines."""

import time
from pathlib import Path

import pytest

from bench.errors import SpecError
from bench.errors import parse_float as option
from bench.logs.formats import FORMATS, read_log
from bench.logs.lines import line
from bench.logs.log import number
from bench.settings.product import MOST_POINTS
from bench.sweep import load_sweep, spread
from bench.trial import FIELDS
from im2rec_tools.errors import DataError
from im2rec_tools.formats.lists import parse
from tests.support.runs.imported_logs import read
from tests.support.runs.log_samples import tf_cnn, tf_steps

POINT = "batch_per_device = 8\n[[points]]\nnetwork = 'tiny'\n"
SERVERS = "kvstore = 'dist_sync'\ndevices = 2\ndevices_per_host = 1\n"


def refused(tmp_path: Path, text: str, engine: str | None = None) -> str:
    path = tmp_path / "x.toml"
    path.write_text(text)
    with pytest.raises(SpecError, match=r"x\.toml(:\d+)?: ") as error:
        load_sweep(str(path), engine=engine)
    message = str(error.value)
    assert "\n" not in message
    assert len(message) < 600
    return message


WHOLE = [name for name, field in FIELDS.items() if field.type in {int, int | None}]


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("value", ["1" + "0" * 400, "0x" + "f" * 6000, "-" + "9" * 30])
def test_every_whole_number_of_a_sweep_has_an_upper_bound(
    tmp_path: Path, name: str, value: str
) -> None:
    given = {"batch_per_device": "8"} | {name: value}
    top = "".join(f"{one} = {said}\n" for one, said in given.items() if said)
    assert name in refused(tmp_path, f"{top}[[points]]\nnetwork = 'tiny'\n")


@pytest.mark.parametrize(
    "name", ["server_hosts", "servers_per_host", "devices", "devices_per_host", "data_nthreads"]
)
def test_a_billion_of_what_is_started_is_refused(tmp_path: Path, name: str) -> None:
    fields = {"kvstore": "'dist_sync'", "devices": "2", name: "1_000_000_000"}
    text = "".join(f"{one} = {said}\n" for one, said in fields.items())
    assert f"{name}: expected 10000 or fewer" in refused(tmp_path, text + POINT)


def test_servers_of_many_hosts_are_counted_together(tmp_path: Path) -> None:
    text = "server_hosts = 9000\nservers_per_host = 9000\n" + SERVERS + POINT
    assert "servers: expected 10000 or fewer, got 81000000" in refused(tmp_path, text)


def test_a_product_of_long_lists_is_refused_before_it_is_made(tmp_path: Path) -> None:
    lists = f"devices = {list(range(1, 3000))}\nkvstore = {['local'] * 3000}\n"
    message = refused(tmp_path, f"batch_per_device = 8\n[[points]]\nnetwork = 'tiny'\n{lists}")
    assert f"points: expected {MOST_POINTS} or fewer, got 8997000" in message


@pytest.mark.parametrize("value", ["1e-300", "5e-324"])
def test_a_rate_that_makes_a_window_without_an_end_is_refused(tmp_path: Path, value: str) -> None:
    text = f"{POINT}[rehearsal.tiny]\n1 = {value}\n"
    assert "rehearsal.tiny.1: " in refused(tmp_path, text, engine="fake")


@pytest.mark.parametrize(
    "count", ["\u00b2", "\u0663", "9" * 5000, None, [], "1_0"], ids=lambda one: str(one)[:9]
)
def test_device_counts_in_no_plain_digits_do_not_end_a_spread(count: object) -> None:
    data = {"points": [{"network": "tiny", "devices": count, "kvstore": "local"}]}
    assert spread(data, 2, 2)["points"][0]["devices"] == [1, 2]


@pytest.mark.parametrize(
    "text",
    [
        *("1e300", "1e-320", "1e999", "-1e20", "inf", "nan"),
        *("1_0", "\u0663", "\u00b2", " 1", "0x1", ""),
    ],
)
def test_a_figure_that_no_job_has_is_no_number_of_a_log(text: str) -> None:
    assert number(text) != number(text)
    assert [number(one) for one in ("1", "-1.5", ".5", "1.", "1e3")] == [1, -1.5, 0.5, 1, 1000]


@pytest.mark.parametrize(
    ("format_", "text", "old", "new"),
    [
        ("tf-cnn", tf_cnn(), "total images/sec: ", "total images/sec: inf "),
        ("tf-cnn", tf_cnn(), "images/sec: ", "images/sec: 1e-320 +/- "),
        ("tf-inception", tf_steps(60.0, 64 / 60, 64 / 60, count=4), "(60.0", "(1e300"),
    ],
)
def test_absurd_figures_of_a_log_are_left_out(format_: str, text: str, old: str, new: str) -> None:
    log = read(format_, text.replace(old, new).splitlines())
    assert all(0 < (one.seconds or one.rate) < 1e16 for one in log.stretches)
    assert log.total < 1e16


STARTS = (
    "start with arguments ",
    "Namespace(",
    "Epoch[1]",
    "Epoch[1] Batch [1]",
    "Epoch[1] Batch [1] Speed: ",
    "Start training with [",
    "perplexity",
    ":::MLLOG ",
    "2020-01-01 00:00:00: step 1, loss = ",
    '"step": ',
    "1/1 [=] - ",
    "1",
    "",
)
REPEATS = ("a", " ", "\t", "1", "a=<,", "a='", "gpu(0), ", ":::MLLOG {", '"step": ', "1/1 [=] - ")
LONGEST = 1 << 14


def seconds(texts: list[str]) -> float:
    """Return the CPU time of every format over these lines."""
    found = [line(number, text) for number, text in enumerate(texts, 1)]
    started = time.process_time()
    for format_ in FORMATS.values():
        for one in found:
            format_.found(one.text)
        try:
            format_.read(found)
        except SpecError:
            continue
    return time.process_time() - started


@pytest.mark.parametrize("start", STARTS)
def test_a_hostile_line_takes_no_more_than_its_length_says(start: str) -> None:
    hostile = [(start + one * LONGEST)[:LONGEST] for one in REPEATS]
    short = [text[:512] for text in hostile for _ in range(LONGEST // 512)]
    assert seconds(hostile) < 2 + 20 * seconds(short)  # the square of a length would be 32-fold


def test_a_log_of_hostile_lines_is_refused_and_does_not_hang(tmp_path: Path) -> None:
    path = tmp_path / "e.log"
    text = "start with arguments " + "a" * 16_300 + "\nEpoch[1]" + " " * 16_300 + "\n"
    path.write_text("Epoch[0] Batch [20]\tSpeed: 1.0 samples/sec\n" + text * 20)
    started = time.process_time()
    assert read_log(path)[0].name == "mxnet"
    assert time.process_time() - started < 20  # it took above 60


def test_a_log_of_many_epochs_and_evaluations_is_refused() -> None:
    texts = [
        f':::MLLOG {{"key": "{kind}_{end}", "time_ms": {n}, "metadata": {{"epoch_num": {n}}}}}'
        for n in range(1, 2500)
        for kind in ("eval", "epoch")
        for end in ("start", "stop")
    ]
    with pytest.raises(SpecError, match=r"the log of one job, got \d+ epochs with \d+ evaluations"):
        read("mlperf", texts)


@pytest.mark.parametrize("text", ["1_0", "\u0663", "\uff11"])
def test_numbers_of_lists_and_options_are_in_plain_digits(text: str) -> None:
    for row in (f"{text}\t1\tcat.jpg", f"1\t{text}\tcat.jpg"):
        with pytest.raises(DataError, match=r"expected a (whole )?number as (index|label)"):
            parse(row, "here")
    with pytest.raises(SpecError, match="--precision: expected a number"):
        option("--precision", text)
