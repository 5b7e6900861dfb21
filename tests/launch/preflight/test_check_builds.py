"""Another Python with another MXNet as a setting: checked, used and reported."""

import hashlib
import json
import shutil
import site
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from invoke.context import Context

import fabfile as _fabfile
from bench.sweep import load_sweep
from launch.hosts import ROOT, this_machine
from launch.job.monitor import Deadlines
from launch.job.plan import plan
from results.comparison.ab import build_lines
from results.errors import StoreError
from results.record import Identity, Rank, Record
from results.store import Store, read_records
from tests.support.programs.commands import refusal, sweep_file
from tests.support.programs.jobs import measured, trial

fabfile: Any = _fabfile
SWEEP = """
network = "tiny"
batch_per_device = 4
image_shape = [3, 32, 32]
windows = 3
precision = 0.0
[[points]]
kvstore = "local"
devices = 1
"""


def environment(folder: Path) -> str:
    """Make another Python with the same packages and a changed copy of MXNet."""
    command = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
    subprocess.run(command, check=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    (ours,) = [one for one in site.getsitepackages() if (Path(one) / "mxnet").is_dir()]
    (packages / "ours.pth").write_text(f"{ours}\n")
    shutil.copytree(f"{ours}/mxnet", packages / "mxnet")
    with (packages / "mxnet" / "libmxnet.so").open("ab") as library:
        library.write(b"another build")
    return str(folder / "bin" / "python")


def test_every_process_of_a_trial_runs_its_python() -> None:
    here = replace(this_machine(), libraries=("/cuda",))
    ours, others = trial(), trial(python="/opt/other/bin/python")
    assert {one.argv[0] for one in plan(ours, [here], 9091)} == {here.python}
    processes = plan(others, [here], 9091)
    assert {one.argv[0] for one in processes} == {"/opt/other/bin/python"}
    assert not any("LD_LIBRARY_PATH" in one.env for one in processes)


LATER = {
    "python": "",
    "costs": "none",
    "channels_last": False,
    "compile": False,
    "prefetch_buffer": 2,
    "command": (),
    "format": "",
    "printers": 1,
}


def test_a_field_of_later_changes_no_key_of_before() -> None:
    fields = trial().fields
    assert {name: fields.pop(name) for name in LATER} == LATER
    text = json.dumps(fields, sort_keys=True).encode()
    assert trial().key == hashlib.sha256(text).hexdigest()[:12]
    assert len({one.key for one in (trial(), trial(python="a"), trial(python="b"))}) == 3


@pytest.mark.program
@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/nowhere/python", "cannot be used: there is none"),
        ("/bin/true", "not a working Python (no output)"),
        ("/bin/echo", "not a working Python"),
        ("/usr/bin/python3", "cannot be used: it has no mxnet"),
    ],
)
def test_what_is_no_python_with_mxnet_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, said: str
) -> None:
    if path == "/usr/bin/python3" and not Path(path).exists():
        pytest.skip("needs /usr/bin/python3")
    monkeypatch.chdir(ROOT)
    words = {"sweep": sweep_file(tmp_path, SWEEP), "run": str(tmp_path / "run")}
    code, line = refusal(fabfile.ab.bench_ab, "", f"python={path}", **words)
    assert code == 2
    assert f": python={path} " in line
    assert said in line


@pytest.mark.slow
@pytest.mark.mxnet
def test_both_builds_stand_in_the_records_and_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, run = environment(tmp_path / "other"), tmp_path / "run"
    path = sweep_file(tmp_path, SWEEP)
    (base,) = load_sweep(path).trials
    records = measured(run, base, base.replace(python=other), deadlines=Deadlines())
    with closing(Store(run)) as store:  # as if each of them had run four times
        for repeat in (1, 2, 3):
            for one in records:
                store.append(replace(one, identity=replace(one.identity, repeat=repeat)))
    words = {"sweep": path, "run": str(run), "blocks": "2"}
    fabfile.ab.bench_ab.body(Context(), "", f"python={other}", **words)
    assert len(read_records(run)) == 8
    lines = capsys.readouterr().out.splitlines()
    (first,) = [line for line in lines if line.startswith("A ran MXNet 1.9.1")]
    (second,) = [line for line in lines if line.startswith("B ran MXNet 1.9.1")]
    assert str(tmp_path / "other") in second
    assert str(tmp_path / "other") not in first
    assert first in (run / "report" / "ab.md").read_text()
    facts = records[0].ranks[0].facts
    assert facts["mxnet"] == "1.9.1"
    assert Path(facts["mxnet_library"]).name == "libmxnet.so"
    assert len(facts["mxnet_digest"]) == 12
    assert facts["python"] == sys.version.split()[0]


def run_of(digest: str) -> Record:
    facts = {"mxnet": "2.0", "mxnet_library": "/a.so", "mxnet_digest": digest, "python": "3.11"}
    name = Identity(name="", key="", repeat=0, code_hash="", data_manifest="", hosts=())
    return Record(
        trial=trial(),
        identity=name,
        status="ok",
        message="",
        ranks=(Rank(rank=0, host="a", process="worker-0", facts=facts if digest else {}),),
        emulated=False,
        started="",
        elapsed_seconds=1.0,
    )


def test_two_engines_name_the_framework_of_each_side() -> None:
    (rank,) = run_of("x").ranks
    torch = replace(rank, facts={"torch": "2.13.0+cpu", "python": "3.11"})
    other = replace(run_of(""), ranks=(torch,))
    assert build_lines([run_of("x"), other, other, run_of("x")]) == [
        "A ran MXNet 2.0 (/a.so, digest x) on Python 3.11",
        "B ran PyTorch 2.13.0+cpu on Python 3.11",
    ]


def test_a_side_that_changed_its_build_gives_no_number() -> None:
    def told(builds: str) -> list[str]:
        return build_lines([run_of(one.strip(".")) for one in builds])

    assert told("xyyx") == [
        "A ran MXNet 2.0 (/a.so, digest x) on Python 3.11",
        "B ran MXNet 2.0 (/a.so, digest y) on Python 3.11",
    ]
    assert told("xxxx") == ["A and B ran MXNet 2.0 (/a.so, digest x) on Python 3.11"]
    assert told("....") == []
    with pytest.raises(StoreError, match="B: expected one build of the framework for every run"):
        told("xyzx")
