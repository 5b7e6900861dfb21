"""Templates that reach hosts in place of SSH, and commands that fail."""

import os
import queue
import resource
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from launch.hosts import Host, HostOptions, Login
from launch.job.agents import Agents
from launch.job.plan import Process
from launch.launch import main
from launch.remote import limits
from launch.remote.errors import LaunchError
from launch.setup import listed_hosts, reached
from launch.transport.client import RemoteProgram
from launch.transport.via import Template, Via
from tests.support.hosts.marks import MARK, left

# In place of srun or docker: runs the command here, with the host's name in a variable.
HERE = "env VIA_HOST={host}"


def host(name: str = "n1") -> Host:
    return Host(name=name, address="127.0.0.1", cpus=1, gpus=0, login=Login(host=name))


def refused(**options: str | bool) -> str:
    given = {"hosts": "n1:1", **options}
    with pytest.raises(LaunchError) as error:
        listed_hosts(HostOptions(**given))  # type: ignore[arg-type]
    return str(error.value)


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A mark that every process of this test inherits; fails if one is left."""
    monkeypatch.setenv(MARK, str(tmp_path))
    yield str(tmp_path)
    assert left(str(tmp_path)) == []


def failed(template: str, monkeypatch: pytest.MonkeyPatch, seconds: float = 15.0) -> str:
    """Return the error of a program that does not start."""
    monkeypatch.setattr(limits, "VIA_START_SECONDS", seconds)
    monkeypatch.setattr(limits, "GRACE_SECONDS", 0.5)
    with closing(Via(Template.parse(template))) as via, pytest.raises(LaunchError) as error:
        via.start(host(), "probe")
    return str(error.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "srun --jobid 7 --overlap -N1 -n1 -w {host}",
            ("srun", "--jobid", "7", "--overlap", "-N1", "-n1", "-w", "n1"),
        ),
        ("env 'A=a b' B=$HOME;x {host}", ("env", "A=a b", "B=$HOME;x", "n1")),
        ("env --net=/run/{host}/net", ("env", "--net=/run/n1/net")),
    ],
)
def test_words_are_split_like_a_shells_and_nothing_is_expanded(
    text: str, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert Template.parse(text).command("n1") == words


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("env A=1", "--via: expected a command with {host}, got 'env A=1'. Write it where"),
        ("  ", "--via: expected a command with {host}, got none"),
        ("env {node} {host}", "--via: expected only the placeholder {host}, got {node}"),
        ("env {} {host}", "--via: expected only the placeholder {host}, got {}"),
        ("env 'A={host}", "--via: its quotes do not match"),
        ("nosuchprogram {host}", "--via: expected a program of this machine, got 'nosuchprogram'"),
        ("{host} env", "--via: expected a program before {host}, got '{host}'"),
        ("env --token=abc {host}", "--via: expected no secret, got '--token=***'"),
        ("env API_KEY=abc {host}", "--via: expected no secret, got 'API_KEY=***'"),
        ("env http://me:abc@x/ {host}", "--via: expected no secret, got 'http://***@x/'"),
        ("env --password abc {host}", "--via: expected no secret, got '--password'"),
    ],
)
def test_a_wrong_template_is_one_line_before_anything_starts(template: str, message: str) -> None:
    said = refused(via=template)
    assert said.startswith(message)
    assert "\n" not in said
    assert "abc" not in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ssh_config": "x"}, "--ssh-config: --via replaces SSH. Remove --ssh-config or --via"),
        ({"accept_new": True}, "--accept-new: --via replaces SSH. Remove --accept-new or --via"),
        ({"hosts": "me@n1:1"}, "--via: expected hosts without an SSH user or port, got 'me@n1'"),
        (
            {"hosts": "n1:2222", "hosts_format": "dmlc"},
            "--via: expected hosts without an SSH user or port, got 'n1:2222'",
        ),
        ({"hosts": ""}, "--via: expected hosts, got none. Name them with --hostfile FILE"),
    ],
)
def test_options_of_ssh_are_refused(
    options: dict[str, str | bool], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SLURM_JOB_NODELIST", "DEEPLEARNING_WORKERS_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("launch.hostfile.AMAZON", Path("/nonexistent"))
    assert refused(via=HERE, **options).startswith(message)


def test_a_simulation_takes_slurms_hosts_if_a_template_reaches_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2]")
    monkeypatch.delenv("DEEPLEARNING_WORKERS_PATH", raising=False)
    assert listed_hosts(HostOptions(), only_named=True) == ()
    named = listed_hosts(HostOptions(via=HERE), only_named=True)
    assert [one.name for one in named] == ["n1", "n2"]


def test_a_program_runs_through_the_template_and_sees_no_address_of_ssh(
    mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "192.0.2.1 1 192.0.2.2 22")
    with (
        reached(HostOptions(hosts="n1:1", via=HERE)) as ((one,), start),
        closing(RemoteProgram(one, start, "probe")) as program,
    ):
        answer = program.request({"do": "where"}, 20.0, "where")
        environments = [Path(f"/proc/{pid}/environ").read_bytes() for pid in left(mark)]
    assert answer["reached"] == []
    assert any(b"VIA_HOST=n1" in one.split(b"\0") for one in environments)


def test_an_agent_and_its_processes_end_with_the_connection(mark: str) -> None:
    code = "import time; print('here', flush=True); time.sleep(600)"
    process = Process(host=host(), role="worker", index=0, argv=(sys.executable, "-c", code))
    with closing(Via(Template.parse(HERE))) as via, closing(Agents(via.start)) as agents:
        agents.begin_job([host()])
        agents.start(process, "")
        while (message := agents.receive(20.0)) is not None and message.say != "output":
            pass
        assert message is not None
        assert message.values["lines"] == ["here"]
        assert len(left(mark)) >= 2


def test_a_command_that_fails_is_named_with_its_status_and_its_last_lines(
    monkeypatch: pytest.MonkeyPatch, mark: str
) -> None:
    script = "echo first >&2; echo 'no such job' >&2; echo '{host}: bye' >&2; exit 3"
    said = failed(f'sh -c "{script}"', monkeypatch)
    assert said.startswith(
        "n1: 'sh' ended with exit code 3 before a shell started on the host: no such job; n1: bye. "
        "To see the cause, run: sh -c "
    )
    assert "\n" not in said


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("echo {host}", "'echo' ended with exit code 0 before a shell started on the host: it pri"),
        ("sh -c 'kill -9 $$' {host}", "'sh' ended with SIGKILL before a shell started on the host"),
        ("sh -c 'exec \"$@\" </dev/null' {host}", "'sh' did not pass the standard input to the h"),
        ("env PATH=/nonexistent {host}=1", "'env' ended with exit code 127 before"),
    ],
)
def test_a_command_that_starts_no_program_is_explained(
    template: str, message: str, monkeypatch: pytest.MonkeyPatch, mark: str
) -> None:
    assert failed(template, monkeypatch).startswith(f"n1: {message}")


def test_a_command_that_never_starts_has_a_deadline_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, mark: str
) -> None:
    script = "trap : TERM; echo 'job 7 queued' >&2; sleep 600 & while :; do wait; done"
    said = failed(f'sh -c "{script}" {{host}}', monkeypatch, 1.0)
    assert said.startswith("n1: 'sh' did not start a shell on the host within 1 s: job 7 queued. ")


def test_a_controller_with_more_files_than_select_takes_starts_commands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    held = [os.dup(0) for _ in range(1100)]
    try:
        assert "'false' ended with exit code 1" in failed("false {host}", monkeypatch)
    finally:
        for fd in held:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_an_interrupt_ends_a_command_that_is_starting(mark: str) -> None:
    via = Via(Template.parse("sh -c 'exec sleep 600' {host}"))
    failures: queue.SimpleQueue[LaunchError] = queue.SimpleQueue()

    def start() -> None:
        try:
            via.start(host(), "probe")
        except LaunchError as error:
            failures.put(error)

    thread = threading.Thread(target=start)
    thread.start()
    while not left(mark):
        pass
    via.close()
    thread.join(20.0)
    assert "ended with SIGTERM" in str(failures.get(timeout=1.0))
    with pytest.raises(LaunchError, match="interrupted"):
        via.start(host(), "probe")


def launched(folder: Path, *words: str) -> int:
    (folder / "hosts").write_text("n1\n")
    options = ["-n", "1", "-H", str(folder / "hosts"), "--style", "torch", "--interface", "lo"]
    return main([*options, *words, "--", "sh", "-c", "echo on $VIA_HOST $RANK"])


def test_a_script_is_launched_through_a_template(
    tmp_path: Path, mark: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert launched(tmp_path, "--via", HERE) == 0
    assert "on n1 0\n" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--via", "env A=1"), "--via: expected a command with {host}, got 'env A=1'. "),
        (("--via", HERE, "--accept-new"), "--accept-new: --via replaces SSH. Remove --accept-new "),
        (("--via", "env --token=abc {host}"), "--via: expected no secret, got '--token=***'. "),
    ],
)
def test_a_wrong_template_of_a_script_is_one_line(
    tmp_path: Path, words: tuple[str, ...], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert launched(tmp_path, *words) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"error: {message}")


def test_a_template_has_no_meaning_for_this_machine(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["-n", "1", "--launcher", "local", "--via", HERE, "true"]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("error: --via: expected --launcher ssh, got local, ")
