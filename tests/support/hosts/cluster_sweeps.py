"""Sweeps from the command line over the hosts of a local test cluster."""

import json
import subprocess
from pathlib import Path
from typing import Any

from launch.hosts import ROOT
from launch.practice.cluster import Cluster
from tests.support.hosts.clusters import empty_within
from tests.support.programs.commands import FAB

FAKE = """
engine = "fake"
network = "tiny"
batch_per_device = 4
repeats = 1
windows = 3
fake_seconds = [0.3]
[[points]]
kvstore = "dist_sync"
devices = [2]
devices_per_host = 1
"""


def host_options(practice: Cluster) -> dict[str, str]:
    """Return the options that give a task all hosts of the cluster."""
    return {"hostfile": str(practice.hostfile), "ssh_config": str(practice.ssh_config)}


def fab(practice: Cluster, *words: str) -> list[str]:
    hosts = ["--hostfile", str(practice.hostfile), "--ssh-config", str(practice.ssh_config)]
    return [str(FAB), *words, *hosts]


def swept(
    practice: Cluster, folder: Path, sweep: str, *words: str
) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
    """Run a sweep over the cluster and return its records' lines.

    Fails if a process is left on any host.
    """
    command = fab(
        practice, "bench.sweep", sweep, "--run", str(folder / "run"), "--in-order", *words
    )
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert empty_within(practice, 2.0)
    path = folder / "run" / "records.jsonl"
    text = path.read_text() if path.is_file() else ""
    return done, [json.loads(line) for line in text.splitlines()]
