"""Causes injected into real jobs, once each. The benchmark repeats them."""

from pathlib import Path

import pytest

from benchmarks.cluster import check_seconds, local_cluster
from benchmarks.injections import SHARD, injections, order, run, table, verdict_of

pytestmark = [pytest.mark.cluster, pytest.mark.mxnet]
NAMES = list(injections(Path(SHARD)))
# Other programs that take more of the cores than this make any verdict possible.
BUSY = 0.1


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_an_injected_cause_is_named(name: str, tmp_path: Path) -> None:
    one = injections(tmp_path / SHARD)[name]
    folder = tmp_path / f"{name}-0"
    with local_cluster(2) as cluster:
        _, hosts = check_seconds(cluster)
        run(one, folder, cluster, hosts)
    found = verdict_of(folder)
    assert found is not None
    if name != "interference" and (found[0].measurements.other_cores or 0) > BUSY:
        pytest.skip("other programs use this machine")
    assert one.is_right(*found), found[0]


def test_every_round_has_each_injection_and_quiet_jobs_between_them() -> None:
    names = ["none", "link", "sync", "cores", "input"]
    assert [f"{name}-{number}" for name, number in order(names, 2)] == [
        *("link-0", "none-0", "sync-0", "cores-0", "input-0", "none-1"),
        *("link-1", "none-2", "sync-1", "cores-1", "input-1", "none-3"),
    ]
    assert list(order(["link"], 2)) == [("link", 0), ("link", 1)]


def test_the_table_counts_no_runs_without_records(tmp_path: Path) -> None:
    (tmp_path / "link-0").mkdir()
    lines = list(table(injections(tmp_path / SHARD), tmp_path))
    assert len(lines) == 2 + len(NAMES)
    assert "| link | link | 0 | 0 |  |  |" in lines
