"""The controller asks engines what differs between them."""

import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.engines.catalog import ENGINES, find_engine
from bench.engines.engine import Comm, Engine, Needs
from bench.engines.mxnet import MXNET
from bench.errors import SpecError
from bench.kvstores import KVSTORES
from bench.sweep import load_sweep, spread
from bench.trial import changed, composed, make
from launch.hosts import pretend
from launch.job.monitor import Deadlines, JobMonitor
from launch.job.plan import plan, root_host
from launch.preflight.findings import Requirements, problems
from plots.figures.caption import hardware
from tests.support.hosts.host_reports import FIT
from tests.support.paths import ROOT
from tests.support.sources import modules

pytestmark = pytest.mark.pythons


def test_the_methods_of_mxnet_are_its_kvstores() -> None:
    assert tuple(MXNET.comms) == KVSTORES
    assert MXNET.comms["dist_sync"] == Comm(name="dist_sync", spans=True, servers=True)
    assert not MXNET.comms["dist_async"].waits
    assert {name for name, one in MXNET.comms.items() if not one.spans} == {
        *("local", "device", "nccl"),
    }


def test_only_the_fake_engine_is_scripted_and_a_program_brings_its_own_package() -> None:
    assert {name: (one.scripted, one.package) for name, one in ENGINES.items()} == {
        "mxnet": (False, "mxnet"),
        "torch": (False, "torch"),
        "command": (False, ""),
        "fake": (True, ""),
    }


def test_records_of_other_tools_keep_the_words_that_they_have() -> None:
    """Imported logs name engines and methods that no engine here has."""
    imported = composed(
        make({"batch_per_device": 8, "devices": 4, "devices_per_worker": 4}).fields
        | {"engine": "imported-x", "kvstore": "ring-async", "devices_per_worker": 1}
    )
    assert (imported.scripted, imported.servers, imported.workers) == (False, 0, 4)
    assert imported.comm == Comm(name="ring-async", waits=False)
    assert find_engine("imported-x") is MXNET


BY_NAME = re.compile(r"""\bengine(?:"\])? (?:==|!=|in|not in) (?:["'({]|ENGINE_)""")


def test_the_controller_asks_no_engine_for_its_name() -> None:
    """Another engine would need a change there; a field of Engine needs none."""
    own = [path for path in modules() if ROOT / "bench" not in path.parents]
    found = [path.name for path in own if BY_NAME.search(path.read_text(encoding="utf-8"))]
    assert found == []
    assert BY_NAME.search('if trial.engine == "fake":')
    assert BY_NAME.search('if trial["engine"] != "fake":')


# Computed before engines had a seam: results of earlier versions must stay found.
KEYS: dict[str, dict[str, Any]] = {
    "982ccc928c6b": {"batch_per_device": 8},
    "446e8c8cd73e": {
        **{"engine": "fake", "batch_per_device": 8, "devices": 2, "kvstore": "dist_sync"},
        "fake_seconds": [1.0],
    },
    "591e714c9bcf": {
        **{"network": "resnet", "num_layers": 50, "batch_per_device": 32, "device": "gpu"},
        **{"devices": 16, "devices_per_host": 8, "kvstore": "dist_device_sync"},
        **{"gc_type": "2bit", "env": ["OMP_NUM_THREADS=1"]},
    },
    "2d53829cc16e": {
        **{"network": "alexnet", "batch_per_device": 8, "devices": 2, "kvstore": "dist_async"},
        **{"options": ["--optimizer=nag"], "python": "x/bin/python", "costs": "upstream"},
    },
    "bcbe65ac1f72": {
        **{"mode": "test-io", "data_train": "a.rec", "batch_per_device": 8, "devices": 2},
        **{"devices_per_worker": 1, "prefetch_buffer": 4},
    },
}


@pytest.mark.parametrize("key", KEYS)
def test_points_keep_the_keys_of_earlier_versions(key: str) -> None:
    assert make(KEYS[key]).key == key


def sweep(folder: Path, text: str) -> str:
    path = folder / "mine.toml"
    path.write_text(f"batch_per_device = 8\n{text}")
    return str(path)


def test_comm_is_the_general_name_of_kvstore(tmp_path: Path) -> None:
    one = sweep(
        tmp_path,
        "comm = 'dist_async'\nexclude = [{ comm = 'local', devices = 2 }]\n"
        "[[points]]\ncomm = ['local', 'dist_sync']\ndevices = [1, 2]\n[[points]]\ndevices = 2",
    )
    assert [(trial.comm.name, trial.layout.devices) for trial in load_sweep(one).trials] == [
        *(("local", 1), ("dist_sync", 1), ("dist_sync", 2), ("dist_async", 2)),
    ]
    assert (
        load_sweep(one).trials[1].key
        == make({"batch_per_device": 8, "kvstore": "dist_sync", "devices_per_host": 2}).key
    )
    assert changed(make({"batch_per_device": 8}), "comm=device").layout.kvstore == "device"
    for text in ("comm=device kvstore=local", "lr=0.1 lr=0.2", "env.A=1 env.A=2"):
        with pytest.raises(SpecError, match=r"expected one value of \S+, got two\."):
            changed(make({"batch_per_device": 8}), text)
    both = sweep(tmp_path, "[[points]]\ncomm = 'local'\nkvstore = 'local'\ndevices = 1")
    with pytest.raises(SpecError, match="comm: expected it or kvstore, got both"):
        load_sweep(both)


