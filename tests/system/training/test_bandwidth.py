"""The bandwidth of a kvstore, and its output."""

import re
from pathlib import Path
from typing import Any

import pytest
from invoke.context import Context
from invoke.exceptions import Exit

import fabfile as _fabfile
from bench.errors import SpecError
from bench.training.options import parse
from bench.trial import Trial, make
from launch.hosts import ROOT, this_machine
from launch.preflight.check import tcp_bandwidth
from launch.transport.line import start_local
from plots.check import verify_report
from plots.results_csv import results_frame
from plots.tables.scaling import cells
from results.record import Record
from results.scaling import mb_per_second, scaling
from results.store import read_records
from tests.support.repeats import slow

fabfile: Any = _fabfile
Captured = pytest.CaptureFixture[str]


def bandwidth(**fields: Any) -> Trial:
    base = {"mode": "bandwidth", "network": "tiny", "kvstore": "dist_sync", "windows": 5}
    return make({**base, "devices": 2, "batch_per_device": 1, "precision": 0.0, **fields})


def test_a_store_without_servers_has_no_bandwidth() -> None:
    with pytest.raises(SpecError, match="expected a kvstore with servers"):
        bandwidth(kvstore="local", devices=1)
    with pytest.raises(SpecError, match="synchronous kvstore, got 'dist_async'"):
        bandwidth(kvstore="dist_async")
    with pytest.raises(SpecError, match="synchronous kvstore, got 'dist_async'"):
        parse(["--benchmark=1", "--windows=1", "--bandwidth=1", "--kv-store=dist_async"])
    with pytest.raises(SpecError, match="reads no data"):
        bandwidth(data_train="x.rec")


@pytest.mark.program
def test_raw_tcp_is_measured_from_the_first_host_to_the_last() -> None:
    assert tcp_bandwidth([this_machine()], start_local) > 10


@pytest.mark.mxnet
@pytest.mark.parametrize("workers", [1, *slow(2)])
def test_the_task_sets_the_store_beside_raw_tcp(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(ROOT)
    run = tmp_path / "run"
    options = {"network": "tiny", "windows": "5", "repeats": "1", "run": str(run)}
    fabfile.bandwidth.bench_bandwidth.body(Context(), workers=str(workers), **options)
    said = capsys.readouterr()
    assert "one raw TCP connection within this machine moves" in said.out
    assert "MB/s" in said.err
    assert "images/s" not in said.err
    found = re.findall(r"digest: (sha256:\w+)", said.out)
    assert len(found) == 1
    checked = verify_report(run, found[0])
    assert (checked.wrong, checked.lacking) == ([], [])
    (record,) = read_records(run)
    check_bytes(record, workers)


def test_hosts_have_equally_many_workers() -> None:
    with pytest.raises(Exit, match=r"--workers: expected a multiple of 2, the number of hosts"):
        fabfile.bandwidth.bench_bandwidth.body(Context(), workers="3", hosts="node01,node02")


def check_bytes(record: Record, workers: int) -> None:
    """Every byte of the network moved both ways in each step of each worker."""
    assert record.status == "ok", record.message
    assert len(record.ranks) == workers
    bytes_each_way = {rank.facts["bytes_each_way"] for rank in record.ranks}
    # Convolutions of 16 (7 x 7), 32 and 64 channels, and 1000 classes, each with a bias.
    numbers = 3 * 16 * 49 + 16 + 16 * 32 * 9 + 32 + 32 * 64 * 9 + 64 + 64 * 1000 + 1000
    assert bytes_each_way == {4 * numbers}
    assert {count for rank in record.ranks for count in rank.images} == {4 * numbers}
    (row,) = scaling([record])
    assert row.rate is not None
    seconds = [max(pair) for pair in zip(*(rank.seconds for rank in record.ranks), strict=True)]
    # The median of the windows, of which a busy machine makes some long.
    rates = [4 * numbers / one / 1e6 for one in seconds]
    assert min(rates) <= mb_per_second(row.trial, row.rate) <= max(rates)
    assert "MB/s per worker in each direction" in row.note_text
    assert (row.device, row.host, row.worker) == (None, None, None)
    assert "images" not in "".join(cells(row))
    assert results_frame([row])["images_per_second"].isna().all()
