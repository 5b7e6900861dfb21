"""Programs on hosts that connect to the controller, over TLS."""

import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
import socket
import ssl
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.errors import is_whole, quoted
from launch.hosts import Host
from launch.remote import limits
from launch.remote.errors import LaunchError, ProtocolError, error_line
from launch.transport.join import (
    BYE,
    ERRORS,
    EXIT,
    HELLO,
    INPUT,
    MOST_HELLO,
    OUTPUT,
    SCRIPT,
    FrameStream,
    cut,
    limit_silence,
    prove,
)
from launch.transport.line import Line, new_mark, shell_command, sources, split
from launch.transport.protocol import clean

PREFIX = "dial:"
_FORM = re.compile(r"dial:([0-9]+):(.+)", re.DOTALL)
_PASS = re.compile(rb"mxscale1:[0-9a-f]{64}:[0-9a-f]{64}\n")
_PIECE_BYTES, _KEPT_BYTES = 1 << 16, 1 << 12
# Connections that have not proved who they are; of more, the oldest is closed.
MOST_UNPROVED = 64


@dataclass(frozen=True, kw_only=True)
class DialPlace:
    """Port on which hosts join, and the new file for their pass."""

    port: int
    file: Path

    @staticmethod
    def parse(text: str) -> "DialPlace":
        """Parse 'dial:PORT:FILE'; LaunchError if it is wrong."""
        found = _FORM.fullmatch(text)
        if found is None or not is_whole(found[1]) or not 1 <= int(found[1]) <= 65535:
            raise LaunchError(
                error_line(
                    "--via",
                    expected="dial:PORT:FILE with a port from 1 to 65535 and a new file",
                    got=quoted(text),
                    fix="Write it as in: --via dial:7777:join.pass",
                )
            )
        return DialPlace(port=int(found[1]), file=Path(found[2]))


class DialLine:
    """Connection to a program on a host that has joined."""

    def __init__(self, stream: FrameStream, program: str) -> None:
        self._stream = stream
        self._shell, self._mark = new_mark(), new_mark()
        self._received, self._errors, self._lost = b"", b"", ""
        self._begun, self.closed = False, False
        self._ended, self._closing = threading.Event(), threading.Lock()
        script = shell_command(self._shell, ". Install one there").encode()
        deadline = time.monotonic() + limits.CONNECT_SECONDS
        stream.send(SCRIPT, script, deadline)
        text = sources(program, self._mark)
        threading.Thread(target=self.write, args=(text,), daemon=True).start()

    def begin(self, seconds: float) -> str:
        """Wait until the program has started; return the reason if it has not."""
        deadline = time.monotonic() + seconds
        marks = [b"\n" + self._shell + b"\n", b"\n" + self._mark + b"\n"]
        piece: bytes | None = b""
        late = False
        while marks and piece is not None:
            before, mark, rest = self._received.partition(marks[0])
            if mark:
                self._received = b"\n" + rest
                marks.pop(0)
                continue
            try:
                piece = self._next(deadline)
            except TimeoutError:
                late = True
                break
            self._received = before[-_PIECE_BYTES:] + (piece or b"")
        self._begun = not marks
        if not marks:
            return ""
        missing = "Python" if len(marks) == 1 else "a shell"
        said = self.last_words()
        self.close(0.0)
        when = f"within {seconds:.0f} s" if late else "before its connection ended"
        problem = f"its joiner did not start {missing} {when}{f': {said}' if said else ''}"
        return error_line("", problem=problem, fix="Run python3 there to see the cause")

    @property
    def lost(self) -> bool:
        """Whether the connection ended before its program."""
        return bool(self._lost)

    def write(self, data: bytes) -> None:
        """Send bytes."""
        if data and not self.closed:
            with contextlib.suppress(OSError, ValueError):
                self._stream.send(INPUT, data)

    def lines(self, most: int) -> Iterator[bytes]:
        """Yield the lines that the program sends."""
        yield from split(self._pieces(), most)

    def _pieces(self) -> Iterator[bytes]:
        yield self._received.removeprefix(b"\n")
        self._received = b""
        while (piece := self._next(None)) is not None:
            yield piece

    def _next(self, deadline: float | None) -> bytes | None:
        """Return the next output; None at the end of the program or connection."""
        while True:
            try:
                found = self._stream.receive(deadline)
            except TimeoutError:
                raise
            except OSError as error:
                self._ended.set()
                raise ProtocolError(f"expected frames, got others ({error})") from error
            if found is None:
                self._lost = "the connection to its joiner was lost"
            if found is None or found[0] == EXIT:
                self._ended.set()
                return None
            if found[0] == ERRORS:
                self._errors = (self._errors + found[1])[-_KEPT_BYTES:]
            elif found[0] == OUTPUT:
                return found[1]
            else:
                raise ProtocolError("expected frames of a program, got others")

    def close(self, seconds: float) -> None:
        """Close the program's stdin, wait `seconds` for its end, and close the connection."""
        with self._closing:
            if self.closed:
                return
            self.closed = True
            if self._begun and seconds:
                with contextlib.suppress(OSError, ValueError):
                    self._stream.send(INPUT, b"", time.monotonic() + seconds)
                self._ended.wait(seconds)
            self._stream.close()

    def last_words(self) -> str:
        """Return its last line on stderr, or why the connection was lost."""
        text = self._errors.decode("utf-8", "replace").strip()
        return str(clean(text.splitlines()[-1]))[:300] if text else self._lost


