"""Hosts that join a controller: tokens, names, ends and hostile connections."""

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from launch.hosts import Host, HostOptions, Login
from launch.job.agents import Agents
from launch.job.plan import Process
from launch.remote import limits
from launch.remote.errors import LaunchError
from launch.setup import listed_hosts, reached
from launch.transport import dial, join
from launch.transport.client import RemoteProgram
from launch.transport.dial import Dial, DialPlace, PassFile
from launch.transport.join import PASS, FrameStream, Joiner, JoinError, prove
from tests.support.hosts.marks import MARK, left
from tests.support.paths import ROOT
from tests.support.programs.pythons import pythons

PASS_LINE = f"mxscale1:{'0' * 64}:{'0' * 64}\n"
JOIN = ROOT / "launch" / "transport" / "join.py"


def host(name: str = "n1") -> Host:
    return Host(name=name, address="127.0.0.1", cpus=1, gpus=0, login=Login(host=name))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class Lab:
    """A controller for the hosts n1 and n2, and joiners on this machine."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.file, self.port, self._stack = folder / "pass", free_port(), stack
        self.dial = Dial(DialPlace(port=self.port, file=self.file), ["n1", "n2"])
        stack.callback(self.dial.close)
        self.text = self.file.read_text().strip()

    def joiner(
        self,
        name: str,
        text: str = "",
        *,
        stdin: bool = False,
        python: str = sys.executable,
        address: str = "127.0.0.1",
    ) -> subprocess.Popen[str]:
        text = text or self.text
        made = subprocess.Popen(
            [python, str(JOIN), address, str(self.port), "--name", name],
            env={**os.environ, **({} if stdin else {PASS: text})},
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._stack.callback(self._end, made)
        if made.stdin is not None:
            made.stdin.write(text + "\n")
            made.stdin.close()
            made.stdin = None
        return made

    @staticmethod
    def _end(joiner: subprocess.Popen[str]) -> None:
        if joiner.poll() is None:
            joiner.terminate()
        joiner.wait()
        if joiner.stderr is not None:
            joiner.stderr.close()

    def refused(self, name: str, text: str = "") -> str:
        joiner = self.joiner(name, text)
        said = joiner.communicate(timeout=60)[1]
        assert joiner.returncode == 1
        (line,) = said.splitlines()
        assert line.startswith("error: join.py: ")
        return line

    def stream(self) -> FrameStream:
        """Return a TLS connection that has proved nothing."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        plain = socket.create_connection(("127.0.0.1", self.port))
        made = FrameStream(context.wrap_socket(plain, do_handshake_on_connect=False))
        self._stack.callback(made.close)
        made.handshake(time.monotonic() + 20)
        return made

    def hello(self, stream: FrameStream, **message: object) -> dict[str, str]:
        stream.send(join.HELLO, json.dumps(message).encode())
        found = stream.receive(time.monotonic() + 20)
        return {} if found is None else dict(json.loads(found[1]))

    def nonce(self, stream: FrameStream) -> str:
        found = stream.receive(time.monotonic() + 20)
        assert found is not None
        return str(json.loads(found[1])["nonce"])


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.setenv(MARK, str(tmp_path))
    with ExitStack() as stack:
        yield Lab(tmp_path, stack)
    assert left(str(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []


def answer(lab: Lab, name: str = "n1") -> dict[str, object]:
    with closing(RemoteProgram(host(name), lab.dial.start, "probe")) as program:
        return program.request({"do": "where"}, 20.0, "where")


def test_programs_start_on_a_host_that_joined_and_all_end_with_the_controller(lab: Lab) -> None:
    assert lab.file.stat().st_mode & 0o777 == 0o600
    joiner = lab.joiner("n1", stdin=True)
    assert answer(lab)["reached"] == ["127.0.0.1"]
    assert answer(lab)["reached"] == ["127.0.0.1"]
    secret = lab.text.rpartition(":")[2]
    assert secret.encode() not in Path(f"/proc/{joiner.pid}/cmdline").read_bytes()
    lab.dial.close()
    assert joiner.communicate(timeout=30)[1] == ""
    assert joiner.returncode == 0
    assert not lab.file.exists()


def test_a_joiner_runs_on_the_oldest_python_of_hosts(lab: Lab) -> None:
    joiner = lab.joiner("n1", python=pythons()[0])
    assert answer(lab)["reached"] == ["127.0.0.1"]
    lab.dial.close()
    assert joiner.communicate(timeout=30)[1] == ""
    assert joiner.returncode == 0


def test_the_pods_of_the_page_run_the_joiner_with_its_variable() -> None:
    page = (ROOT / "docs" / "how-to" / "dial-in.md").read_text()
    (found,) = re.findall(r"^ +command: \[(.*)\]$", page, re.MULTILINE)
    python, file, address, port = found.replace('"', "").split(", ")
    assert (python, address, port) == ("python3", "192.0.2.1", "7777")
    assert ROOT / file == JOIN
    assert re.findall(r"env:\n +- name: (\w+)", page) == [PASS]


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (join.OUTPUT, "n1: its joiner did not start a shell within 0 s"),
        (join.ERRORS, "n1: its joiner did not start a shell within 0 s"),
        (99, "n1: expected frames of a program, got others"),
    ],
)
def test_a_host_that_floods_its_connection_has_a_deadline(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, kind: int, why: str
) -> None:
    monkeypatch.setattr(limits, "VIA_START_SECONDS", 0.2)
    stream = lab.stream()
    proof = prove(lab.text.rpartition(":")[2], lab.nonce(stream), "n1")
    assert "next" in lab.hello(stream, name="n1", proof=proof)

    def flood() -> None:
        with suppress(OSError, ValueError):
            while True:
                stream.send(kind)

    flooding = threading.Thread(target=flood)
    flooding.start()
    with pytest.raises(LaunchError, match=why):
        lab.dial.start(host(), "probe")
    flooding.join()