def _fill(given: dict[str, Any]) -> None:
    given.setdefault("kvstore", "ring")
    given.setdefault("devices_per_worker", 1)


RING = replace(
    MXNET,
    name="ring",
    title="Ring 2",
    package="ringlib",
    foreign=("MASTER_", "RANK"),
    comms={"ring": Comm(name="ring", spans=True)},
    root="worker-0",
    fill=_fill,
    check=lambda trial: None,
    roles=lambda trial: (("worker", trial.workers),),
    environment=lambda trial, place: {
        "MASTER_ADDR": place.root[0],
        "RANK": f"{place.index}/{trial.workers}",
    },
    command=lambda trial, role, index: ("-m", "ring"),
    wire_bytes=lambda comm, compression, gradient_bytes: 2 * gradient_bytes,
    lacks=lambda facts, needs: "CUDA" if needs.gpu else "",
    no_code=lambda gpu, facts: "",
    software=lambda facts: f"Ring {facts['ringlib']}" if facts.get("ringlib") else "",
)


@pytest.fixture
def ring(monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setitem(ENGINES, "ring", RING)
    return RING


@pytest.mark.usefixtures("ring")
def test_a_job_without_servers_meets_at_its_first_worker() -> None:
    trial = make({"engine": "ring", "batch_per_device": 8, "devices": 4, "devices_per_host": 2})
    assert (trial.comm.name, trial.servers, trial.hosts) == ("ring", 0, 2)
    hosts = pretend(2, 2)
    job = plan(trial, hosts, 7000, scheduler=hosts[1])
    assert [(one.id, one.host.name) for one in job] == [
        *(("worker-0", "host01"), ("worker-1", "host01")),
        *(("worker-2", "host02"), ("worker-3", "host02")),
    ]
    assert [one.listens for one in job] == [f"{hosts[0].address}:7000", "", "", ""]
    assert root_host(trial, hosts, hosts[1]) is hosts[0]
    assert job[3].env["RANK"] == "3/4"
    assert {one.foreign for one in job} == {("MASTER_", "RANK")}
    assert job[0].argv[1:] == ("-m", "ring")


@pytest.mark.usefixtures("ring")
def test_a_root_that_fails_before_the_rendezvous_is_asked_for_its_port() -> None:
    trial = make({"engine": "ring", "batch_per_device": 8, "devices": 2})
    for name, failed in (("worker-0", True), ("worker-1", False)):
        monitor = JobMonitor(plan(trial, pretend(1, 2), 7000), Deadlines(), time.monotonic())
        monitor.take_exit(name, 1, None, time.monotonic())
        assert monitor.root_failed() == failed


@pytest.mark.usefixtures("ring")
def test_a_spread_sweep_asks_the_engine_which_methods_span_hosts() -> None:
    data = {"engine": "ring", "points": [{"kvstore": "ring", "devices": [1, 2]}]}
    (point,) = spread(data, 4, 2)["points"]
    assert point["devices"] == [1, 2, 4, 8]


def test_a_host_lacks_what_the_engine_says(ring: Engine) -> None:
    facts = FIT | {"ringlib": "2.0"}
    wanted = Requirements(code="c0de", engines=(ring,))
    assert problems(facts, wanted) == []
    (problem,) = problems(FIT, wanted)
    assert "it has no ringlib" in problem
    gpu = {"index": "0", "name": "New", "compute_cap": "12.0"}
    (problem,) = problems(facts | {"gpus": [gpu]}, replace(wanted, device="gpu"))
    assert "Ring 2.0 was built without CUDA" in problem
    assert MXNET.lacks(FIT | {"dist_kvstore": False}, Needs(spans=False)) == ""


@pytest.mark.usefixtures("ring")
def test_captions_name_the_software_of_each_engine() -> None:
    assert hardware({"mxnet": "1.9.1", "ringlib": "2.0"}) == "MXNet 1.9.1, Ring 2.0"


def test_the_wire_carries_both_ways_of_a_parameter_server() -> None:
    assert MXNET.wire_bytes(MXNET.comms["local"], "none", 1600) == 0
    assert MXNET.wire_bytes(MXNET.comms["dist_sync"], "none", 1600) == 1600
    assert MXNET.wire_bytes(MXNET.comms["dist_sync"], "2bit", 1600) == 850
