"""Receiver: writes files into a folder of a host, or compares existing ones.

Both sides send lines of JSON; the bytes of a file follow their line.

    to it    {"do": "take", "into", "exact", "verify", "owner",
              "files": [[name, size, mtime_ns, mode, link], ...]}
             {"do": "keep", "at"} | {"do": "file", "at", "from"} | {"do": "data", "bytes"} and so
             many bytes | {"do": "end", "crc"} | {"do": "finish"} | {"do": "beat"}
             {"do": "compare", "into", "files": [[name, size, crc or null], ...], "others"}
    from it  {"say": "has", "files"}, with "same", {"crc"}, {"part", "crc"} or null for each
             | "finished" | "failed" why | "beat" done total
             | "compared" differs strange

With `verify` every file is read, even if an earlier push recorded it.
A file grows in a sibling until it is complete, so that the next push resumes an interrupted one.
"""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import contextlib
import errno
import hashlib
import json
import os
import re
import select
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from launch.remote import commands, files, lease, limits
from launch.remote.commands import NOTHING
from launch.remote.errors import LaunchError, ProtocolError, error_line
from launch.remote.files import (
    CHUNK,
    STATE,
    PushedFile,
    PushState,
    encoded,
    entries,
    is_noted,
    shown,
)

# The longest line lists files, with some 200 bytes each.
_AGAIN = "Run the same command again to resume"
_MOST_LINE = 1 << 30