def test_no_connection_can_be_renegotiated(lab: Lab) -> None:
    assert lab.dial.context.options & ssl.OP_NO_RENEGOTIATION


def test_a_controller_with_an_address_that_drops_packets_is_reached_by_another(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join, "TRY_SECONDS", 1.0)
    with ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(full.getsockname())
        ports = (full.getsockname()[1], lab.port)
        found = [one for port in ports for one in socket.getaddrinfo("127.0.0.1", port, type=1)]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_: found)
        joiner = Joiner("controller", lab.port, "n1", lab.text)
        with closing(joiner.connect(time.monotonic() + 4)):
            lab.dial.connection("n1").close()


def test_a_wrong_token_is_refused_in_one_line(lab: Lab) -> None:
    wrong = lab.text[:-64] + "0" * 64
    assert "refused this host: its token is wrong or was used before" in lab.refused("n1", wrong)
    assert "expected the line that the controller wrote" in lab.refused("n1", "abc")


def test_nothing_is_sent_to_another_certificate(lab: Lab) -> None:
    other = "mxscale1:" + "0" * 64 + lab.text[-65:]
    assert "its certificate is not the one of the pass; nothing was sent" in lab.refused(
        "n1", other
    )


def test_a_name_joins_once_and_only_if_it_is_listed(lab: Lab) -> None:
    lab.joiner("n1")
    answer(lab)
    assert "'n1' has joined before" in lab.refused("n1")
    assert "'n3' is not among the controller's hosts" in lab.refused("n3")
    assert answer(lab)["reached"] == ["127.0.0.1"]


def test_what_was_sent_once_joins_nobody_again(lab: Lab) -> None:
    secret = lab.text.rpartition(":")[2]
    first, second, third, fourth = (lab.stream() for _ in range(4))
    proof = prove(secret, lab.nonce(first), "n1")
    lab.nonce(second)
    assert "token" in lab.hello(second, name="n1", proof=proof)["why"]
    token = lab.hello(first, name="n1", proof=proof)["next"]
    lab.nonce(third)
    assert lab.hello(third, name="n1", next=token).keys() == {"next"}
    lab.nonce(fourth)
    assert "used before" in lab.hello(fourth, name="n1", next=token)["why"]
    fifth = lab.stream()
    lab.nonce(fifth)
    assert "token" in lab.hello(fifth, name="n2", next="")["why"]


@pytest.mark.parametrize(
    "data",
    [
        join.HEAD.pack(join.HELLO, 1 << 30),
        join.HEAD.pack(join.HELLO, 2) + b"[]",
        join.HEAD.pack(join.HELLO, 4000) + b"[" * 4000,
        join.HEAD.pack(join.HELLO, 26) + b'{"name":"n1","proof":[[]]}',
    ],
)
def test_a_first_message_of_another_form_ends_its_connection_only(lab: Lab, data: bytes) -> None:
    stream = lab.stream()
    lab.nonce(stream)
    stream.sock.send(data)
    assert stream.receive(time.monotonic() + 20) is None
    lab.joiner("n1")
    answer(lab)


