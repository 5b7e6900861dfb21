"""Planted secrets occur nowhere in the files of a sweep."""

import gzip
import json
import os
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from invoke.context import Context

from bench.settings.secrets import MaskedText
from tasks.bench import bench_sweep
from tests.support.paths import ROOT
from tests.support.programs import kills
from tests.support.programs.commands import refusal
from tests.support.programs.kills import Done, Try
from tests.support.repeats import slow

FAB = Path(sys.executable).with_name("fab")
Forked = Callable[..., Done]
SWEEP = """
description = "secrets"
repeats = 1
network = "tiny"
batch_per_device = 2
windows = 3
kvstore = "dist_sync"
engine = "fake"
fake_seconds = [0.3]
# OLD_API_KEY=w0rd-comment
env = ["SWEEP_TOKEN=w0rd-sweep", 'LITERAL_PASSWORD=w0rd literal', "PLAIN=shown"]
[[points]]
devices = [1, 2]
[[points]]
devices = 2
network = "alexnet"
env = ["POINT_\\u0053ECRET=w0rd-point"]
"""
# By prefix, some of which reach processes, and by nothing.
SHELL = {
    "MXNET_S3_TOKEN": "w0rd-mxnet",
    "CUDA_LICENSE_KEY": "w0rd-cuda",
    "NCCL_CREDENTIALS": "w0rd-nccl",
    "DMLC_S3_SECRET": "w0rd-dmlc",
    "PS_KEY": "w0rd-ps-key",
    "PS_PLAIN": "w0rd-ps",
    "AWS_SECRET_ACCESS_KEY": "w0rd-aws",
    "PASSED_BY_NAME": "w0rd-passed",
    "MXNET_PASSED": "w0rd-passed-too",
}
ASKED = (
    *("-x", "OPTION_API_KEY=w0rd-option"),
    *("-x", "PASSED_BY_NAME", "-x", "MXNET_PASSED", "-x", "db_passwd=w0rd-lower"),
)