@dataclass
class _Membership:
    """A host that has joined.

    next     token of its next connection
    waiting  its connection that waits for a program
    gone     whether its joiner did not connect again in time, or lost a connection
    """

    next: str = ""
    waiting: FrameStream | None = None
    gone: bool = False


@dataclass
class _Newcomers:
    sockets: OrderedDict[int, socket.socket] = field(default_factory=OrderedDict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, key: int, sock: socket.socket) -> None:
        """Take one more; shut down the oldest of too many."""
        with self.lock:
            self.sockets[key] = sock
            if len(self.sockets) > MOST_UNPROVED:
                _, oldest = self.sockets.popitem(last=False)
                cut(oldest)

    def drop(self, key: int) -> None:
        """Forget one."""
        with self.lock:
            self.sockets.pop(key, None)


class Dial:
    """Listener for hosts; `close` ends every joiner and removes the pass."""

    def __init__(self, place: DialPlace, names: Sequence[str]) -> None:
        self._changed = threading.Condition()
        self._hosts: dict[str, _Membership | None] = dict.fromkeys(names)
        self._lines: list[DialLine] = []
        self._closed, self._began = False, time.monotonic()
        self._secret, self._unproved = secrets.token_hex(32), _Newcomers()
        self.context, fingerprint = _context()
        self._listener = _listen(place.port)
        try:
            self._pass = PassFile(place.file, f"mxscale1:{fingerprint}:{self._secret}\n")
        except LaunchError:
            self._listener.close()
            raise
        threading.Thread(target=self._accept, daemon=True).start()

    def start(self, host: Host, program: str) -> Line:
        """Start one of mxscale's programs on a host; LaunchError if it does not start."""
        try:
            line = DialLine(self.connection(host.name), program)
        except OSError as error:
            raise _lost(host.name) from error
        with self._changed:
            self._lines = [*(one for one in self._lines if not one.closed), line]
        try:
            why = line.begin(limits.VIA_START_SECONDS)
        except ProtocolError as error:
            line.close(0.0)
            why = str(error)
        if why:
            with self._changed:
                joined = self._hosts[host.name]
                if joined is not None and line.lost:
                    joined.gone = True
            raise LaunchError(error_line(host.name, problem=why))
        return line

    def connection(self, name: str) -> FrameStream:
        """Wait for a connection of a host."""
        with self._changed:
            now, joined = time.monotonic(), self._hosts[name]
            until = now + limits.CONNECT_SECONDS
            if joined is None:
                until = max(until, self._began + limits.JOIN_SECONDS)
            elif joined.gone:
                until = now
            while not self._closed:
                joined = self._hosts[name]
                if joined is not None and joined.waiting is not None:
                    stream, joined.waiting = joined.waiting, None
                    return stream
                left = until - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            if self._closed:
                fix = "Run the same command again"
                raise LaunchError(error_line(name, problem="interrupted", fix=fix))
            if joined is not None:
                joined.gone = True
                raise _lost(name)
        problem = f"did not join within {limits.JOIN_SECONDS:.0f} s"
        fix = f"Start join.py there with the pass of {self._pass.path}"
        raise LaunchError(error_line(name, problem=problem, fix=fix))

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                if self._closed:
                    return
                time.sleep(0.1)  # too many open files
                continue
            try:
                threading.Thread(target=self._greet, args=(sock,), daemon=True).start()
            except RuntimeError:  # too many threads
                sock.close()

    def _greet(self, sock: socket.socket) -> None:
        key, stream = id(sock), None
        try:
            limit_silence(sock)
            deadline = time.monotonic() + limits.CONNECT_SECONDS
            tls = self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
            self._unproved.add(key, tls)
            stream = FrameStream(tls)
            stream.handshake(deadline)
            nonce = secrets.token_hex(32)
            stream.send(HELLO, json.dumps({"nonce": nonce}).encode(), deadline)
            found = stream.receive(deadline, MOST_HELLO)
            hello = json.loads(found[1]) if found and found[0] == HELLO else {}
            self._admit(stream, hello, nonce, deadline)
        except (OSError, ValueError, RecursionError):
            (stream or sock).close()
        finally:
            self._unproved.drop(key)

    def _admit(self, made: FrameStream, hello: object, nonce: str, deadline: float) -> None:
        stream: FrameStream | None = made
        name, given = _parsed(hello)
        token = secrets.token_hex(32)
        with self._changed:
            joined = self._hosts.get(name)
            again = joined is not None and _same(joined.next, given["next"])
            proved = again or _same(prove(self._secret, nonce, name), given["proof"])
            why = ""
            if not proved:
                why = "its token is wrong or was used before"
            elif name not in self._hosts:
                why = f"{name!a} is not among the controller's hosts. Give --name as listed there"
            elif joined is not None and not again:
                why = f"{name!a} has joined before. Start join.py once per host"
            elif self._closed:
                why = "the controller ends"
            else:
                self._hosts[name] = joined = joined or _Membership()
                joined.next, joined.gone = token, False
        answer = {"why": why} if why else {"next": token}
        made.send(HELLO, json.dumps(answer).encode(), deadline)
        if why or joined is None:
            made.close()
            return
        with self._changed:
            if not self._closed:
                stream, joined.waiting = joined.waiting, stream
                self._changed.notify_all()
        if stream is not None:  # the earlier one, or this one after the end
            _dismiss(stream)

    def close(self) -> None:
        """End every joiner and its programs, and remove the pass."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            waiting = [one.waiting for one in self._hosts.values() if one and one.waiting]
            lines = list(self._lines)
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for stream in waiting:
            _dismiss(stream)
        for line in lines:
            line.close(0.0)
        self._pass.close()


def _dismiss(stream: FrameStream) -> None:
    """End a joiner by its waiting connection."""
    with contextlib.suppress(OSError, ValueError):
        stream.send(BYE, b"", time.monotonic() + 1.0)
    stream.close()


def _lost(name: str) -> LaunchError:
    problem, fix = "its joiner has ended", "Run the same command and join.py again"
    return LaunchError(error_line(name, problem=problem, fix=fix))


def _parsed(hello: object) -> tuple[str, dict[str, str]]:
    """Return the name and the tokens of a first message; ValueError for another."""
    if not isinstance(hello, dict) or not isinstance(hello.get("name"), str):
        raise ValueError("no hello")  # noqa: TRY004 - as for other malformed text
    given = {key: hello.get(key, "") for key in ("proof", "next")}
    if not all(isinstance(one, str) for one in given.values()):
        raise ValueError("no tokens")
    return hello["name"], given


def _same(expected: str, given: str) -> bool:
    return bool(expected) and hmac.compare_digest(
        expected.encode(), given.encode("utf-8", "replace")
    )


def _listen(port: int) -> socket.socket:
    try:
        if socket.has_dualstack_ipv6():
            with contextlib.suppress(OSError):  # a network namespace without IPv6, or port in use
                return socket.create_server(
                    ("", port), family=socket.AF_INET6, backlog=128, dualstack_ipv6=True
                )
        return socket.create_server(("", port), backlog=128)
    except OSError as error:
        # The socket module adds the address to strerror.
        problem = f"the port cannot be used ({os.strerror(error.errno or 0)})"
        line = error_line(f"--via dial:{port}", problem=problem, fix="Choose another port")
        raise LaunchError(line) from None


class PassFile:
    """A new file that only its owner reads.

    It is locked as long as its controller runs, so a later one can replace a file that was left.
    """

    def __init__(self, file: Path, text: str) -> None:
        self.path = file.absolute()
        left = _left_pass(self.path)
        try:
            if left is not None:
                self.path.unlink()
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            self._fd = os.open(self.path, flags, 0o600)
        except OSError as error:
            raise LaunchError(
                error_line(
                    f"--via: {file}",
                    expected="a path for a new file",
                    problem=f"cannot be created ({error.strerror})",
                    fix="Remove it, or name another",
                )
            ) from None
        finally:
            if left is not None:
                os.close(left)
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(self._fd).st_mode & 0o077:
            self.close()
            problem, fix = "other users can read files there", "Name one on another file system"
            raise LaunchError(error_line(f"--via: {file}", problem=problem, fix=fix))
        os.write(self._fd, text.encode())

    def close(self) -> None:
        """Remove the file, unless another one has taken its place."""
        with contextlib.suppress(OSError):
            if os.path.samestat(self.path.lstat(), os.fstat(self._fd)):
                self.path.unlink()
        with contextlib.suppress(OSError):
            os.close(self._fd)


def _left_pass(file: Path) -> int | None:
    """Lock and return the descriptor of a killed controller's pass.

    None for another file. LaunchError if a running program has locked it.
    """
    try:
        if not stat.S_ISREG(file.lstat().st_mode):
            return None
        fd = os.open(file, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.fstat(fd)
        same = os.path.samestat(found, file.lstat()) and found.st_uid == os.geteuid()
        if same and _PASS.fullmatch(os.read(fd, _KEPT_BYTES)):
            return fd
    except BlockingIOError:
        os.close(fd)
        problem, fix = "another program uses this file", "Name another"
        raise LaunchError(error_line(f"--via: {file}", problem=problem, fix=fix)) from None
    except OSError:
        pass
    os.close(fd)
    return None


def _context() -> tuple[ssl.SSLContext, str]:
    """Return a TLS context with a new certificate, and its SHA-256."""
    from cryptography import x509  # noqa: PLC0415 - takes time to load
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "mxscale")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name)
    made = made.public_key(key.public_key()).serial_number(x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=60))
    certificate = made.sign(key, hashes.SHA256())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    encoding = serialization.Encoding.PEM
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    text = key.private_bytes(encoding, *plain) + certificate.public_bytes(encoding)
    # The ssl module reads keys from files only; this one is in memory.
    with os.fdopen(os.memfd_create("mxscale"), "wb") as file:
        file.write(text)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
    return context, hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest()
