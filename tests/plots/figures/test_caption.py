"""The caption of a figure: machine, settings and method."""

import dataclasses

from plots.figures.caption import caption
from tests.support.runs.scenes import point, published, run, three


def test_a_footer_says_hardware_stores_batches_repeats_date_and_commit() -> None:
    said = caption(run(published())).splitlines()
    assert said == [
        "AMD EPYC, 64 cores, 256 GiB, MXNet 1.9.1",
        "kvstore device, dist_device_sync; batch size per device: alexnet 512, "
        "inception-v3 32, resnet-152 32; 2026-01-02; commit abcdef0; n = 1; bars: 95 % CI "
        "(n = 1: run-to-run SD of 1.5 % assumed)",
        "settings: devices_per_host = 16",
    ]


def test_a_footer_of_a_cluster_counts_its_hosts_by_kind() -> None:
    gpu = {"name": "Tesla K80"}
    hosts = {f"h{n}": {"cores": [0, 1], "gpus": [gpu, gpu]} for n in range(3)}
    environment = {"processor": "AMD EPYC", "cores": 64, "hosts": hosts | {"odd": {"cores": [0]}}}
    said = caption(run(three(), environment=environment)).splitlines()[0]
    assert said == "AMD EPYC, 3 hosts of 2 cores and 2 Tesla K80, 1 host of 1 core"


def test_a_footer_counts_the_sources_of_imports() -> None:
    logs = [
        dataclasses.replace(one, source=f"imported from {n}.log") for n, one in enumerate(three())
    ]
    said = caption(run(logs)).splitlines()
    assert said[0] == "not measured by mxscale; source: imported from 0.log and 2 more"
    assert "log" not in said[1]


def test_a_footer_of_a_rehearsal_says_where_it_was_played() -> None:
    said = caption(run([point(1, 9, engine="fake")])).splitlines()
    assert said[1] == "simulated on AMD EPYC, 64 cores, 256 GiB, MXNet 1.9.1"
