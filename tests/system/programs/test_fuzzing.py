"""Findings of the fuzzer stay fixed; each parser gets some mutated samples."""

import random
from pathlib import Path

import pytest

from tests.support.fuzz.fuzzer import mutated, run, tried
from tests.support.fuzz.parsers import Parser, parsers
from tests.support.paths import SEEDS

PARSERS = {one.name: one for one in parsers()}
EACH = 12


@pytest.mark.parametrize("path", sorted(SEEDS.iterdir()), ids=lambda path: path.name)
def test_what_was_found_once_is_accepted_or_refused_in_one_line(path: Path, tmp_path: Path) -> None:
    tried(PARSERS[path.name.rpartition("-")[0]], path.read_bytes(), tmp_path)


@pytest.mark.parametrize("name", PARSERS)
def test_changed_samples_are_accepted_or_refused_in_one_line(name: str, tmp_path: Path) -> None:
    parser, draw = PARSERS[name], random.Random(name)
    for sample in parser.samples[:EACH]:
        tried(parser, sample, tmp_path)
    for _ in range(EACH):
        tried(parser, mutated(draw.choice(parser.samples), draw), tmp_path)


def test_the_same_seed_makes_the_same_inputs() -> None:
    first, second = (random.Random(7) for _ in range(2))
    data = b'{"a": [1, 2], "b": "c"}\nsome words\n'
    assert [mutated(data, first) for _ in range(200)] == [mutated(data, second) for _ in range(200)]


def test_a_failing_input_is_kept_and_told_with_the_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(data: bytes, folder: Path) -> None:
        raise KeyError(len(data))

    monkeypatch.setattr("tests.support.fuzz.fuzzer.SEEDS", tmp_path / "seeds")
    said: list[str] = []
    assert run([Parser(name="odd", samples=(b"x",), read=fails)], 0.1, 5, said.append) == 1
    assert said[0].startswith("odd: KeyError test_fuzzing.py:")
    assert len(list((tmp_path / "seeds").iterdir())) == 1
    assert said[1].startswith("seed 5: odd ")
