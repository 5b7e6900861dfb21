"""tools/environment.sh keeps a working environment in every case."""

import runpy
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.paths import ROOT

EXTRAS = ("exports", "docs", "remote", "slow", "torch", "spark")


class Checkout:
    """A folder with the script, a lock file and an imitated interpreter."""

    def __init__(self, root: Path) -> None:
        self.root = root / "checkout"
        (self.root / "tools").mkdir(parents=True)
        shutil.copy(ROOT / "tools" / "environment.sh", self.root / "tools")
        (self.root / "requirements.lock").write_text("anything==1\n")
        for extra in EXTRAS:
            (self.root / f"requirements-{extra}.lock").write_text(f"{extra}==1\n")
        (self.root / "requirements-torch-cuda.lock").write_text("nvidia-nccl-cu13==1\n")
        self.calls = root / "calls"
        self.calls.touch()
        self.base = root / "base" / "python3.11"
        self.folder = self.root / ".venv-python3.11"
        self.interpreter(self.base)

    def interpreter(self, path: Path, found: str = "") -> None:
        """Write an interpreter that answers the script, and records calls of pip and venv."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f"""#!/bin/sh
case "$*" in
*ensurepip*) echo '{found or f"3.11.7 {self.base}"}' ;;
*"pip --version") ;;
*"pip index versions torch") echo "Available versions: $TORCH_BUILDS" ;;
*"-m venv"*)
    echo "$@" >>{self.calls}
    mkdir -p "{self.folder}/bin"
    cp "$0" "{self.folder}/bin/python" ;;
*"pip install"*) echo "$@" >>{self.calls}
    for last; do :; done; cat "$last" >>{self.calls}.packages ;;