class MasterLine:
    """Stdin and stdout, with a heartbeat per second on `done` of `total` bytes."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._saying = threading.Lock()
        self.done = self.total = 0
        self._silent = False
        threading.Thread(target=self._beat, daemon=True).start()

    def say(self, **message: Any) -> None:
        """Send a message; OSError if the controller is gone."""
        data = (json.dumps(message) + "\n").encode()
        with self._saying:
            while data:
                data = data[os.write(1, data) :]

    def _beat(self) -> None:
        try:
            while True:
                time.sleep(limits.BEAT_SECONDS)
                self.say(say="beat", done=self.done, total=self.total)
        except OSError:
            pass  # reading fails, too

    def _read(self) -> bytes:
        if not select.select([0], [], [], limits.STREAM_SILENCE_SECONDS)[0]:
            self._silent = True
            problem = f"no message from the controller for {limits.STREAM_SILENCE_SECONDS:.0f} s"
            raise LaunchError(error_line("", problem=problem, fix=_AGAIN))
        data = os.read(0, CHUNK)
        if not data:
            sys.exit(1)  # the controller is gone
        return data

    def _line(self) -> bytearray:
        at = self._held.find(b"\n")
        while at < 0:
            searched = len(self._held)
            if searched > _MOST_LINE:
                raise ProtocolError(f"expected lines of at most {_MOST_LINE >> 20} MiB, got more")
            self._held += self._read()
            at = self._held.find(b"\n", searched)
        line = self._held[:at]
        del self._held[: at + 1]
        return line

    def message(self) -> dict[str, Any]:
        """Return the next message other than a heartbeat; LaunchError if none comes."""
        while True:
            line = self._line()
            message = commands.parsed(bytes(line), SHAPES)
            if message["do"] != "beat":
                return message

    def await_end(self) -> None:
        """Wait until the controller closes the connection, or is silent.

        sshd ends a connection with all its programs if the controller closes this one's stdin after
        its end.
        """
        with contextlib.suppress(LaunchError, OSError, SystemExit):
            while not self._silent:
                self._read()

    def data(self, size: int) -> Iterator[bytes]:
        """Yield the next `size` bytes in pieces; LaunchError if the controller is silent."""
        while size:
            held = bytes(self._held) or self._read()
            piece, self._held = held[:size], bytearray(held[size:])
            size -= len(piece)
            yield piece


def _differences(folder: bytes, listed: list[Any]) -> list[list[str]]:
    """Return names with their differences; a given checksum is compared."""
    found = []
    for name, size, crc in listed:
        path = os.path.join(folder, files.encoded(name))
        if not os.path.isfile(path):
            found.append([name, "is missing"])
        elif os.path.getsize(path) != size:
            found.append([name, f"expected {size} bytes, got {os.path.getsize(path)}"])
        elif crc is not None and files.crc(path) != crc:
            found.append([name, "has different contents"])
    return found


def _strange(folder: bytes, names: list[str]) -> list[str]:
    state = os.path.join(folder, STATE.encode())
    noted = entries(b"".join(files.pieces(state))) if os.path.isfile(state) else {}
    found = []
    for name in names:
        path, entry = os.path.join(folder, files.encoded(name)), noted.get(name)
        pushed = entry is not None and entry.put and is_noted(path, entry)
        if os.path.lexists(path) and not pushed:
            found.append(name)
    return found


def _compare(master: MasterLine, message: dict[str, Any]) -> None:
    """Report which of the files differ, and which of the others no push wrote."""
    folder = files.folder(message["into"])
    try:
        differs = _differences(folder, message["files"])
        strange = _strange(folder, message["others"])
    except OSError as error:
        raise LaunchError(
            error_line(files.shown(folder), problem=f"cannot be read ({error.strerror})")
        ) from error
    master.say(say="compared", differs=differs, strange=strange)


_PART = re.compile(rb"\.[0-9a-f]{16}\.part")
_FULL = (errno.ENOSPC, errno.EDQUOT)


SHAPES: dict[str, dict[str, Any]] = {
    "beat": {},
    "compare": {"into": str, "files": [(str, int, {int, NOTHING})], "others": [str]},
    "take": {
        "into": str,
        "exact": bool,
        "verify": bool,
        "owner": {dict, NOTHING},
        "files": [(str, int, int, int, str)],
    },
    "keep": {"at": int},
    "file": {"at": int, "from": int},
    "data": {"bytes": int},
    "end": {"crc": int},
    "finish": {},
}


class File(NamedTuple):
    """A file as the controller lists it.

    `link` is the target if it is a symbolic link.
    """

    name: str
    size: int
    mtime_ns: int
    mode: int
    link: str


class Receiver:
    """Receiver of the files that one message lists."""

    def __init__(self, master: MasterLine, message: dict[str, Any]) -> None:
        self.master = master
        self.files = [File(*values) for values in message["files"]]
        for file in self.files:
            _check(file)
        self.into = files.folder(message["into"])
        files.check_folder(self.into)
        os.makedirs(self.into, exist_ok=True)
        files.check_folder(self.into)  # as created with the umask of the host
        self.pushed = PushState(self.into)
        self.exact = message["exact"]
        self.verify = message["verify"]
        self.crcs: dict[int, int] = {}
        self.folders: set[bytes] = set()
        self.inside: set[bytes] = set()

    def run(self) -> None:
        """Report the existing files, then receive the rest."""
        stale = self._stale() if self.exact else []
        self._check_room(sum(self.pushed.entries[name].size for name in stale))
        for name in stale:
            self._remove(name)
        if self.exact:
            self._remove_parts()
        self.master.say(say="has", files=[self._found(at) for at in range(len(self.files))])
        while True:
            message = self.master.message()
            if message["do"] == "finish":
                break
            if message["do"] == "keep":
                self._keep(self._place(message["at"]))
            elif message["do"] == "file":
                self._take(self._place(message["at"]), message["from"])
            else:
                raise ProtocolError(f"expected a file, got {message['do']!a}")
        self._check_links()
        for folder in self.folders:
            files.sync(folder)
        self.master.say(say="finished")

    def _place(self, at: int) -> int:
        """Return the number of a listed file that is no link."""
        if not 0 <= at < len(self.files) or self.files[at].link:
            raise ProtocolError(f"expected the number of a file, got {at}")
        return at

    def _path(self, name: str) -> bytes:
        """Return the path of a file; LaunchError if a link on it leads out of the folder."""
        path = os.path.join(self.into, encoded(name))
        folder = os.path.dirname(path)
        if folder not in self.inside:
            if files.leads_out(self.into, folder):
                raise LaunchError(
                    error_line(
                        shown(path),
                        problem=f"a link on the path leads out of {shown(self.into)}",
                        fix="Remove it, or choose its target as the folder",
                    )
                )
            self.inside.add(folder)
        return path

    def part_path(self, name: str) -> bytes:
        """Return the path of a file's part; short enough for every file system."""
        digest = hashlib.sha256(encoded(name)).hexdigest()[:16]
        return os.path.join(os.path.dirname(self._path(name)), f".{digest}.part".encode())

    def _stale(self) -> list[str]:
        """Return unlisted files that a push wrote, and that have not changed since."""
        listed = {file.name for file in self.files}
        entries = self.pushed.entries.items()
        return [
            name
            for name, entry in entries
            if entry.put and name not in listed
            if not files.leads_out(
                self.into, os.path.dirname(os.path.join(self.into, encoded(name)))
            )
            if is_noted(self._path(name), entry)
        ]

    def _remove(self, name: str) -> None:
        os.unlink(self._path(name))
        self.pushed.forget(name)
        folder = os.path.dirname(self._path(name))
        while folder != self.into and not os.listdir(folder):
            os.rmdir(folder)
            folder = os.path.dirname(folder)

    def _remove_parts(self) -> None:
        """Remove the parts of files that are not listed any more."""
        parts = {self.part_path(file.name) for file in self.files}
        for folder in filter(os.path.isdir, {os.path.dirname(part) for part in parts}):
            for path in [os.path.join(folder, name) for name in os.listdir(folder)]:
                if _PART.fullmatch(os.path.basename(path)) and path not in parts:
                    os.unlink(path)

    def _check_room(self, freed: int) -> None:
        sizes = [
            file.size - (files.size(self.part_path(file.name)) or 0)
            for file in self.files
            if not file.link and files.size(self._path(file.name)) != file.size
        ]
        disk = os.statvfs(self.into)
        free = disk.f_bavail * disk.f_frsize + freed
        if sum(sizes) > free:
            raise LaunchError(
                error_line(
                    shown(self.into),
                    expected=f"{sum(sizes) / 1000000.0:.1f} MB of free disk space",
                    got=f"{free / 1000000.0:.1f} MB",
                    fix="Free disk space, or choose another folder with --into",
                )
            )

    def _found(self, at: int) -> Any:
        """Return the state of a file.

        One that a push recorded as listed is not read again.
        """
        file = self.files[at]
        path, part = self._path(file.name), self.part_path(file.name)
        if file.link:
            self._link(file, path, part)
            return "same"
        if files.size(path) != file.size:
            length = files.size(part)
            if length is None or length > file.size:
                return None
            self.crcs[at] = self._crc(part)
            return {"part": length, "crc": self.crcs[at]}
        entry = self.pushed.entries.get(file.name)
        known = not self.verify and entry is not None and is_noted(path, entry)
        self.crcs[at] = entry.crc if entry and known else self._crc(path)
        if entry and known and entry.listed_ns == file.mtime_ns:
            _set_mode(path, file.mode)
            return "same"
        return {"crc": self.crcs[at]}

    def _crc(self, path: bytes) -> int:
        """Return the CRC-32 of a file; heartbeats report the progress."""
        self.master.done, self.master.total = 0, os.path.getsize(path)
        crc = 0
        for piece in files.pieces(path):
            crc = zlib.crc32(piece, crc)
            self.master.done += len(piece)
        return crc

    def _keep(self, at: int) -> None:
        """Keep a file whose contents are as listed."""
        if at not in self.crcs:
            raise ProtocolError(f"expected the number of an existing file, got {at}")
        name, crc = self.files[at].name, self.crcs[at]
        entry = self.pushed.entries.get(name)
        put = entry is not None and entry.put and entry.crc == crc
        self._finish(self._path(name), self.files[at], crc, put=put)

    def _take(self, at: int, start: int) -> None:
        """Receive a file's missing bytes.

        Rename it once it is complete, checked and on disk.
        """
        file = self.files[at]
        path, part = self._path(file.name), self.part_path(file.name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if start and (at not in self.crcs or start != files.size(part)):
            raise ProtocolError(f"expected a file from its beginning or its part, got {start}")
        crc = self.crcs[at] if start else 0
        with open(self._part_opened(part, start), "ab") as out:
            while (message := self.master.message())["do"] == "data":
                if not 0 <= message["bytes"] <= file.size:
                    raise ProtocolError(f"expected bytes of a file, got {message['bytes']}")
                for piece in self.master.data(message["bytes"]):
                    out.write(piece)
                    crc = zlib.crc32(piece, crc)
            if message["do"] != "end":
                raise ProtocolError(f"expected the end of a file, got {message['do']!a}")
            out.flush()
            os.fsync(out.fileno())
        if crc != message["crc"] or files.size(part) != file.size:
            os.unlink(part)
            raise LaunchError(
                error_line(shown(path), problem="checksum differs after the copy", fix="Push again")
            )
        self._finish(part, file, crc, put=True)
        os.replace(part, path)
        self.folders.add(os.path.dirname(path))

    def _part_opened(self, part: bytes, start: int) -> int:
        """Open a part at its end, or create a new one."""
        if start:
            descriptor = files.opened(part, os.O_WRONLY | os.O_APPEND)
            files.check_own(part, descriptor)
            return descriptor
        if os.path.lexists(part):
            os.unlink(part)
        return files.opened(part, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)

    def _finish(self, path: bytes, file: File, crc: int, *, put: bool) -> None:
        """Set the mode and the time of a complete file, and record its state."""
        _set_mode(path, file.mode)
        os.utime(path, ns=(file.mtime_ns, file.mtime_ns))
        mtime_ns = os.stat(path).st_mtime_ns
        self.pushed.note(file.name, PushedFile(file.size, mtime_ns, file.mtime_ns, crc, put))

    def _link(self, file: File, path: bytes, part: bytes) -> None:
        if os.path.islink(path) and os.readlink(path) == encoded(file.link):
            return
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.lexists(part):
            os.unlink(part)
        os.symlink(encoded(file.link), part)
        made = os.lstat(part)
        entry = PushedFile(made.st_size, made.st_mtime_ns, file.mtime_ns, crc=0, put=True)
        self.pushed.note(file.name, entry)
        os.replace(part, path)
        self.inside.clear()  # other names may have new targets now

    def _check_links(self) -> None:
        """Remove links that lead out through other links; LaunchError if there are any."""
        for file in self.files:
            path = self._path(file.name)
            if file.link and files.leads_out(self.into, path):
                os.unlink(path)
                raise LaunchError(
                    error_line(
                        f"{file.name!a}", problem="leads out of the folder through other links"
                    )
                )


def _check(file: File) -> None:
    """Raise LaunchError for a file or link outside of the folder."""
    if not files.is_below(file.name) or file.name.split("/")[-1] == STATE:
        raise LaunchError(
            error_line(
                f"{file.name!a}",
                problem="expected a file name below the folder; nothing was copied",
            )
        )
    leads = os.path.normpath(os.path.join(os.path.dirname(file.name), file.link))
    if leads.split("/")[0] in {"", ".."}:
        raise LaunchError(
            error_line(
                f"{file.name!a}",
                problem=f"leads out of the folder, to {file.link!a}; nothing was copied",
            )
        )


def _set_mode(path: bytes, mode: int) -> None:
    if os.stat(path).st_mode & 0o777 != mode:
        os.chmod(path, mode)


def reason(error: Exception, into: str) -> str:
    """Return an error as one line for the user."""
    if not isinstance(error, OSError):
        return str(error)
    if error.errno in _FULL:
        return f"{shown(encoded(into))}: {error.strerror}. Free disk space there, then push again"
    name = error.filename if isinstance(error.filename, bytes) else encoded(into)
    return f"{shown(name)}: cannot be written or read ({error.strerror})"


def main() -> None:
    """Serve one controller on this process's stdin and stdout.

    Exit 1 if files are missing.
    """
    master = MasterLine()
    message: dict[str, Any] = {"into": "."}
    try:
        message = master.message()
        if message["do"] == "compare":
            _compare(master, message)
        elif message["do"] == "take":
            os.umask(os.umask(0o077) | 0o022)  # only the owner may write to new folders
            lease.hold(message.get("owner"))
            Receiver(master, message).run()
        else:
            raise ProtocolError(f"expected files to take or compare, got {message['do']!a}")
    except (OSError, LaunchError, ValueError, OverflowError) as error:
        with contextlib.suppress(OSError):
            master.say(say="failed", why=reason(error, message.get("into", ".")))
        master.await_end()
        sys.exit(1)
    master.await_end()
