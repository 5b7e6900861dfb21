"""One controller per host and user; no other user can interfere."""

import contextlib
import ctypes
import json
import multiprocessing
import os
import pwd
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launch.hosts import Host, Login, this_machine
from launch.job.agents import Agents
from launch.remote import lease, limits
from launch.remote.errors import LaunchError, PreflightError
from launch.remote.stop import end
from launch.stop import stop
from launch.transport.client import RemoteProgram
from launch.transport.line import FLAGS, LOADER, sources, start_local

pytestmark = pytest.mark.program
NOBODY = pwd.getpwnam("nobody").pw_uid
WHO = {"user": "ann", "master": "m1", "process": 7, "since": "now"}
two_users = pytest.mark.skipif(os.getuid() != 0, reason="needs root for a second user")


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """Enter a network namespace without other tests' leases; as root only."""
    libc, kind = ctypes.CDLL(None, use_errno=True), 0x40000000  # CLONE_NEWNET
    with Path("/proc/self/ns/net").open() as before:
        entered = libc.unshare(kind) == 0
        yield
        if entered:
            assert libc.setns(before.fileno(), kind) == 0


@pytest.fixture(autouse=True)
def own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other jobs of this machine have leases too."""
    monkeypatch.setattr(socket, "gethostname", lambda: f"test-{os.getpid()}")


def _hold(uid: int, words: list[bytes], text: bytes, ready: Any, listen: int) -> None:
    os.setuid(uid)
    held = []
    for word in words:
        one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        one.bind(b"\0" + word)
        if listen:
            one.listen(listen)
        held.append(one)
    ready.set()
    while text:
        connection, _ = held[0].accept()
        with connection, contextlib.suppress(BrokenPipeError):  # who asks may leave at once
            connection.sendall(text)
    time.sleep(600)


@contextmanager
def holding(*words: bytes, uid: int = NOBODY, text: bytes = b"", listen: int = 5) -> Iterator[int]:
    """Start another user's program with sockets of these names; yield its pid."""
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    child = context.Process(target=_hold, args=(uid, list(words), text, ready, listen))
    child.start()
    try:
        assert ready.wait(10)
        yield int(child.pid or 0)
    finally:
        child.kill()
        child.join()


def have() -> lease.Lease:
    """Return the free lease."""
    taken, _ = lease.take(WHO)
    assert taken is not None
    return taken


def likely(end: str = "0123456789abcdef") -> bytes:
    return f"mxscale-{socket.gethostname()}.lease.{end}".encode()


def test_a_lease_is_had_by_one_and_gone_with_it() -> None:
    first = have()
    with closing(first):
        assert lease.holder()["pid"] == os.getpid()
    assert lease.holder() == {}
    second, other = lease.take(WHO)
    assert (second is not None, other) == (True, {})
    second.close()


@contextmanager
def answering(taken: lease.Lease) -> Iterator[None]:
    """Answer requests for the lease, as an agent does."""
    over = threading.Event()

    def answer() -> None:
        while not over.wait(0.01):
            taken.answer()

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_second_controller_of_this_user_is_told_who_has_the_host() -> None:
    first = have()
    with closing(first), answering(first):
        taken, other = lease.take(WHO | {"user": "bob"})
        assert taken is None
        assert lease.described(other) == "ann on m1 (process 7) since now"


def test_of_two_that_come_at_once_one_has_the_host() -> None:
    program = (
        "import socket, sys, time; from launch.remote import lease\n"
        f"socket.gethostname = lambda: {socket.gethostname()!r}\n"
        "found, _ = lease.take({'user': 'u'}); print(bool(found), flush=True)\n"
        "end = time.monotonic() + 4\n"
        "while found and time.monotonic() < end: found.answer(); time.sleep(0.01)\n"
    )
    both = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [one.communicate(timeout=60)[0].strip() for one in both]
    assert said.count("True") <= 1, said


@two_users
@pytest.mark.parametrize("listen", [0, 1, 5])
def test_no_socket_of_another_user_keeps_a_controller_out(listen: int) -> None:
    names = [likely(f"{n:016x}") for n in range(50)]
    with holding(*names, listen=listen):
        began = time.monotonic()
        taken, other = lease.take(WHO)
        assert (taken is not None, other) == (True, {})
        assert time.monotonic() - began < 10
        taken.close()


def _crowd(uid: int, name: bytes, inherited: lease.Lease, ready: Any) -> None:
    inherited.close()  # or this process holds the lease too
    os.setuid(uid)
    held = []
    with contextlib.suppress(OSError):
        while True:
            one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            held.append(one)
            one.setblocking(False)
            one.connect(b"\0" + name)
    ready.set()
    time.sleep(600)


@two_users
def test_a_lease_that_another_user_crowds_is_still_held() -> None:
    """Even if others cannot connect, the kernel knows the owner."""
    taken = have()
    (name,) = lease.sockets()
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    child = context.Process(target=_crowd, args=(NOBODY, name, taken, ready))
    child.start()
    with closing(taken):
        assert ready.wait(10)
        assert lease.holder() == {"pid": os.getpid()}
        second, other = lease.take(WHO)
        assert (second, other) == (None, {"pid": os.getpid()})
        assert lease.others() == []
    child.kill()
    child.join()


