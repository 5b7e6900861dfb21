"""A server that answers as Google Cloud Storage."""

import json
import re
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from google_crc32c import value

_OBJECT = re.compile(r"(/download)?/storage/v1/b/[a-z]+/o/(.+)")
_RANGE = re.compile(r"bytes=(\d+)-(\d+)")


def _base64(number: int) -> str:
    return b64encode(number.to_bytes(4, "big")).decode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    objects: dict[str, bytes]
    names: list[str]  # of the uploads in parts

    def do_GET(self) -> None:
        place = urlsplit(self.path)
        found = _OBJECT.fullmatch(place.path)
        if not found:  # of the names that begin so; here none is a folder
            return self._answer(200, {"items": []})
        name = unquote(found[2])
        if name not in self.objects:
            return self._answer(404, {"error": {"code": 404, "message": "none"}})
        if not found[1]:
            return self._answer(200, self._about(name))
        asked = _RANGE.fullmatch(self.headers.get("Range", ""))
        data = self.objects[name]
        return self._send(206, data[int(asked[1]) : int(asked[2]) + 1] if asked else data)

    def do_POST(self) -> None:
        """Begin an upload in parts, or take a whole object with its description."""
        place = urlsplit(self.path)
        words = {key: one for key, (one, *_) in parse_qs(place.query).items()}
        data = self._body()
        if place.path.startswith("/part/"):
            return self._part(self.names[int(place.path.removeprefix("/part/"))], data)
        if words["uploadType"] == "resumable":
            self.names.append(words["name"])
            number = len(self.names) - 1
            return self._answer(200, {}, Location=f"http://{self.headers['Host']}/part/{number}")
        head, _, rest = data.partition(b"\n\n")[2].partition(b"\n--==0==")
        name = json.loads(head)["name"]
        content = rest.partition(b"\n\n")[2].rpartition(b"\n--==0==--")[0]
        return self._part(name, content)

    def do_PUT(self) -> None:
        self.do_POST()

    def _part(self, name: str, data: bytes) -> None:
        self.objects[name] = data
        self._answer(200, self._about(name))

    def _about(self, name: str) -> dict[str, Any]:
        data = self.objects[name]
        return {
            "name": name,
            "bucket": "bucket",
            "size": str(len(data)),
            "generation": "1",
            "crc32c": _base64(value(data)),
            "md5Hash": b64encode(md5(data).digest()).decode(),
        }

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        data = b""
        while size := int(self.rfile.readline(), 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def _answer(self, status: int, values: dict[str, Any], **headers: str) -> None:
        self._send(status, json.dumps(values).encode(), **headers)

    def _send(self, status: int, data: bytes, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        for name, text in headers.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def google_store() -> Iterator[str]:
    """Run the server on a port of this machine; yield its URL."""
    handler = type("Handler", (_Handler,), {"objects": {}, "names": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
