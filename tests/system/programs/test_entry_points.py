"""Every program starts as a module; by its path it prints how to run it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from im2rec_tools.declarations import COMMANDS
from tests.support.paths import ROOT

pytestmark = pytest.mark.program
WITH_HELP = (
    "bench.train_imagenet",
    "bench.score",
    "bench.predict",
    "bench.fine_tune",
    "bench.auto_batch",
    "launch.launch",
    "im2rec_tools",
    "im2rec_tools.im2rec",
    "bench.libraries",
    "plots.figures.accuracy",
)
BY_PATH = WITH_HELP


def python(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("module", WITH_HELP)
def test_a_program_starts_as_a_module(module: str) -> None:
    done = python("-m", module, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.match(rf"usage: python -m {re.escape(module)}\s", done.stdout)


@pytest.mark.parametrize("module", BY_PATH)
def test_a_program_that_is_run_by_its_path_prints_how_to_run_it(module: str) -> None:
    name = module.replace(".", "/")
    done = python(f"{name}/__main__.py" if (ROOT / name).is_dir() else f"{name}.py", "--help")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert re.search(rf"Run 'python -m {re.escape(module)}( NAME)?( \.\.\.)?' in", done.stderr)


@pytest.mark.parametrize("path", sorted((ROOT / "im2rec_tools/commands").glob("[a-z]*.py")))
def test_a_command_that_is_run_by_its_path_prints_how_to_run_it(path: Path) -> None:
    done = python(str(path), "--help")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Run 'python -m im2rec_tools NAME ...' in the checkout\n" in done.stderr


@pytest.mark.parametrize(
    "name", sorted({*COMMANDS, *(name.replace("-", "_") for name in COMMANDS)})
)
@pytest.mark.parametrize("package", ["im2rec_tools", "im2rec_tools.commands"])
def test_the_module_of_a_data_command_names_the_command(name: str, package: str) -> None:
    done = python("-m", f"{package}.{name}", "a.rec")
    assert (done.returncode, done.stdout) == (2, "")
    command = name.replace("_", "-")
    line = f"error: im2rec_tools.{command}: moved. Run 'python -m im2rec_tools {command} ...'\n"
    assert done.stderr == line
