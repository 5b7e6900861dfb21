"""Files of HTTP and HTTPS servers."""

import re
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from im2rec_tools.errors import DataError, error_line, quoted
from im2rec_tools.transfer.sources import (
    DeniedError,
    MissingFileError,
    RemoteFile,
    UnavailableError,
    changed,
    crc32c_of_base64,
)
from im2rec_tools.transfer.urls import Url, shown

_CHUNK = 1 << 18
_REDIRECTS = 5
_DIRECT = "Give the URL to which the server redirects"
_REDIRECTING = {301, 302, 303, 307, 308}
# Errors that pass: timeouts, too many requests, a gateway without its server.
_PASSING = {408, 425, 429, 500, 502, 503, 504}
_AGAIN = "Run the same command again to continue"
_ANSWER_SECONDS = 60.0
_TIMEOUTS = (10.0, _ANSWER_SECONDS)
_MOST_CONNECTIONS = 64
# A compressed file: some servers name its compression as that of the transfer.
_COMPRESSED = (".gz", ".tgz")
_RANGE = re.compile(r"bytes (?:(\d{1,18})-(\d{1,18})|\*)/(\d{1,18}|\*)")


class _NoRangeError(DataError):
    """The file has no such part."""


class HttpSource:
    """Files of HTTP servers.

    Compressed transfers are not requested, because ranges count stored bytes. A netrc file and
    the proxy variables of the environment apply, as in other programs.
    """

    def __init__(self) -> None:
        import requests  # noqa: PLC0415 - takes long to load
        from requests.adapters import HTTPAdapter  # noqa: PLC0415

        self._session = requests.Session()
        adapter = HTTPAdapter(pool_maxsize=_MOST_CONNECTIONS)
        self._session.mount("http://", adapter)
        self._session.mount("https://", adapter)

    def __enter__(self) -> "HttpSource":
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def describe(self, url: Url) -> RemoteFile:
        """Return size and validator from the answer to a request of one byte.

        A HEAD request would not do: signed URLs allow GET only. Raises DataError.
        """
        try:
            return self._described(url, "bytes=0-0")
        except _NoRangeError:  # an empty file
            return self._described(url, "")

    def _described(self, url: Url, byte_range: str) -> RemoteFile:
        with self._answer(url, byte_range) as answer:
            headers = answer.headers
            found = _RANGE.fullmatch(headers.get("Content-Range", ""))
            size = found[3] if found else headers.get("Content-Length", "")
            ranges = answer.status_code != 200 and found is not None and found[3] != "*"
            if answer.status_code == 206 and not ranges:
                raise DataError(_odd(url, "Content-Range", headers.get("Content-Range", "")))
            return RemoteFile(
                url=url,
                size=int(size) if re.fullmatch(r"\d{1,18}", size) else None,
                validator=_validator(headers),
                ranges=ranges,
                crc32c=_crc32c(headers),
            )

    def read(self, file: RemoteFile, start: int, stop: int | None) -> Iterator[bytes]:
        """Yield the bytes from start to stop. Raises ChangedFileError and DataError."""
        end = file.size if stop is None else stop
        if end is not None and start >= end:
            return
        wanted = f"bytes={start}-{end - 1}" if file.ranges and end is not None else ""
        with self._answer(file.url, wanted) as answer:
            _check_answer(file, answer, start, ranged=bool(wanted))
            left = None if end is None else end - start
            while left is None or left > 0:
                data = answer.raw.read(_CHUNK, decode_content=False)
                if not data:
                    break
                left = None if left is None else left - len(data)
                if left is not None and left < 0:
                    raise changed(file.url)
                yield data
            if left:
                problem = f"the connection ended {left} bytes early"
                raise UnavailableError(error_line(file.url, problem=problem, fix=_AGAIN))

    def names(self, url: Url) -> list[str]:
        """Raise DataError: HTTP has no list of a folder's files."""
        raise DataError(
            error_line(
                url,
                expected="files.tsv in the folder",
                got="none",
                fix="Name the files, such as train_{0..7}.rec",
            )
        )

    def put(self, path: Path, url: Url) -> None:
        """Raise DataError: files are not written to HTTP servers."""
        problem, fix = "HTTP servers take no uploads", "Use s3://, gs:// or file://"
        raise DataError(error_line(url, problem=problem, fix=fix))

    @contextmanager
    def _answer(self, url: Url, byte_range: str) -> Iterator[Any]:
        """Request a file; follow redirects to HTTP servers only. Raises DataError."""
        import requests  # noqa: PLC0415
        import urllib3  # noqa: PLC0415

        headers = {"Accept-Encoding": "identity", "User-Agent": "mxscale"}
        if byte_range:
            headers["Range"] = byte_range
        at = url.text
        try:
            for _ in range(_REDIRECTS + 1):
                with self._session.get(
                    at, headers=headers, stream=True, timeout=_TIMEOUTS, allow_redirects=False
                ) as answer:
                    if answer.status_code not in _REDIRECTING:
                        _check_status(url, answer)
                        yield answer
                        return
                    at = _target(url, at, answer.headers.get("Location", ""))
        # Their texts have the URL with its credentials. ValueError: a host that is no name.
        except (requests.RequestException, urllib3.exceptions.HTTPError, ValueError) as error:
            raise _unreachable(url, error) from None
        raise DataError(error_line(url, problem=f"more than {_REDIRECTS} redirects", fix=_DIRECT))