*/proc/*) for last; do :; done; exec {shutil.which("python3")} -c "$2" "$last" ;;
esac
"""
        )
        path.chmod(0o755)

    def run(self, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.root / "tools" / "environment.sh"],
            env={
                "PATH": "/usr/bin:/bin",
                "PYTHON": str(self.base),
                "TORCH_BUILDS": "1",
                **environment,
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def installed(self) -> str:
        return self.calls.with_name("calls.packages").read_text()

    def called(self) -> list[str]:
        return self.calls.read_text().splitlines()


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    made = Checkout(tmp_path)
    done = made.run()
    assert (done.returncode, done.stdout) == (0, ".venv-python3.11\n")
    assert [line.split()[1] for line in made.called()] == ["venv", "pip"]
    made.calls.write_text("")
    return made


def test_an_environment_that_is_up_to_date_is_not_made_again(checkout: Checkout) -> None:
    done = checkout.run()
    assert (done.returncode, done.stdout, done.stderr) == (0, ".venv-python3.11\n", "")
    assert checkout.called() == []


def test_a_changed_lock_file_updates_the_environment_in_place(checkout: Checkout) -> None:
    (checkout.root / "requirements.lock").write_text("anything==2\n")
    assert checkout.run().returncode == 0
    assert "install" in checkout.called()[0]
    assert [line for line in checkout.called() if "venv" in line.split()] == []
    checkout.calls.write_text("")
    assert checkout.run().returncode == 0
    assert checkout.called() == []


def test_fab_with_help_alone_is_fab_without_arguments(checkout: Checkout) -> None:
    fab = checkout.folder / "bin" / "fab"
    fab.write_text(
        "import sys\nif __name__ == '__main__':\n    sys.argv[0] = 'fab'\n    print(sys.argv)\n"
    )
    for version in (2, 3):  # the second update changes nothing
        (checkout.root / "requirements.lock").write_text(f"anything=={version}\n")
        assert checkout.run().returncode == 0
        assert fab.read_text().count("del sys.argv") == 1

    def arguments(*words: str) -> str:
        return subprocess.check_output([sys.executable, fab, *words], text=True).strip()

    assert arguments("--help") == arguments("-h") == "['fab']"
    assert arguments("--help", "demo") == "['fab', '--help', 'demo']"
    assert arguments("demo", "--help") == "['fab', 'demo', '--help']"


def test_two_updates_at_once_install_once(checkout: Checkout) -> None:
    (checkout.root / "requirements.lock").write_text("anything==2\n")
    script = [checkout.root / "tools" / "environment.sh"]
    environment = {"PATH": "/usr/bin:/bin", "PYTHON": str(checkout.base)}
    both = [subprocess.Popen(script, env=environment, stderr=subprocess.DEVNULL) for _ in "ab"]
    assert [one.wait(timeout=60) for one in both] == [0, 0]
    assert len(checkout.called()) == 1


def test_an_environment_of_another_interpreter_is_kept_and_the_command_named(
    checkout: Checkout,
) -> None:
    checkout.interpreter(checkout.base, found="3.11.9 /usr/bin/python3.11")
    (checkout.root / "requirements.lock").write_text("anything==2\n")
    done = checkout.run()
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "rm -r .venv-python3.11" in done.stderr
    assert (checkout.folder / "bin" / "python").exists()
    assert checkout.called() == []


def test_an_environment_that_a_process_runs_from_is_not_changed(checkout: Checkout) -> None:
    (checkout.root / "requirements.lock").write_text("anything==2\n")
    program = checkout.folder / "bin" / "sleep"
    shutil.copy(str(shutil.which("sleep")), program)
    with subprocess.Popen([program, "60"]) as process:
        try:
            deadline = time.monotonic() + 10
            while not Path(f"/proc/{process.pid}/cmdline").read_bytes():
                assert time.monotonic() < deadline
            done = checkout.run()
        finally:
            process.kill()
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert f"process {process.pid} runs from it" in done.stderr
    assert f"kill {process.pid}" in done.stderr
    assert checkout.called() == []


def test_an_environment_that_does_not_work_is_made_anew(checkout: Checkout) -> None:
    (checkout.folder / "bin" / "python").unlink()
    assert checkout.run().returncode == 0
    assert "--clear" in checkout.called()[0]


@pytest.mark.parametrize("extra", [one for one in EXTRAS if one != "torch"])
def test_what_an_extra_needs_is_added_when_asked_for_and_kept_up_to_date(
    checkout: Checkout, extra: str
) -> None:
    def installed() -> int:
        return sum(f"requirements-{extra}.lock" in line for line in checkout.called())

    checkout.run()
    assert installed() == 0
    checkout.run(**{f"MXSCALE_{extra.upper()}": "1"})
    assert installed() == 1
    checkout.run()
    assert installed() == 1
    (checkout.root / f"requirements-{extra}.lock").write_text("other==2\n")
    checkout.run()
    assert installed() == 2
    assert len(checkout.called()) == 2  # requirements.lock did not change


def test_pytorch_is_the_build_for_cpu_if_pip_finds_one(checkout: Checkout) -> None:
    done = checkout.run(MXSCALE_TORCH="1", TORCH_BUILDS="2, 1+cpu, 1")
    assert done.returncode == 0
    (call,) = checkout.called()
    assert "--require-hashes" in call
    assert "cuda" not in call
    assert "torch==1+cpu" in checkout.installed()
    checkout.calls.write_text("")
    checkout.run(TORCH_BUILDS="2, 1")
    assert checkout.called() == []


@pytest.mark.parametrize(("limit", "build"), [("4", "1"), ("1", "1+cpu")])
def test_a_machine_with_a_gpu_gets_the_build_for_gpus_if_the_limit_allows_it(
    checkout: Checkout, tmp_path: Path, limit: str, build: str
) -> None:
    smi = tmp_path / "smi" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text("#!/bin/sh\n")
    smi.chmod(0o755)
    path = f"{smi.parent}:/usr/bin:/bin"
    checkout.run(MXSCALE_TORCH=limit, TORCH_BUILDS="2, 1+cpu, 1", PATH=path)
    assert f"torch=={build}\n" in checkout.installed()


def test_pytorch_for_gpus_is_named_with_its_size_before_it_is_downloaded(
    checkout: Checkout,
) -> None:
    done = checkout.run(MXSCALE_TORCH="4", TORCH_BUILDS="2, 1")
    assert done.returncode == 0
    assert "downloading the build for GPUs, 2.7 GB" in done.stderr
    assert [call.split()[-1] for call in checkout.called()] == [
        "requirements-torch.lock",
        "requirements-torch-cuda.lock",
    ]


@pytest.mark.parametrize("limit", ["1", "2.6"])
def test_pytorch_above_the_limit_is_skipped_with_the_command_that_installs_it(
    checkout: Checkout, limit: str
) -> None:
    done = checkout.run(MXSCALE_TORCH=limit, TORCH_BUILDS="2, 1")
    assert (done.returncode, done.stdout) == (0, ".venv-python3.11\n")
    assert f"which is above {limit} GB" in done.stderr
    assert "'make torch LIMIT_GB=3'" in done.stderr
    assert checkout.called() == []


@pytest.mark.parametrize("found", ["", "2, 0.9+cpu", "1.1, 11, 1.post1"])
def test_pytorch_that_pip_does_not_find_is_one_error(checkout: Checkout, found: str) -> None:
    done = checkout.run(MXSCALE_TORCH="4", TORCH_BUILDS=found)
    assert done.returncode == 2
    assert "torch: expected version 1 for Python 3.11.7 from pip, got none" in done.stderr
    assert checkout.called() == []


def test_the_lock_of_pytorch_keeps_libraries_of_gpus_apart() -> None:
    split = runpy.run_path(str(ROOT / "tools" / "split_torch_lock.py"))["split"]
    lock = "filelock==4\nnvidia-nccl-cu13==2 --hash=b\ntorch==1 --hash=c\ntriton==3\n"
    builds = "# why\ntorch==1+cpu --hash=e  # Python 3.11\n"
    torch, libraries = split(lock, builds)
    assert torch == "filelock==4\ntorch==1 --hash=c \\\n    --hash=e\n"
    assert libraries == "nvidia-nccl-cu13==2 --hash=b\ntriton==3\n"
    assert split(torch, builds) == (torch, "")


@pytest.mark.slow
@pytest.mark.program
def test_an_environment_on_the_path_is_the_interpreter_that_it_was_made_with(
    tmp_path: Path,
) -> None:
    """Ask a real environment without packages through its own bin."""
    checkout = tmp_path / "checkout"
    (checkout / "tools").mkdir(parents=True)
    shutil.copy(ROOT / "tools" / "environment.sh", checkout / "tools")
    (checkout / "bench").mkdir()
    shutil.copy(ROOT / "bench" / "mxnet_import.py", checkout / "bench")
    (checkout / "requirements.lock").write_text("")
    python = shutil.which("python3", path="/usr/bin:/bin") or str(shutil.which("python3"))
    subprocess.run([python, "-m", "venv", checkout / ".venv"], check=True, timeout=120)
    canary = checkout / ".venv" / "canary"
    canary.touch()
    path = f"{checkout}/.venv/bin:{Path(python).parent}:/usr/bin:/bin"
    for text in ("", "# changed\n"):
        (checkout / "requirements.lock").write_text(text)
        done = subprocess.run(
            [checkout / "tools" / "environment.sh"],
            env={"PATH": path},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, ".venv\n"), done.stderr
        assert canary.exists()
    (site,) = (checkout / ".venv").glob("lib/python3.*/site-packages")
    hook = site / "_mxscale_mxnet.py"
    assert hook.read_bytes() == (ROOT / "bench" / "mxnet_import.py").read_bytes()
    for damage in (hook.unlink, lambda: hook.write_text("1 / 0"), hook.with_suffix(".pth").unlink):
        damage()
        subprocess.run([checkout / "tools" / "environment.sh"], env={"PATH": path}, check=True)
        code = "import sys; print('_mxscale_mxnet' in sys.modules, 'numpy' in sys.modules)"
        found = subprocess.check_output([checkout / ".venv/bin/python", "-I", "-c", code])
        assert found == b"True False\n"
