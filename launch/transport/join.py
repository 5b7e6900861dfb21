"""Joiner: lets a controller start its programs on this host, over TLS.

Run as `python3 join.py CONTROLLER PORT [--name NAME]`, once per host. It needs no other file. The
pass, which the controller wrote, comes from $MXSCALE_JOIN_PASS or is the first line of stdin.

Each connection carries frames: one byte of kind, four of length, and the data. The first frames are
JSON: {"nonce"} from the controller, {"name", "proof"} or {"name", "next"} to it, {"next"} or
{"why"} from it. `next` is the single-use token of the next connection. An accepted connection waits
for a script; then it carries the program's stdin, stdout and stderr.
"""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import argparse
import contextlib
import hashlib
import hmac
import json
import os
import select
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from typing import Any, NoReturn

PASS = "MXSCALE_JOIN_PASS"
MOST_HELLO = 4096
MOST_FRAME = 1 << 20
# Kinds of frames.
HELLO, SCRIPT, INPUT, OUTPUT, ERRORS, EXIT, BYE = range(7)
DEADLINE_SECONDS = 60.0
TRY_SECONDS, _RETRY_SECONDS, _ANSWER_SECONDS = 10.0, 0.5, 10.0
# An agent ends its processes within the first; what is left is killed.
_END_SECONDS, _GRACE_SECONDS = 8.0, 2.0
_PIECE = 1 << 16
_MOST_UNWRITTEN = 1 << 20
HEAD = struct.Struct("!BI")
# A resolver that does not answer, EAI_AGAIN, is asked again.
_NO_SUCH_NAME = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}
# What launchers of MPI and Slurm set for their own programs.
_FOREIGN = ("OMPI_", "PMIX_", "PMI_", "PMI2_", "MPI_", "HYDRA_", "PRTE_")


class JoinError(Exception):
    """The text is one line for the user."""


def prove(secret: str, nonce: str, name: str) -> str:
    """Return what a joiner of this name answers to a nonce."""
    text = json.dumps(["mxscale join", nonce, name]).encode()
    return hmac.new(bytes.fromhex(secret), text, hashlib.sha256).hexdigest()


class FrameStream:
    """Frames over a TLS socket; threads may read and write at once.

    OpenSSL's connections are not safe for two threads, so every call holds the lock.
    """

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self.sock, self._lock, self._writing = sock, threading.Lock(), threading.Lock()
        self.held = bytearray()
        sock.setblocking(False)

    def wait(self, write: bool, deadline: float | None) -> None:
        """Wait until the socket is ready, or for the deadline."""
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        fd = self.sock.fileno()
        if fd < 0:
            raise OSError("closed")
        poll = select.poll()
        poll.register(fd, select.POLLOUT if write else select.POLLIN)
        poll.poll(None if left is None else left * 1000)

    def handshake(self, deadline: float) -> None:
        """Complete the TLS handshake."""
        self._retry(self.sock.do_handshake, deadline)

    def _retry(self, act: Any, deadline: float | None) -> Any:
        while True:
            # Here, because the other end can keep the socket ready for ever.
            if deadline is not None and time.monotonic() >= deadline:
                raise socket.timeout("timed out")  # noqa: UP041 - Python 3.8 to 3.9
            try:
                with self._lock:
                    return act()
            except ssl.SSLWantReadError:
                self.wait(False, deadline)
            except ssl.SSLWantWriteError:
                self.wait(True, deadline)

    def send(self, kind: int, data: bytes = b"", deadline: float | None = None) -> None:
        """Send frames of one kind, split to the largest size; OSError if it is closed."""
        with self._writing:
            for at in range(0, max(1, len(data)), MOST_FRAME):
                piece = data[at : at + MOST_FRAME]
                left = memoryview(HEAD.pack(kind, len(piece)) + piece)
                while left:
                    part = left[:_PIECE]
                    left = left[self._retry(lambda part=part: self.sock.send(part), deadline) :]

    def feed(self) -> bool:
        """Read what has come without waiting; return False at the end."""
        while True:
            try:
                with self._lock:
                    piece = self.sock.recv(_PIECE)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return True
            except (OSError, ValueError):
                return False
            if not piece:
                return False
            self.held += piece
            if len(self.held) > MOST_FRAME:
                return True

    def frame(self, most: int = MOST_FRAME) -> tuple[int, bytes] | None:
        """Return the next held frame, or None; OSError for one that is too long."""
        if len(self.held) < HEAD.size:
            return None
        kind, size = HEAD.unpack_from(self.held)
        if size > most:
            raise OSError("a frame is too long")
        end = HEAD.size + size
        if len(self.held) < end:
            return None
        data = bytes(self.held[HEAD.size : end])
        del self.held[:end]
        return kind, data

    def receive(
        self, deadline: float | None = None, most: int = MOST_FRAME
    ) -> tuple[int, bytes] | None:
        """Wait for a frame; None at the end, TimeoutError after the deadline."""
        while True:
            found = self.frame(most)
            if found is not None:
                return found
            try:
                piece = self._retry(lambda: self.sock.recv(_PIECE), deadline)
            except socket.timeout:  # noqa: UP041 - Python 3.8 to 3.9
                raise
            except (OSError, ValueError):
                return None
            if not piece:
                return None
            self.held += piece

    def close(self) -> None:
        """Close it; a thread that waits for it sees the end."""
        cut(self.sock)
        with self._lock, contextlib.suppress(OSError):
            self.sock.close()


