"""Prices of hosts come from a small file; a mistake in it is one line."""

from pathlib import Path
from typing import Any

import pytest

import fabfile as _fabfile
import tasks.report
from bench.errors import SpecError
from results.cost.prices import Hardware, hardware_of, load_prices
from tasks.report import prices_of
from tests.support.paths import ROOT
from tests.support.programs.commands import refusal
from tests.support.runs.runs import priced

fabfile: Any = _fabfile
EXAMPLE = ROOT / "docs" / "prices.example.toml"


def test_a_host_has_the_price_that_fits_it_best(tmp_path: Path) -> None:
    prices = priced(
        tmp_path,
        """
currency = "USD"
[[price]]
per_hour = 1
[[price]]
processor = "*EPYC*"
per_hour = 2
[[price]]
gpu = "*V100*"
per_hour = 3
[[price]]
host = "node*"
per_hour = 4
[[price]]
host = "node07"
per_hour = 5
[[price]]
host = "no*"
per_hour = 6
""",
    )
    v100, epyc = ("Tesla V100-SXM2-16GB",), "AMD EPYC 7B13"
    for hardware, per_hour in (
        (Hardware(host="node07", gpus=v100), 5),
        (Hardware(host="node08", gpus=v100), 4),
        (Hardware(host="north", gpus=v100), 6),
        (Hardware(host="x", gpus=v100, processor=epyc), 3),
        (Hardware(host="x", processor=epyc), 2),
        (Hardware(host="x"), 1),
    ):
        assert prices.per_hour(hardware) == per_hour


def test_hardware_is_what_the_environment_knows_of_a_host() -> None:
    hosts = {"a": {"gpus": [{"name": "Tesla T4"}]}}
    environment = {"processor": "AMD EPYC", "hosts": hosts}
    assert hardware_of(environment, "a") == Hardware(host="a", gpus=("Tesla T4",))
    assert hardware_of(environment, "b") == Hardware(host="b")
    assert hardware_of({"processor": "AMD EPYC"}, "vm").processor == "AMD EPYC"
    assert hardware_of({}, "vm") == Hardware(host="vm")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected one or more [[price]] tables, got none"),
        ("price = 3", "expected one or more [[price]] tables, got none"),
        ("prise = 3", "unknown field 'prise'; did you mean 'price'?"),
        ("[[price]]\ncurrency='USD'", "price 1: per_hour: expected a price per hour, got none"),
        ("[[price]]\nper_hour=1", "price 1: currency: expected three letters such as 'USD', got"),
        ("[[price]]\nper_hour=1\ncurrency='$'", "price 1: currency: expected three letters"),
        (
            "[[price]]\nper_hour='1'\ncurrency='USD'",
            "price 1: per_hour: expected a number, got",
        ),
        (
            "[[price]]\nper_hour=nan\ncurrency='USD'",
            "price 1: per_hour: expected a number, got",
        ),
        ("[[price]]\nper_hour=0\ncurrency='USD'", "price 1: per_hour: expected a number above 0"),
        ("[[price]]\nhost=7\nper_hour=1", "price 1: host: expected a text, got 7"),
        ("[[price]]\nhost=''\nper_hour=1", "price 1: host: expected a name or a pattern"),
        (
            "[[price]]\nhosts='a'\nper_hour=1",
            "price 1: unknown field 'hosts'; did you mean",
        ),
        (
            "[[price]]\nhost='a'\ngpu='b'\nper_hour=1",
            "price 1: expected one of host, gpu and processor, got host and gpu",
        ),
        (
            "[[price]]\nhost='a'\nper_hour=1\ncurrency='USD'\n[[price]]\nper_hour=1\ncurrency='EUR'",
            "expected one currency for all prices, got USD and EUR",
        ),
        (
            "currency='USD'\n[[price]]\nper_hour=1\n[[price]]\nper_hour=2",
            "price 2: expected host, gpu or processor; price 1 is already the default for all",
        ),
    ],
)
def test_a_mistake_in_prices_is_told_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        priced(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'prices.toml'}: {said}")
    assert "\n" not in str(caught.value)


def test_prices_that_are_not_toml_are_named_with_the_line(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"prices\.toml:1: not a TOML file: "):
        priced(tmp_path, "[[price")


def test_prices_that_are_not_there_are_told(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"cannot be read \(No such file"):
        load_prices(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SpecError, match="not a TOML file"):
        load_prices(tmp_path / "binary.toml")


def test_the_example_has_a_price_for_every_host() -> None:
    prices = load_prices(EXAMPLE)
    assert prices.currency == "USD"
    assert prices.per_hour(Hardware(host="p3-17")) == 24.48
    assert prices.per_hour(Hardware(host="anything")) == 1.0


def test_prices_in_the_checkout_are_used_unless_others_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks.report, "PRICES", tmp_path / "prices.toml")
    assert prices_of("") is None
    mine = priced(tmp_path, "[[price]]\nper_hour=2\ncurrency='EUR'")
    assert prices_of("") == mine
    assert prices_of(str(EXAMPLE)) == load_prices(EXAMPLE)


def test_a_mistake_in_them_is_told_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(tasks.report, "PRICES", tmp_path / "prices.toml")
    (tmp_path / "prices.toml").write_text("[[price]]")
    run = tmp_path / "run"
    code, said = refusal(fabfile.bench.bench_sweep, "smoke", engine="fake", run=str(run))
    assert (code, run.exists()) == (2, False)
    assert "prices.toml: price 1: per_hour: expected a price per hour" in said