def _target(url: Url, at: str, location: str) -> str:
    """Return the URL of a redirect; raise DataError unless it is as safe as the first."""
    try:
        target = urllib.parse.urljoin(at, location)
        scheme = urllib.parse.urlsplit(target).scheme.lower()
    except ValueError:
        scheme = target = ""
    allowed = ("https",) if url.scheme == "https" else ("http", "https")
    if scheme not in allowed or not location:
        expected = f"a redirect to {' or '.join(f'{one}://' for one in allowed)}"
        raise DataError(error_line(url, expected=expected, got=quoted(shown(target)), fix=_DIRECT))
    return target


def _check_status(url: Url, answer: Any) -> None:
    code = answer.status_code
    if code in {200, 206} or (code == 416 and answer.headers.get("Content-Range") == "bytes */0"):
        encoding = answer.headers.get("Content-Encoding", "identity")
        stored = encoding in {"gzip", "x-gzip"} and url.path.lower().endswith(_COMPRESSED)
        if encoding != "identity" and not stored:
            raise DataError(_odd(url, "Content-Encoding", encoding))
        return
    if code == 416:
        raise _NoRangeError(error_line(url, problem="no such part (HTTP 416)", fix=_AGAIN))
    if code in {404, 410}:
        raise MissingFileError(
            error_line(url, problem=f"no such file (HTTP {code})", fix="Check the URL")
        )
    if code in {401, 403, 407}:
        fix = "Put the login in ~/.netrc, or use a signed URL"
        raise DeniedError(error_line(url, problem=f"access denied (HTTP {code})", fix=fix))
    problem = f"the server answered HTTP {code}"
    kind = UnavailableError if code in _PASSING else DataError
    raise kind(error_line(url, problem=problem, fix=_AGAIN))


def _check_answer(file: RemoteFile, answer: Any, start: int, *, ranged: bool) -> None:
    """Raise ChangedFileError if an answer is about another file."""
    found = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
    if ranged and answer.status_code != 206:
        raise changed(file.url)
    if ranged and (found is None or found[1] != str(start) or found[3] != str(file.size)):
        raise changed(file.url)
    if _validator(answer.headers) != file.validator:
        raise changed(file.url)


def _validator(headers: Any) -> str:
    return str(headers.get("ETag") or headers.get("Last-Modified") or "")


def _crc32c(headers: Any) -> str:
    """Return the CRC-32C that Google Cloud Storage sends, in hex digits."""
    found = re.search(r"(?:^|[ ,])crc32c=([^ ,]+)", headers.get("x-goog-hash", ""))
    return crc32c_of_base64(found[1]) if found else ""


def _odd(url: Url, header: str, value: str) -> str:
    return error_line(
        url, expected=f"a usable {header}", got=quoted(value), fix="Use another server"
    )


def _unreachable(url: Url, error: Exception) -> DataError:
    """Return the error of a request that got no answer, without the library's text."""
    import requests  # noqa: PLC0415
    import urllib3  # noqa: PLC0415

    if isinstance(error, requests.exceptions.SSLError):
        fix = "Check the server's certificate"
        return DataError(error_line(url, problem="no secure connection", fix=fix))
    if isinstance(error, requests.Timeout | urllib3.exceptions.TimeoutError):
        return UnavailableError(
            error_line(url, problem=f"no answer for {_ANSWER_SECONDS:.0f} s", fix=_AGAIN)
        )
    if isinstance(error, requests.ConnectionError | urllib3.exceptions.HTTPError):
        return UnavailableError(
            error_line(url, problem="no connection, or it was lost", fix=_AGAIN)
        )
    return DataError(
        error_line(url, problem=f"the request failed ({type(error).__name__})", fix="Check the URL")
    )
