"""The container files run the same steps, which work in a Debian root."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hosts import debian_root
from tests.support.paths import ROOT

DOCKERFILE = (ROOT / "containers/Dockerfile").read_text(encoding="utf-8")
DEFINITION = (ROOT / "containers/apptainer.def").read_text(encoding="utf-8")
SUITE = re.findall(r"^FROM debian:(\w+)", DOCKERFILE, re.MULTILINE)[0]
FOLDERS = ("data", "results/runs")


def instructions(name: str) -> list[str]:
    """The arguments of all instructions of this name in the Dockerfile."""
    return re.findall(rf"^{name} (.*)$", DOCKERFILE, re.MULTILINE)


def section(name: str) -> str:
    """The lines of a section of the Apptainer definition, as a script."""
    text = DEFINITION.partition(f"%{name}\n")[2].partition("\n%")[0]
    return "\n".join(line.strip() for line in text.strip().splitlines())


def test_both_container_files_have_the_same_steps() -> None:
    assert re.findall(r"^From: (.*)$", DEFINITION, re.MULTILINE) == instructions("FROM")
    (folder,), (step,), (command,) = map(instructions, ("WORKDIR", "RUN", "CMD"))
    assert section("post").splitlines()[-1] == step.replace("sh ", f"sh {folder}/")
    assert section("runscript").split("\n")[0] == f"cd {folder}"
    assert section("runscript").split("exec ")[1].split() == json.loads(command)
    assert section("files").split() == ["mxscale.tar", "/mxscale.tar"]
    assert instructions("COPY") == [". ."]


def test_the_guide_builds_from_the_files_and_binds_the_written_folders() -> None:
    page = (ROOT / "docs/how-to/containers.md").read_text(encoding="utf-8")
    folder = instructions("WORKDIR")[0]
    assert "git archive HEAD | docker build --file containers/Dockerfile" in page
    assert "apptainer build mxscale.sif containers/apptainer.def" in page
    for name in FOLDERS:
        assert page.count(f"{name}:{folder}/{name}") == 2


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a Debian root with an archive of this checkout."""
    if why := debian_root.missing(SUITE):
        pytest.skip(why)
    path = tmp_path_factory.mktemp("container") / "root"
    debian_root.make(path, SUITE)
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    archive = ["tar", "--null", "--files-from=-", "-cf", str(path / "mxscale.tar")]
    subprocess.run(archive, cwd=ROOT, input=names.stdout, check=True)
    yield path
    shutil.rmtree(path)


@pytest.mark.slow
@pytest.mark.program
@pytest.mark.mxnet
def test_the_steps_of_the_container_files_run_the_demo(root: Path, tmp_path: Path) -> None:
    """The demo runs as in Apptainer: without root, and the image is read-only."""
    folder, (step,) = instructions("WORKDIR")[0], instructions("RUN")
    for script in (section("post"), f"cd {folder}\n{step}"):
        done = debian_root.run(root, script, seconds=1800)
        assert done.returncode == 0, done.stderr[-3000:]
    bound = {f"{folder}/{name}": tmp_path / name.replace("/", "-") for name in FOLDERS}
    for path in bound.values():
        path.mkdir()
        os.chown(path, debian_root.NOBODY, debian_root.NOBODY)
    done = debian_root.run(root, section("runscript"), seconds=1800, bound=bound)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert "Open results/runs/demo/report/index.html" in done.stdout
    report = bound[f"{folder}/results/runs"] / "demo" / "report"
    assert (report / "index.html").stat().st_size > 10_000
    assert (report / "scaling.svg").exists()
