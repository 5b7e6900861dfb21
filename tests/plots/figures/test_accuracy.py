"""The accuracy curve of a training job, from its log."""

import sys
from pathlib import Path

import pytest

from plots.figures.accuracy import accuracies, main

LOG = """rank 0 epoch 0 batch 20: 12.00 images/s on this worker, loss 2.1
epoch 0: validation accuracy 0.250, top-5 0.900
rank 0 epoch 1: validation accuracy 0.500
rank 1 epoch 1: validation accuracy 0.700
validation accuracy 0.500
"""


def test_a_log_gives_an_accuracy_an_epoch() -> None:
    assert accuracies(LOG) == [(1, 0.25), (2, 0.5)]


def test_table_and_figure_are_written_the_same_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "a.log"
    log.write_text(LOG)
    pictures = []
    for name in ("one", "two"):
        monkeypatch.setattr(sys, "argv", ["curves", str(tmp_path / name), f"tiny={log}"])
        main()
        pictures.append((tmp_path / f"{name}.svg").read_bytes())
        table = (tmp_path / f"{name}.csv").read_text()
        assert table == "network,epoch,accuracy\ntiny,1,0.25\ntiny,2,0.5\n"
    assert pictures[0] == pictures[1]


@pytest.mark.parametrize("words", [[], ["x"], ["x", "a=/nowhere"], ["x", "a=/dev/null"]])
def test_logs_without_accuracy_get_one_line(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["curves", *words])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