@two_users
def test_another_user_is_named_by_the_kernel_whatever_it_says() -> None:
    forged = {**WHO, "user": "\x1b]0;t\x07root", "pid": os.getpid(), "user_there": "root"}
    with holding(likely(), text=json.dumps(forged).encode()) as pid:
        assert lease.holder() == {}
        assert lease.others() == [{"user": f"nobody (uid {NOBODY})", "pid": pid}]
        words = lease.listed(lease.others())
        assert words == f"nobody (uid {NOBODY}), process {pid}"


@two_users
def test_another_user_reads_no_lease_of_ours() -> None:
    taken = have()
    with closing(taken):
        (name,) = lease.sockets()
        ask = (
            "import os, socket; os.setuid(65534); s = socket.socket(socket.AF_UNIX)\n"
            f"s.connect(b'\\0' + {name!r}); print(s.recv(99))"
        )
        with subprocess.Popen(
            [sys.executable, "-c", ask], stdout=subprocess.PIPE, text=True
        ) as asking:
            while asking.poll() is None:
                taken.answer()
                time.sleep(0.02)
            assert asking.stdout.read() == "b''\n"


@pytest.mark.parametrize(
    "said", [b"", b"[" * 60000, b"[1]", b'{"user": 1, "process": "x", "pid": 1}', b"\xff"]
)
def test_an_answer_that_is_none_is_no_more_than_a_process(said: bytes) -> None:
    with holding(likely(), uid=os.getuid(), text=said) as pid:
        assert lease.holder() == {"pid": pid}
        assert f"process {pid} of this user" in lease.described(lease.holder())


@two_users
def test_stop_ends_no_process_of_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "END_BY_SIGNAL_SECONDS", 0.5)
    with holding(likely(), text=b'{"user": "root", "pid": 1}') as pid:
        assert end(lease.holder()) == {"owner": "", "left": False}
        os.kill(pid, 0)


@two_users
def test_stop_reports_leases_of_other_users_and_that_nothing_of_ours_runs() -> None:
    host = replace(this_machine(), name="node01")
    told: list[str] = []
    with holding(f"mxscale-{os.uname().nodename}.lease.0".encode()) as pid:
        assert stop([host], start_local, told.append) == 0
    (line,) = told
    assert line.startswith("node01: ")
    assert f"other users' leases are left alone: nobody (uid {NOBODY}), process {pid}" in line


@two_users
def test_a_probe_reports_leases_of_other_users() -> None:
    ask = {"do": "facts", "trees": ["~"], "python": "x", "folder": "/tmp", "variables": []}
    with (
        holding(f"mxscale-{os.uname().nodename}.lease.0".encode()) as pid,
        closing(RemoteProgram(this_machine(), start_local, "probe")) as program,
    ):
        facts = program.request(ask, 60.0, "facts")
    assert {"user": f"nobody (uid {NOBODY})", "pid": pid} in facts["others"]
    assert facts["holder"] == {}


def test_nothing_is_opened_where_all_users_may_write(tmp_path: Path) -> None:
    """The lease is not a file, so no link, pipe or folder can replace it."""
    source = Path(lease.__file__).read_text()
    assert "/dev/shm" not in source
    assert "/tmp" not in source
    assert source.count("open(") == 1  # of the kernel's list of sockets
    assert '"/proc/net/unix"' in source


def test_stop_ends_an_agent_that_is_held_with_all_that_it_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: os.uname().nodename)
    monkeypatch.setattr(limits, "END_BY_SIGNAL_SECONDS", 1.0)
    program = sources("agent")
    start = {"do": "start", "id": "w", "env": {}, "cwd": "/", "cores": []}
    start["argv"] = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(
        [sys.executable, *FLAGS, "-c", LOADER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as agent:
        agent.stdin.write(program)
        for message in ({"do": "lease", "owner": WHO}, start):
            agent.stdin.write(json.dumps(message).encode() + b"\n")
        agent.stdin.flush()
        pid = 0
        for text in agent.stdout:
            if b'"started"' in text:
                pid = json.loads(text)["pid"]
                break
        assert lease.holder() == {**WHO, "pid": agent.pid}
        holder = lease.holder()
        os.kill(agent.pid, signal.SIGSTOP)
        assert end(holder)["left"] is False
        agent.wait(20)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def remote() -> Host:
    return replace(this_machine(), name="node01", login=Login(host="node01"))


def test_the_second_agent_of_a_host_is_refused_with_the_first_ones_controller() -> None:
    with closing(Agents(start_local)) as first, closing(Agents(start_local)) as second:
        first.begin_job([remote()])
        with pytest.raises(PreflightError, match="node01: another controller uses this host: "):
            second.begin_job([remote()])


def test_a_program_that_finds_the_host_taken_is_a_launch_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lease, "take", lambda _: (None, {**WHO, "pid": 1}))
    with pytest.raises(LaunchError, match="another controller uses this host: ann on m1"):
        lease.hold(WHO)
