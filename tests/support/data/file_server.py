"""An HTTP server of files that can misbehave."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote


@dataclass(kw_only=True)
class Site:
    """Files by path, and how they are served.

    ranges      whether parts are sent
    sized       whether Content-Length is sent
    validators  header names to send, of ETag and Last-Modified
    headers     further headers of every answer
    moved       Location by path
    denied      paths that are answered with 403
    answer      called with the number of the request, from 1; an HTTP status, 0 to close the
                connection in the middle, or None to serve the file
    requests    path, Range and Authorization of each request
    """

    files: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True
    sized: bool = True
    validators: tuple[str, ...] = ("ETag",)
    headers: dict[str, str] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)
    denied: tuple[str, ...] = ()
    answer: Callable[[int], int | None] = lambda _: None
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    url: str = ""

    @property
    def pieces(self) -> list[str]:
        """The ranges that were requested, without those of one byte."""
        return [one for _, one, _ in self.requests if one and one != "bytes=0-0"]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    site: Site

    def do_GET(self) -> None:
        site, headers = self.site, self.headers
        wanted = headers.get("Range", "")
        site.requests.append((self.path, wanted, headers.get("Authorization", "")))
        status = site.answer(len(site.requests))
        path = unquote(self.path.partition("?")[0].lstrip("/"))
        if path in site.moved:
            self._send(302, b"", {"Location": site.moved[path]})
        elif status or path in site.denied:
            self._send(status or 403, b"refused")
        elif path not in site.files:
            self._send(404, b"none")
        else:
            self._file(site.files[path], wanted, cut=status == 0)

    def _file(self, data: bytes, wanted: str, *, cut: bool) -> None:
        site = self.site
        values = {"ETag": f'"{md5(data).hexdigest()}"', "Last-Modified": str(len(data))}
        more = {name: values[name] for name in site.validators} | site.headers
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", wanted)
        if not (found and site.ranges):
            return self._send(200, data, more, cut=cut)
        start, end = int(found[1]), min(int(found[2]) + 1, len(data))
        if start >= len(data):
            return self._send(416, b"", {**more, "Content-Range": f"bytes */{len(data)}"})
        more["Content-Range"] = f"bytes {start}-{end - 1}/{len(data)}"
        return self._send(206, data[start:end], more, cut=cut)

    def _send(
        self, status: int, data: bytes, headers: dict[str, str] | None = None, *, cut: bool = False
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if self.site.sized or status != 200:
            self.send_header("Content-Length", str(len(data)))
        else:
            self.send_header("Connection", "close")
        self.end_headers()
        try:
            self.wfile.write(data[: len(data) // 2] if cut else data)
        except OSError:
            cut = True
        self.close_connection = cut or not self.site.sized

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def served(site: Site) -> Iterator[Site]:
    """Serve the files on a port of this machine until the block ends."""
    handler = type("Handler", (_Handler,), {"site": site})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        site.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield site
        finally:
            server.shutdown()
            thread.join()
