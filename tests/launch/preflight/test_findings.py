"""Problems that exclude a host from a job, and differences between hosts."""

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from bench.engines.engine import Engine
from bench.engines.mxnet import MXNET
from bench.engines.torch import TORCH
from launch.hosts import Host
from launch.preflight.findings import (
    HostReport,
    Requirements,
    compare_hosts,
    installed_engines,
    missing_packages,
    notes,
    problems,
)
from launch.preflight.table import Progress, lines, show
from launch.remote.errors import PreflightError
from launch.setup import check_reports
from launch.transport.line import FLAGS, LOADER, sources
from tests.support.hosts.host_reports import FIT

H200 = {"index": "0", "name": "NVIDIA H200", "compute_cap": "9.0"}
T4 = {"index": "0", "name": "Tesla T4", "compute_cap": "7.5"}
INSTALL = "Run 'fab hosts.install' with the same hosts"
K80 = {"index": "1", "name": "Tesla K80", "compute_cap": "3.7"}


def test_a_host_that_is_fit_has_no_problem() -> None:
    assert problems(FIT, Requirements(code="c0de")) == []
    assert problems(FIT | {"gpus": [T4]}, Requirements(code="c0de", device="gpu")) == []


def test_a_checkout_that_cannot_be_written_is_fit_only_if_it_has_the_code() -> None:
    denied = {"disk_problem": "Read-only file system", "disk_denied": True, "free_bytes": 0}
    assert problems(FIT | denied, Requirements(code="c0de")) == []
    (problem, *_) = problems(FIT | denied | {"code": ""}, Requirements())
    assert "/home/bench cannot be written (Read-only file system)" in problem


def test_bfloat16_needs_avx512_on_every_host() -> None:
    wanted = Requirements(code="c0de", bfloat16=True)
    expected = "dtype bfloat16: expected a CPU with AVX-512, got AVX2. Use float32"
    assert problems(FIT, wanted) == [expected]
    newer = ["avx512f", "avx512bw", "avx512vl", "avx512dq"]
    assert problems(FIT | {"cpu_flags": [*FIT["cpu_flags"], *newer]}, wanted) == []


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"tree": ""}, "no checkout at ~/mxscale. Run 'fab hosts.install'"),
        ({"code": "other"}, "expected code c0de, as on the controller, got other"),
        (
            {"python_problem": "no encodings", "python_variables": ["PYTHONHOME"]},
            "cannot be used (no encodings). Remove PYTHONHOME from the start-up file (~/.bashrc",
        ),
        (
            {"python_problem": "there is none"},
            "cannot be used (there is none). Run 'fab hosts.install",
        ),
        ({"dist_kvstore": False}, "built without DIST_KVSTORE"),
        ({"disk_problem": "No space left"}, "/home/bench cannot be written (No space left)"),
        ({"free_bytes": 5 << 20}, "expected 1 GB of free disk space at /home/bench, got 0.0 GB"),
        ({"clock_skew": 90.0}, "clock is +90.0 s off the controller's. Set up NTP"),
        ({"holder": {"user": "ann", "master": "m1", "process": 7, "since": "now"}}, "ann on m1"),
        ({"gpus": []}, "expected a GPU, got none from the driver. Set device"),
        ({"gpus": [H200]}, "GPU 0 (NVIDIA H200) has compute capability 9.0; MXNet 1.9.1's wheels"),
        ({"gpus": [T4], "cuda": False}, "MXNet 1.9.1 was built without CUDA"),
        ({"gpu_problem": "nvidia-smi failed: x"}, "nvidia-smi failed: x"),
    ],
)
def test_each_problem_has_its_sentence(facts: dict[str, Any], said: str) -> None:
    (problem,) = problems(FIT | {"gpus": [T4]} | facts, Requirements(code="c0de", device="gpu"))
    assert said in problem


def test_what_else_a_host_does_is_noted() -> None:
    quiet = FIT | {"gpu_processes": [], "shell": "/usr/bin/python3 3.11.2"}
    quiet |= {"login_shell": "/usr/bin/python3 3.11.2"}
    assert notes(quiet) == []
    gpu = T4 | {"memory": "15360", "used": "9000", "mig": "Enabled"}
    busy = quiet | {"gpus": [gpu], "gpu_processes": [71], "login_shell": "none"}
    busy |= {"usage": {"programs": 2, "cores": 1.7, "of": 2}}
    said = " | ".join(notes(busy))
    for words in (
        "(MIG)",
        "has 9000 MiB in use",
        "processes 71",
        "busy host: 2 other programs use 1.7 of 2 cores",
        "login shell",
    ):
        assert words in said