def cut(sock: socket.socket) -> None:
    """End a connection for every thread that uses it.

    SSLSocket's own shutdown would leave TLS first: another thread could then send plain text.
    """
    with contextlib.suppress(OSError):
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


def limit_silence(sock: socket.socket) -> None:
    """Make a connection end soon after its other end is gone."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 2), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3)):
        sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 8000)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class Joiner:
    """This host's connections to a controller."""

    def __init__(self, controller: str, port: int, name: str, given: str) -> None:
        where = f"the pass ({PASS}, else the first line of stdin)"
        parts = given.split(":")
        digits = "0123456789abcdef"
        if (
            len(parts) != 3
            or parts[0] != "mxscale1"
            or any(len(one) != 64 or one.strip(digits) for one in parts[1:])
        ):
            got = "other text" if given else "none"
            raise JoinError(f"{where}: expected the line that the controller wrote, got {got}")
        self.controller, self.port, self.name = controller, port, name
        self.fingerprint, self.secret = parts[1:]
        self.next = ""
        self.programs: list[threading.Thread] = []
        self.over = threading.Event()

    @property
    def where(self) -> str:
        """The controller, as the user names it."""
        return f"{self.controller} port {self.port}"

    def connect(self, deadline: float) -> FrameStream:
        """Return an accepted connection; JoinError if there is none by the deadline."""
        announced = False
        while True:
            try:
                return self._connect(deadline)
            except (OSError, ValueError) as error:
                why = str(getattr(error, "strerror", "") or error or type(error).__name__)
                if getattr(error, "errno", None) in _NO_SUCH_NAME:
                    raise JoinError(f"{self.controller}: cannot be resolved ({why})") from error
            if self.next or time.monotonic() + _RETRY_SECONDS > deadline:
                problem = "{}: cannot be reached within {:.0f} s ({})"
                raise JoinError(problem.format(self.where, DEADLINE_SECONDS, why))
            if not announced:
                announced, waiting = True, "join.py: waiting up to {:.0f} s for {} ({})"
                print(waiting.format(DEADLINE_SECONDS, self.where, why), file=sys.stderr)
                sys.stderr.flush()
            time.sleep(_RETRY_SECONDS)

    def _connect(self, deadline: float) -> FrameStream:
        plain = self._reach(deadline)
        deadline = min(deadline, time.monotonic() + TRY_SECONDS)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # The certificate is checked by its fingerprint, below, before anything is sent.
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.options |= ssl.OP_NO_RENEGOTIATION
        stream = None
        try:
            limit_silence(plain)
            stream = FrameStream(context.wrap_socket(plain, do_handshake_on_connect=False))
            stream.handshake(deadline)
            self._log_in(stream, deadline)
        except BaseException:
            (stream or plain).close()
            raise
        return stream

    def _reach(self, deadline: float) -> socket.socket:
        """Connect to the first of the controller's addresses that answers."""
        error = OSError("has no address")
        for family, kind, number, _, address in socket.getaddrinfo(
            self.controller, self.port, 0, socket.SOCK_STREAM
        ):
            made = socket.socket(family, kind, number)
            try:
                made.settimeout(max(0.1, min(TRY_SECONDS, deadline - time.monotonic())))
                made.connect(address)
            except OSError as found:
                made.close()
                error = found
            else:
                return made
        raise error

    def _log_in(self, stream: FrameStream, deadline: float) -> None:
        certificate = stream.sock.getpeercert(binary_form=True) or b""
        if not hmac.compare_digest(hashlib.sha256(certificate).hexdigest(), self.fingerprint):
            raise JoinError(
                self.where + ": its certificate is not the one of the pass; nothing was sent. "
                "Use the pass that this controller wrote"
            )
        nonce = self._answer(stream, deadline)["nonce"]
        hello = {"name": self.name}
        if self.next:
            hello["next"] = self.next
        else:
            hello["proof"] = prove(self.secret, str(nonce), self.name)
        stream.send(HELLO, json.dumps(hello).encode(), deadline)
        answer = self._answer(stream, deadline)
        if "why" in answer:
            why = "".join(c if c.isprintable() else " " for c in str(answer["why"]))
            raise JoinError(f"{self.where}: refused this host: {why[:300]}")
        self.next = str(answer["next"])

    def _answer(self, stream: FrameStream, deadline: float) -> dict[str, Any]:
        found = stream.receive(deadline, MOST_HELLO)
        if found is None:
            raise OSError("closed the connection")
        answer = json.loads(found[1])
        if not isinstance(answer, dict) or not answer.keys() & {"nonce", "next", "why"}:
            raise OSError("is no controller of mxscale")
        return answer

    def serve(self) -> None:
        """Start a program on each connection in turn, until the controller ends."""
        stream = self.connect(time.monotonic() + DEADLINE_SECONDS)
        try:
            while True:
                found = stream.receive()
                if found is None:
                    raise JoinError(self.where + ": the connection was lost")
                if found[0] == BYE:
                    return
                if found[0] != SCRIPT:
                    raise JoinError(self.where + ": broke the protocol")
                program = threading.Thread(target=self._run, args=(stream, found[1].decode()))
                self.programs.append(program)
                program.start()
                stream = self.connect(time.monotonic() + _ANSWER_SECONDS)
        finally:
            stream.close()

    def close(self) -> None:
        """End every program, and wait for their ends."""
        self.over.set()
        for one in self.programs:
            one.join()

    def _run(self, stream: FrameStream, script: str) -> None:
        env = {k: v for k, v in os.environ.items() if not k.startswith(_FOREIGN) and k != PASS}
        here, there = stream.sock.getsockname()[:2], stream.sock.getpeername()[:2]
        # As sshd sets it: by these addresses the controller and this host see each other.
        env["SSH_CONNECTION"] = "{} {} {} {}".format(*there, *here)
        pipe = subprocess.PIPE
        child = subprocess.Popen(
            ["/bin/sh", "-c", script],
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env=env,
            start_new_session=True,
        )
        try:
            with contextlib.suppress(OSError, ValueError):
                self._relay(stream, child)
            _end(child)
            with contextlib.suppress(OSError, ValueError):
                code = str(child.returncode).encode()
                stream.send(EXIT, code, time.monotonic() + _GRACE_SECONDS)
        finally:
            _end(child)
            stream.close()

    def _relay(  # noqa: PLR0912 - one loop over four streams
        self, stream: FrameStream, child: subprocess.Popen[bytes]
    ) -> None:
        """Copy between a connection and a program until either ends."""
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        stdin = child.stdin.fileno()
        os.set_blocking(stdin, False)
        kinds = {child.stdout.fileno(): OUTPUT, child.stderr.fileno(): ERRORS}
        unwritten, ended = bytearray(), False
        fd = stream.sock.fileno()
        while kinds and not self.over.is_set():
            while not ended:
                found = stream.frame()
                if found is None:
                    break
                if found[0] != INPUT:
                    return
                unwritten += found[1]
                ended = not found[1]
            if ended and not unwritten and not child.stdin.closed:
                child.stdin.close()
            poll = select.poll()
            for one in kinds:
                poll.register(one, select.POLLIN)
            poll.register(fd, select.POLLIN if len(unwritten) < _MOST_UNWRITTEN else 0)
            if unwritten and not child.stdin.closed:
                poll.register(stdin, select.POLLOUT)
            for ready, _ in poll.poll(250):
                if ready == fd:
                    if not stream.feed():
                        return
                elif ready == stdin:
                    try:
                        del unwritten[: os.write(stdin, unwritten[:_PIECE])]
                    except BlockingIOError:
                        pass
                    except OSError:
                        unwritten.clear()
                        ended = True
                else:
                    piece = os.read(ready, _PIECE)
                    if piece:
                        stream.send(kinds[ready], piece)
                    else:
                        del kinds[ready]