class Commands:
    """Collect the command lines of this machine's processes in the block."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> "Commands":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(0.05):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    self.seen.add(path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
                except OSError:
                    continue


def fab(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [FAB, *words],
        cwd=ROOT,
        env=os.environ | SHELL,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def forked() -> Iterator[Forked]:
    """Run fab in the same environment, in a process that has imported it."""
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory(prefix="k") as folder,
    ):
        for name, value in SHELL.items():
            patch.setenv(name, value)
        Path(folder, "tmp").mkdir()
        with kills.commands() as commands:
            yield lambda *words: commands.run(Try(words=tuple(map(str, words)), tree=folder))


def texts(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield every file below a folder, packed ones included."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        data = path.read_bytes()
        yield str(path), data
        if path.suffix == ".gz":
            yield str(path), gzip.decompress(data)
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    inner = archive.read(name)
                    yield (
                        f"{path}: {name}",
                        gzip.decompress(inner) if name.endswith(".gz") else inner,
                    )


def leaks(text: bytes | str) -> bool:
    return b"w0rd" in (text if isinstance(text, bytes) else text.encode())


@pytest.mark.program
def test_planted_secrets_are_found_in_nothing_that_is_written(
    tmp_path: Path, forked: Forked
) -> None:
    sweep, run = tmp_path / "file.toml", tmp_path / "all" / "run"
    sweep.write_text(SWEEP)
    run.parent.mkdir()
    with Commands() as commands:
        done = fab("bench.sweep", sweep, "--run", run, *ASKED)
    assert done.returncode == 0, done.stderr
    said = [done.stdout, done.stderr]
    for words in (
        ("report.show", "--run", run),
        ("results.show", "--run", run),
        ("results.pack", "--run", run, "--to", tmp_path / "all" / "run.zip"),
        ("results.export", "--run", run, "--to", tmp_path / "all" / "exports"),
        ("hosts.logs", "--run", run, "--point", "alexnet"),
        ("bench.plan", sweep, *ASKED),
        ("bench.plan", sweep, "--commands", *ASKED),
    ):
        said += [forked(*words).printed]
    assert [text for text in said if leaks(text)] == []
    assert [name for name, data in texts(run.parent) if leaks(data)] == []
    typed = [line for line in commands.seen if leaks(line)]
    assert all("bench.sweep" in line for line in typed)  # as a person typed it, here
    kept = json.loads((run / "records.jsonl").read_text().splitlines()[0])["trial"]["env"]
    assert {"OPTION_API_KEY=***", "PASSED_BY_NAME", "MXNET_PASSED", "db_passwd=***"} <= set(kept)
    environment = (run / "environment.json").read_text()
    assert '"-x", "OPTION_API_KEY=***"' in " ".join(environment.split())
    page = (run / "report" / "report.md").read_text()
    assert "***" in page


@pytest.mark.program
def test_a_run_is_measured_again_once_its_secrets_are_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    sweep, run = tmp_path / "file.toml", str(tmp_path / "run")
    sweep.write_text(SWEEP.replace("devices = [1, 2]", "devices = 1"))
    bench_sweep.body(Context(), str(sweep), [], run=run, point="tiny")
    kept = f"{run}/sweep.toml"
    code, line = refusal(bench_sweep, kept, [], run=f"{tmp_path}/again", point="tiny")
    assert code == 2
    assert "env: SWEEP_TOKEN: expected a value" in line
    monkeypatch.setenv("SWEEP_TOKEN", "w0rd-again")
    given = ["SWEEP_TOKEN", "LITERAL_PASSWORD=x"]
    capsys.readouterr()
    bench_sweep.body(Context(), kept, x=given, run=run, point="tiny")
    # another secret is the same point
    assert "Finished points are not rerun" in capsys.readouterr().out


@pytest.mark.parametrize(
    "command",
    [
        *slow(
            "sh -c 'exit 1' --password w0rd-proxy",
            "/no/such/w0rd-proxy --password w0rd-proxy",
            "PROXY_TOKEN=w0rd-proxy nc %h %p",
        ),
        "sh -c 'echo w0rd-proxy",
    ],
)
@pytest.mark.program
def test_a_proxy_command_that_fails_is_not_quoted(
    tmp_path: Path, forked: Forked, command: str
) -> None:
    config = tmp_path / "config"
    config.write_text(f"Host far\n  HostName 127.0.0.1\n  User me\n  ProxyCommand {command}\n")
    done = forked("hosts.check", "--hosts", "far:1", "--ssh-config", config)
    assert done.code != 0
    assert "far" in done.printed
    assert not leaks(done.printed)


@pytest.mark.parametrize("words", [("-x", "9_API_KEY=w0rd"), ("--env=B-KEY:w0rd", "true")])
@pytest.mark.program
def test_launch_quotes_no_secret_that_it_refuses(words: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "launch.launch", "-n", "1", "--launcher", "local", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode != 0
    assert not leaks(done.stdout + done.stderr)


@pytest.mark.program
def test_launch_puts_variables_on_no_command_line() -> None:
    script = "import os, time; time.sleep(1); print(len(os.environ['API_KEY']))"
    words = ("-n", "1", "--launcher", "local", "-x", "API_KEY", sys.executable, "-c", script)
    with Commands() as commands:
        done = subprocess.run(
            [sys.executable, "-m", "launch.launch", *words],
            cwd=ROOT,
            env=os.environ | {"API_KEY": "w0rd-launch"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert str(len("w0rd-launch")) in done.stdout
    assert not any(map(leaks, commands.seen))


def test_a_value_that_stands_beside_its_text_is_in_no_copy_of_the_text() -> None:
    one = MaskedText("A_KEY=***", "w0rd")
    assert not any(map(leaks, (str(one), repr(one), f"{one}", json.dumps(one), one + "")))