def test_connections_that_say_nothing_keep_no_host_out(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dial, "MOST_UNPROVED", 4)
    with ExitStack() as stack:
        silent = [socket.create_connection(("127.0.0.1", lab.port)) for _ in range(20)]
        for one in silent:
            stack.enter_context(one)
        lab.joiner("n1")
        answer(lab)
        silent[0].settimeout(20.0)
        with suppress(ConnectionResetError):
            assert silent[0].recv(1) == b""


def test_a_silent_connection_has_a_deadline(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CONNECT_SECONDS", 0.2)
    with socket.create_connection(("127.0.0.1", lab.port), 20.0) as silent:
        assert silent.recv(1) == b""


def test_a_joiner_that_is_killed_loses_its_host_and_leaves_no_process(lab: Lab) -> None:
    joiner = lab.joiner("n1")
    code = "import time; print('here', flush=True); time.sleep(600)"
    process = Process(host=host(), role="worker", index=0, argv=(sys.executable, "-c", code))
    with closing(Agents(lab.dial.start)) as agents:
        agents.begin_job([host()])
        agents.start(process, "")
        while (message := agents.receive(20.0)) is not None and message.say != "output":
            pass
        joiner.kill()
        while (message := agents.receive(20.0)) is not None and message.say != "lost":
            pass
        assert message is not None
        assert "the connection to its joiner was lost" in message.values["why"]
    deadline = time.monotonic() + 30
    while left(str(lab.file.parent)) and time.monotonic() < deadline:
        time.sleep(0.05)


def test_a_joiner_that_ended_is_waited_for_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    joiner = lab.joiner("n1")
    answer(lab)
    joiner.kill()
    joiner.wait()
    monkeypatch.setattr(limits, "CONNECT_SECONDS", 1.0)
    began = time.monotonic()
    for _ in range(20):
        with pytest.raises(LaunchError, match=r"its joiner has ended|did not start a shell"):
            lab.dial.start(host(), "probe")
    assert time.monotonic() - began < 10


def test_a_host_joins_over_ipv6(lab: Lab) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("needs IPv6")
    joiner = lab.joiner("n1", address="::1")
    assert answer(lab)["say"] == "where"
    lab.dial.close()
    assert (joiner.wait(30), joiner.stderr and joiner.stderr.read()) == (0, "")


def test_a_joiner_whose_controller_is_lost_says_so(lab: Lab) -> None:
    joiner = lab.joiner("n1")
    stream = lab.dial.connection("n1")
    stream.close()
    assert joiner.communicate(timeout=30)[1] == (
        f"error: join.py: 127.0.0.1 port {lab.port}: the connection was lost\n"
    )


def test_a_joiner_that_is_ended_says_so(lab: Lab) -> None:
    joiner = lab.joiner("n1")
    answer(lab)
    joiner.terminate()
    assert joiner.communicate(timeout=30)[1] == "error: join.py: ended by SIGTERM\n"
    assert joiner.returncode == 1


def test_a_controller_that_is_not_there_has_a_deadline(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(join, "DEADLINE_SECONDS", 1.0)
    text = ":".join(("mxscale1", "0" * 64, "0" * 64))
    with pytest.raises(JoinError, match=r"cannot be reached within 1 s \(Connection refused\)"):
        Joiner("127.0.0.1", port := free_port(), "n1", text).serve()
    assert capsys.readouterr().err == (
        f"join.py: waiting up to 1 s for 127.0.0.1 port {port} (Connection refused)\n"
    )


def test_a_name_that_does_not_exist_fails_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unknown(*_: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    text = ":".join(("mxscale1", "0" * 64, "0" * 64))
    with pytest.raises(JoinError, match=r"^no-such: cannot be resolved \(Name or service not kno"):
        Joiner("no-such", 7777, "n1", text).serve()
    assert capsys.readouterr().err == ""


def test_a_host_that_does_not_join_is_named(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "JOIN_SECONDS", 0.1)
    monkeypatch.setattr(limits, "CONNECT_SECONDS", 0.1)
    with pytest.raises(LaunchError, match=r"n2: did not join within 0 s. Start join.py there"):
        lab.dial.start(host("n2"), "probe")


@pytest.mark.parametrize("kind", ["link", "link to a pass", "fifo", "folder", "text", "empty"])
def test_a_pass_is_written_to_a_new_file_only(tmp_path: Path, kind: str) -> None:
    file, other = tmp_path / "pass", tmp_path / "other"
    if kind.startswith("link"):
        file.symlink_to(other)
    if kind == "link to a pass":
        other.write_text(PASS_LINE)
    elif kind == "fifo":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    elif kind != "link":
        file.write_text({"text": PASS_LINE + "more", "empty": ""}[kind])
    before = file.lstat()
    with pytest.raises(LaunchError, match=r"expected a path for a new file"):
        PassFile(file, "new")
    assert os.path.samestat(before, file.lstat())
    assert other.exists() == (kind == "link to a pass")


def test_the_pass_of_a_killed_controller_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "pass"
    file.write_text(PASS_LINE)
    file.chmod(0o600)
    with closing(PassFile(file, PASS_LINE.replace("0", "1"))):
        assert file.read_text() == PASS_LINE.replace("0", "1")
    assert not file.exists()


def test_the_pass_of_a_running_controller_stays(tmp_path: Path) -> None:
    file = tmp_path / "pass"
    with closing(PassFile(file, PASS_LINE)):
        with pytest.raises(LaunchError, match=r"another program uses this file. Name another"):
            PassFile(file, "new")
        assert file.read_text() == PASS_LINE


def test_a_pass_that_others_could_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(path: Path, flags: int, mode: int = 0o777) -> int:
        fd = os_open(path, flags, mode)
        os.fchmod(fd, 0o644)  # as a file system without permissions shows it
        return fd

    os_open = os.open
    monkeypatch.setattr(os, "open", opened)
    with pytest.raises(LaunchError, match=r"other users can read files there. Name one on"):
        PassFile(tmp_path / "pass", PASS_LINE)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("via", ["dial:", "dial:7777", "dial:0:x", "dial:70000:x", "dial:a:x"])
def test_a_wrong_place_is_one_line(via: str) -> None:
    with pytest.raises(LaunchError, match=r"--via: expected dial:PORT:FILE with a port from 1"):
        listed_hosts(HostOptions(hosts="n1:1", via=via))


@pytest.mark.parametrize(("names", "said"), [("n1:1", "1 host to"), ("n1:1,n2:1", "2 hosts to")])
def test_the_note_on_waiting_counts_the_hosts(
    names: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    via = f"dial:{free_port()}:{tmp_path / 'pass'}"
    with reached(HostOptions(hosts=names, via=via)):
        pass
    assert f"note: waiting for {said} join; their pass: " in capsys.readouterr().err


def test_a_port_in_use_is_one_line_and_leaves_no_pass(tmp_path: Path) -> None:
    with socket.create_server(("", 0)) as server:
        via = f"dial:{server.getsockname()[1]}:{tmp_path / 'pass'}"
        options = HostOptions(hosts="n1:1", via=via)
        with pytest.raises(LaunchError, match=r"\(Address already in use\)\."), reached(options):
            pass
    assert list(tmp_path.iterdir()) == []


def test_options_of_ssh_are_refused() -> None:
    with pytest.raises(LaunchError, match="--accept-new: --via replaces SSH"):
        listed_hosts(HostOptions(hosts="n1:1", via="dial:7777:x", accept_new=True))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "the following arguments are required: controller, port"),
        (["192.0.2.1", "99999"], "expected 1 to 65535, got '99999'"),
        (["192.0.2.1", "7777"], "expected the line that the controller wrote, got none"),
    ],
)
def test_wrong_words_of_a_joiner_are_one_line(words: list[str], said: str) -> None:
    done = subprocess.run(
        [sys.executable, JOIN, *words],
        input="",
        env={},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1
    assert line.startswith("error: join.py: ")
    assert said in line


@pytest.mark.parametrize(
    ("stdin", "said"),
    [("</dev/null", "got none"), ("<&-", "got none"), (r"<<<$'\xff\xfe'", "got other text")],
)
def test_a_stdin_without_a_pass_is_one_line(stdin: str, said: str) -> None:
    command = f"exec {sys.executable} {JOIN} 127.0.0.1 7777 {stdin}"
    done = subprocess.run(
        ["bash", "-c", command], env={}, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert said in done.stderr


def test_a_pass_that_does_not_come_has_a_deadline(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reader, writer = os.pipe()
    saved = os.dup(0)
    try:
        os.dup2(reader, 0)
        monkeypatch.setattr(join, "DEADLINE_SECONDS", 0.2)
        monkeypatch.delenv(PASS, raising=False)
        monkeypatch.setattr(sys, "argv", ["join.py", "127.0.0.1", "7777"])
        monkeypatch.setattr(signal, "signal", lambda *_: None)
        assert join.main() == 1
    finally:
        os.dup2(saved, 0)
        for fd in (reader, writer, saved):
            os.close(fd)
    assert "or a first line of stdin, got neither within 0 s" in capsys.readouterr().err
