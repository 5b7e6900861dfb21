"""Facts that a probe reports of a host, and a fake nvidia-smi."""

import os
from pathlib import Path
from typing import Any

import pytest

FIT: dict[str, Any] = {
    "tree": "/home/bench/mxscale",
    "code": "c0de",
    "python": "3.11.7",
    "python_problem": "",
    "mxnet": "1.9.1",
    "dist_kvstore": True,
    "cuda": True,
    "disk": "/home/bench",
    "disk_problem": "",
    "disk_denied": False,
    "free_bytes": 50 << 30,
    "clock_skew": 0.0,
    "holder": {},
    "others": [],
    "gpus": [],
    "gpu_problem": "",
    "cores": [0, 1],
    "cpu_flags": ["sse4_1", "avx", "avx2"],
    "memory_mib": 24000,
    "load": 0.5,
    "system": "Linux 6.1",
}
_USE = "index,utilization.gpu,power.draw,temperature.gpu,clocks.sm,clocks.max.sm"
SMI = f'#!/bin/sh\nif [ "$1" = --query-gpu={_USE} ]; then {{}}; fi\n'


def smi(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    program = folder / "nvidia-smi"
    program.write_text(SMI.format(body))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