def test_a_rehearsal_needs_no_mxnet() -> None:
    without = {"mxnet": "", "dist_kvstore": False}
    assert problems(FIT | without, Requirements(engines=())) == []


@pytest.mark.parametrize(
    ("gpu", "has_code"), [(T4, True), (K80, False), (H200, False), ({"compute_cap": "?"}, True)]
)
def test_gpus_that_the_wheels_have_code_for_are_told_from_others(
    gpu: dict[str, str], has_code: bool
) -> None:
    assert (MXNET.no_code(gpu, FIT) == "") == has_code


BOTH = FIT | {"torch": "2.13.0", "torch_cuda": "13.0"}
MXNET_ALONE = FIT | {"cuda": False}
TORCH_ALONE = BOTH | {"mxnet": "", "dist_kvstore": False, "cuda": False}


@pytest.mark.parametrize(
    ("hosts", "device", "engines"),
    [
        ([FIT, FIT], "cpu", (MXNET,)),
        ([TORCH_ALONE, TORCH_ALONE], "cpu", (TORCH,)),
        ([BOTH, BOTH], "cpu", (MXNET, TORCH)),
        ([BOTH, FIT], "cpu", (MXNET,)),
        ([BOTH | {"cuda": False}] * 2, "gpu", (TORCH,)),
        ([MXNET_ALONE, TORCH_ALONE], "cpu", (MXNET, TORCH)),  # each lacks one
        ([FIT | {"mxnet": ""}], "cpu", (MXNET,)),
        ([], "cpu", (MXNET,)),
    ],
)
def test_hosts_are_checked_for_the_engines_that_they_have(
    hosts: list[dict[str, Any]], device: str, engines: tuple[Engine, ...]
) -> None:
    assert installed_engines(hosts, device) == engines


def test_a_package_that_only_some_hosts_have_is_named() -> None:
    assert missing_packages([BOTH, FIT, TORCH_ALONE]) == [[], ["torch"], ["mxnet"]]
    assert missing_packages([FIT, FIT]) == [[], []]


def test_several_engines_that_lack_have_one_fix() -> None:
    (problem,) = problems(FIT, Requirements(engines=(MXNET, TORCH)))
    assert "(it has no torch). Run 'fab hosts.install --engine mxnet,torch' with" in problem
    (problem,) = problems(FIT, Requirements(engines=(MXNET, TORCH)), local=True)
    assert problem.endswith("(it has no torch). Run 'make torch'")
    (problem,) = problems(FIT | {"mxnet": ""}, Requirements(), local=True)
    assert problem.endswith("(it has no mxnet). Run 'make environment'")


def examined(name: str, **facts: Any) -> HostReport:
    return HostReport(host=Host(name=name, address="10.0.0.1", cpus=2, gpus=0), facts=FIT | facts)


def test_what_differs_from_most_is_marked_and_other_versions_are_problems() -> None:
    found = compare_hosts(
        [examined("a"), examined("b"), examined("c", mxnet="1.8.0"), examined("d", memory_mib=8000)]
    )
    assert [one.differs for one in found] == [(), (), ("mxnet",), ("memory",)]
    assert found[2].problems == (
        f"differs from the others: MXNet 1.8.0, most have 1.9.1. {INSTALL}",
    )
    assert (found[3].problems, found[3].notes) == ((), ("memory 8 GiB, most have 23 GiB",))
    assert lines(found)[-1] == "3 of 4 hosts are ready"


def test_each_host_is_compared_with_the_controller() -> None:
    """If one of two hosts has changed code, the other one is correct."""
    own = {"code": "c0de", "python": "3.11", "mxnet": "1.9.1"}
    for pair in (
        [examined("a", code="x"), examined("b")],
        [examined("b"), examined("a", code="x")],
    ):
        found = {one.host.name: one for one in compare_hosts(pair, own)}
        assert (found["b"].differs, found["b"].problems) == ((), ())
        said = (f"differs from the controller: code x, the controller has c0de. {INSTALL}",)
        assert (found["a"].differs, found["a"].problems) == (("code",), said)
    most = [examined("a", mxnet="1.8.0"), examined("b", mxnet="1.8.0"), examined("c")]
    assert [one.differs for one in compare_hosts(most, own)] == [("mxnet",), ("mxnet",), ()]


