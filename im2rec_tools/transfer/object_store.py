"""Files of object stores: s3:// and gs:// URLs, through fsspec."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from im2rec_tools.errors import DataError, brief, error_line
from im2rec_tools.transfer.sources import (
    DeniedError,
    MissingFileError,
    RemoteFile,
    UnavailableError,
    changed,
    crc32c_of_base64,
)
from im2rec_tools.transfer.urls import Url

_CHUNK = 1 << 22
_CHECK = "Check the URL"
_AGAIN = "Check bucket, endpoint and network, then run the same command again"
# gcsfs.GCSFileSystem would look for credentials before every request.
_CLASSES = {"s3": ("s3fs", "S3FileSystem"), "gs": ("gcsfs.core", "GCSFileSystem")}
# Names of the fields that change with the content, the surest first.
_VALIDATORS = ("generation", "ETag", "etag", "LastModified", "updated")
# Names of other libraries' errors that pass.
_PASSING = ("EndpointConnectionError", "ConnectTimeoutError", "ReadTimeoutError", "TimeoutError")
# Their errors become one line here; their logs have tracebacks, and URLs that grant an upload.
_LOGGERS = ("gcsfs", "s3fs", "fsspec", "aiobotocore", "botocore", "aiohttp", "asyncio", "google")
_LOGIN = "Set its credentials as for the provider's own tools (AWS_PROFILE, gcloud auth)"


class ObjectStore:
    """Objects of S3 or Google Cloud Storage.

    Credentials and endpoint come from the environment and the configuration files of the
    provider's own tools. Without credentials, public objects are read anonymously.
    """

    def __init__(self, kind: str) -> None:
        """Raise DataError if the libraries of the extra `remote` are missing."""
        for name in _LOGGERS:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        try:
            module, name = _CLASSES[kind]
            files = getattr(import_module(module), name)
            self._files: Any = files(use_listings_cache=False, skip_instance_cache=True)
        except ImportError as error:
            problem = f"the Python package {error.name or kind} is not installed"
            fix = "Install it with 'make remote'"
            raise DataError(error_line(f"{kind}://", problem=problem, fix=fix)) from error

    def describe(self, url: Url) -> RemoteFile:
        """Return size and validator of an object. Raises DataError."""
        with _errors(url):
            found = self._files.info(url.path)
        if found.get("type") != "file":
            raise MissingFileError(error_line(url, problem="no such object", fix=_CHECK))
        value = next((str(found[name]) for name in _VALIDATORS if found.get(name)), "")
        crc = crc32c_of_base64(str(found.get("crc32c", "")))
        return RemoteFile(url=url, size=int(found["size"]), validator=value, crc32c=crc)

    def read(self, file: RemoteFile, start: int, stop: int | None) -> Iterator[bytes]:
        """Yield the bytes from start to stop. Raises DataError.

        The caller describes the object again when it has all bytes.
        """
        end = file.size if stop is None else stop
        assert end is not None  # every object has a size
        while start < end:
            with _errors(file.url):
                data = self._files.cat_file(
                    file.url.path, start=start, end=min(end, start + _CHUNK)
                )
            if not data:
                raise changed(file.url)
            start += len(data)
            yield data

    def names(self, url: Url) -> list[str]:
        """Return the keys below a folder, relative to it. Raises DataError."""
        folder = url.path.rstrip("/") + "/"
        with _errors(url):
            found = self._files.find(folder)
        return sorted(name.removeprefix(folder) for name in found if not name.endswith("/"))

    def put(self, path: Path, url: Url) -> None:
        """Upload a file. Raises DataError."""
        with _errors(url):
            self._files.put_file(str(path), url.path)


@contextmanager
def _errors(url: Url) -> Iterator[None]:
    """Turn errors of the libraries into DataErrors that have no credentials."""
    try:
        yield
    except FileNotFoundError:
        raise MissingFileError(error_line(url, problem="no such object", fix=_CHECK)) from None
    except PermissionError:
        raise DeniedError(error_line(url, problem="access denied", fix=_LOGIN)) from None
    except DataError:
        raise
    except Exception as error:  # noqa: BLE001 - every library has classes of its own
        kind = type(error).__name__
        if kind in {"NoCredentialsError", "PartialCredentialsError", "DefaultCredentialsError"}:
            raise DataError(error_line(url, problem="no credentials found", fix=_LOGIN)) from None
        passing = kind in _PASSING or isinstance(error, ConnectionError | TimeoutError)
        raised = UnavailableError if passing else DataError
        detail = brief(error.strerror or kind) if isinstance(error, OSError) else kind
        raise raised(
            error_line(url, problem=f"the request failed ({detail})", fix=_AGAIN)
        ) from None
