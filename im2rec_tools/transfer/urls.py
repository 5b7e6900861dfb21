"""URLs of files: parsing, safe names, and texts without credentials."""

import re
from dataclasses import dataclass
from itertools import product
from pathlib import PurePosixPath
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from im2rec_tools.errors import DataError, error_line, quoted

SCHEMES = ("http", "https", "s3", "gs", "file")
# Schemes of object stores; their keys are plain text, not percent-encoded.
OBJECT_STORES = ("s3", "gs")
_FORM = "Write it as https://HOST/PATH or s3://BUCKET/KEY"
_RANGE = re.compile(r"\{(\d{1,9})\.\.(\d{1,9})\}")
_MOST_URLS = 100_000
_MOST_NAME = 255  # bytes of a file name on Linux
_CONTROL = re.compile(r"[\x00-\x20\x7f]")


@dataclass(frozen=True, kw_only=True)
class Url:
    """A URL of a file, or of a folder if it ends in '/'.

    text: the URL with its credentials; never print it. str() is the URL without them.
    """

    text: str

    def __str__(self) -> str:
        return shown(self.text)

    def __repr__(self) -> str:
        return f"Url({shown(self.text)!r})"

    @property
    def scheme(self) -> str:
        """One of SCHEMES."""
        return urlsplit(self.text).scheme.lower()

    @property
    def is_folder(self) -> bool:
        """Whether it names a folder."""
        return _path(self.text).endswith("/")

    @property
    def path(self) -> str:
        """The decoded path; of an object store, BUCKET/KEY."""
        if self.scheme in OBJECT_STORES:
            return self.text.partition("://")[2]
        return unquote(urlsplit(self.text).path)

    @property
    def name(self) -> str:
        """The file name. Raises DataError if it is none."""
        return safe_name(self.path.rstrip("/").rpartition("/")[2], str(self))

    def sibling(self, name: str) -> "Url":
        """Return the file of this name (a path of '/' parts) in the same folder."""
        if self.scheme in OBJECT_STORES:
            return Url(text=f"{self.text.rpartition('/')[0]}/{name}")
        parts = urlsplit(self.text)
        folder = parts.path.rpartition("/")[0]
        return Url(text=urlunsplit(parts._replace(path=f"{folder}/{quote(name)}")))


def _path(text: str) -> str:
    scheme, _, rest = text.partition("://")
    return rest if scheme.lower() in OBJECT_STORES else urlsplit(text).path


def shown(text: str) -> str:
    """Return a URL without user, password, query and fragment."""
    scheme, _, rest = text.partition("://")
    if scheme.lower() in OBJECT_STORES:
        return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}"
    place = re.split(r"[?#]", rest, maxsplit=1)[0]
    host, slash, path = place.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def is_url(text: str) -> bool:
    """Return whether a text is a URL rather than a path."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text) is not None


def parse_url(called: str, text: str) -> Url:
    """Parse one URL; raise DataError for another scheme or a URL without a path."""
    scheme, _, rest = text.partition("://")
    if not is_url(text) or scheme.lower() not in SCHEMES:
        kinds = ", ".join(f"{one}://" for one in SCHEMES)
        got = quoted(shown(text) if is_url(text) else text)
        fix = "" if is_url(text) else "For a local file, give file:///PATH"
        raise DataError(error_line(called, expected=f"a URL ({kinds})", got=got, fix=fix))
    try:
        parts = urlsplit(text)
        found = (parts.hostname or "", parts.port)
    except ValueError:
        found = ("", None)
    local = scheme.lower() == "file"
    lacks = rest.startswith(("/", "?", "#")) or not found[0]
    if _CONTROL.search(text) or (lacks and not local):
        raise DataError(
            error_line(called, expected="a URL with a host", got=quoted(shown(text)), fix=_FORM)
        )
    if local and found[0] not in {"", "localhost"}:
        fix = "Write it as file:///PATH"
        raise DataError(
            error_line(called, expected="a file of this machine", got=quoted(text), fix=fix)
        )
    return Url(text=text)


def parse_folder_url(called: str, text: str) -> Url:
    """Parse the URL of a folder that files can be written to."""
    url = parse_url(called, text if text.endswith("/") else f"{text}/")
    if url.scheme in {"http", "https"}:
        expected = "a URL of s3://, gs:// or file://"
        fix = "Copy the files to the server with its own tools, such as rsync"
        raise DataError(error_line(called, expected=expected, got=quoted(str(url)), fix=fix))
    return url


def parse_urls(called: str, text: str) -> tuple[Url, ...]:
    """Parse URLs separated by blanks; {0..7} in one stands for each of these numbers.

    Raises DataError.
    """
    found = [parse_url(called, one) for word in text.split() for one in expanded(called, word)]
    if not found:
        raise DataError(error_line(called, expected="a URL", got=quoted(text), fix=_FORM))
    return tuple(found)


def expanded(called: str, text: str) -> list[str]:
    """Replace each range: 'a_{08..10}' is a_08, a_09, a_10.

    Raises DataError for too many.
    """
    ranges = list(_RANGE.finditer(text))
    count = 1
    for one in ranges:
        count *= max(0, int(one[2]) - int(one[1]) + 1)
    if not 0 < count <= _MOST_URLS:
        expected = f"ranges of 1 to {_MOST_URLS} files, such as {{0..7}}"
        fix = "Write the smaller number first"
        raise DataError(error_line(called, expected=expected, got=quoted(shown(text)), fix=fix))
    numbers = [
        [f"{number:0{len(one[1])}}" for number in range(int(one[1]), int(one[2]) + 1)]
        for one in ranges
    ]
    between = _RANGE.split(text)[::3]
    return [
        "".join(part + number for part, number in zip(between, (*chosen, ""), strict=True))
        for chosen in product(*numbers)
    ]


def safe_name(name: str, where: str) -> str:
    """Return a relative path of visible files; raise DataError for any other.

    where: file or URL that has the name, for the error.
    """
    parts = name.split("/")
    long = any(len(part.encode(errors="surrogatepass")) > _MOST_NAME - 10 for part in parts)
    if any(part.startswith(".") or not part for part in parts) or not name.isprintable() or long:
        expected = "a file name below the folder, without '..' and hidden files"
        raise DataError(error_line(where, expected=expected, got=quoted(name), fix="Rename it"))
    return str(PurePosixPath(name))