def test_hosts_that_are_alike_may_have_other_versions_than_the_controller() -> None:
    both = [examined("a", mxnet="1.8.0"), examined("b", mxnet="1.8.0")]
    assert [one.differs for one in compare_hosts(both, {"mxnet": "1.9.1"})] == [(), ()]


def test_of_two_hosts_that_differ_none_is_called_like_most() -> None:
    found = compare_hosts([examined("a", memory_mib=8192), examined("b", memory_mib=16384)])
    assert [one.notes for one in found] == [
        ("memory 8 GiB, others have 16 GiB",),
        ("memory 16 GiB, others have 8 GiB",),
    ]


def test_code_is_not_compared_if_it_does_not_matter() -> None:
    found = compare_hosts([examined("a", code="x"), examined("b")], {"code": ""})
    assert [one.differs for one in found] == [(), ()]


def test_patch_levels_of_python_may_differ() -> None:
    found = compare_hosts(
        [examined("a"), examined("b", python="3.11.2"), examined("c", python="3.12.1")]
    )
    assert [bool(one.problems) for one in found] == [False, False, True]


def test_the_table_has_a_row_a_host(capsys: pytest.CaptureFixture[str]) -> None:
    unreached = HostReport(
        host=Host(name="gone", address="", cpus=0, gpus=0), problems=("no [way]",)
    )
    show(compare_hosts([examined("a", mxnet="1.8.0"), examined("b"), examined("c"), unreached]))
    text = capsys.readouterr().out
    assert "1.8.0*" in text
    assert "gone: no [way]" in text
    assert text.splitlines()[-1] == "2 of 4 hosts are ready"


def test_hosts_that_fail_alike_share_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    def failed(name: str, why: str) -> HostReport:
        return HostReport(host=Host(name=name, address="", cpus=0, gpus=0), problems=(why,))

    alike = [failed(f"n{n}", f"srun: denied. Run: srun -n1 -w n{n} true") for n in range(1, 65)]
    found = [alike[0], failed("n99", "srun: n99 is down"), *alike[1:]]
    assert lines(found) == [
        "n1, n2, n3, n4 and 60 more: srun: denied. Run: srun -n1 -w n1 true",
        "n99: srun: n99 is down",
        "0 of 65 hosts are ready",
    ]
    with pytest.raises(PreflightError) as refused:
        check_reports(found)
    assert str(refused.value).count("srun") == 3
    progress = Progress(len(found))
    for one in found[:4]:
        progress.report(one)
    progress.begin()
    progress.close()
    assert capsys.readouterr().err.splitlines() == [
        "[1/65] n1: srun: denied. Run: srun -n1 -w n1 true",
        "[2/65] n99: srun: n99 is down",
        "[3/65] n2: same problem as n1",
        "[4/65] n3: same problem as n1",
    ]


def test_hosts_without_a_problem_share_none(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(2)
    for name in ("a", "b"):
        one = examined(name)
        progress.report(replace(one, facts={}))
        progress.report(one)
    progress.begin()
    progress.close()
    lines_read = capsys.readouterr().err.splitlines()
    states = ("[0/2] a: connected", "[1/2] a: answered", "[1/2] b: connected", "[2/2] b: answered")
    assert lines_read == list(states)


def test_pytorch_has_a_column_if_a_host_has_it(capsys: pytest.CaptureFixture[str]) -> None:
    show([examined("a")])
    assert "PyTorch" not in capsys.readouterr().out
    show([examined("a"), examined("b", torch="2.13.0", mxnet="")])
    header, _, row, *_ = capsys.readouterr().out.splitlines()
    assert "PyTorch" in header
    assert "2.13.0" in row


def test_a_probe_loads_no_more_than_it_needs() -> None:
    """The start of a probe takes most of the time of a host's check."""
    program = sources("probe").replace(b"m.main()", b"print(*sys.modules)")
    done = subprocess.run(
        [sys.executable, *FLAGS, "-c", LOADER], input=program, capture_output=True, check=True
    )
    loaded = set(done.stdout.decode().split())
    assert {"launch.remote.probe", "launch.remote.facts"} <= loaded
    slow = {"asyncio", "concurrent.futures", "ctypes", "logging", "pathlib", "random", "shutil"}
    assert loaded & (slow | {"site", "tempfile", "typing", "urllib.parse"}) == set()