def _end(child: subprocess.Popen[bytes]) -> None:
    """Close a program's stdin, wait for its end, and kill what is left of its group."""
    if child.returncode is not None:
        return
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    for seconds, number in ((_END_SECONDS, signal.SIGTERM), (_GRACE_SECONDS, signal.SIGKILL)):
        deadline = time.monotonic() + seconds
        while _runs(child) and time.monotonic() < deadline:
            time.sleep(0.02)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, number)
    child.wait()


def _runs(child: subprocess.Popen[bytes]) -> bool:
    """Whether it runs. An ended one is not reaped: its group keeps its number."""
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None


class _EndedError(Exception):
    """A signal ended this process."""


def _ended(number: int, _: object) -> None:
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    raise _EndedError("ended by " + signal.Signals(number).name)


class Parser(argparse.ArgumentParser):
    """Parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Exit with 1 and the message."""
        self.exit(1, f"error: join.py: {message}. See join.py --help\n")


def _port(text: str) -> int:
    """Return a port; ArgumentTypeError if it is none."""
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 16):
        raise argparse.ArgumentTypeError(f"expected 1 to 65535, got {text!r}")
    return int(text)


def _first_line(deadline: float) -> str:
    """Return the first line of stdin; JoinError if there is none by the deadline."""
    data, poll = b"", select.poll()
    poll.register(0, select.POLLIN)
    while b"\n" not in data and len(data) < MOST_HELLO:
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise JoinError(
                f"the pass: expected {PASS} or a first line of stdin, got neither within "
                f"{DEADLINE_SECONDS:.0f} s"
            )
        try:
            piece = os.read(0, MOST_HELLO)
        except OSError:  # closed
            break
        if not piece:
            break
        data += piece
    return data.partition(b"\n")[0].decode("utf-8", "replace")


def main() -> int:
    """Join a controller; 0 once it has ended, else 1 and one line on stderr."""
    parser = Parser(prog="join.py", description=__doc__.split("\n")[0])
    parser.add_argument("controller", help="name or address of the controller")
    parser.add_argument("port", type=_port, help="port of its --via dial:PORT:FILE")
    parser.add_argument("--name", default=socket.gethostname(), help="this host in its list")
    given = parser.parse_args()
    joiner = None
    try:
        for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(name, _ended)
        text = os.environ.get(PASS) or _first_line(time.monotonic() + DEADLINE_SECONDS)
        joiner = Joiner(given.controller, given.port, given.name, text.strip())
        joiner.serve()
    except (JoinError, _EndedError) as error:
        print(f"error: join.py: {error}", file=sys.stderr)
        return 1
    finally:
        if joiner is not None:
            joiner.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
