"""Signed commands to the servers of a job, verified before unpickling.

MXNet's servers unpickle anything that a program sends to their port. mxscale's servers read a
command only if it carries the HMAC of the job's secret, and accept only the optimizers listed here.
The launcher draws the secret; only the environment of the job's processes contains it.
"""

import base64
import hashlib
import hmac
import io
import os
import pickle
from collections.abc import Mapping
from typing import Any

SECRET_VARIABLE = "MXSCALE_JOB_SECRET"
_DIGITS = hashlib.sha256().digest_size * 2


class RefusedError(Exception):
    """A command without a worker's signature, or with more than an optimizer."""


def secret() -> bytes:
    """Return this job's secret; b'' if its processes were started by hand."""
    return os.environ.get(SECRET_VARIABLE, "").encode()


def signed(optimizer: Any, key: bytes) -> str:
    """Return the signed command that sends this optimizer to servers.

    Raises RefusedError if they reject it.
    """
    text = base64.b64encode(pickle.dumps(optimizer, 4)).decode("ascii")
    body = _signature(text.encode(), key) + text
    optimizer_of(body.encode(), key)
    return body


def optimizer_of(body: bytes, key: bytes) -> Any:
    """Read the optimizer from a body that `signed` made with this key.

    Raises RefusedError for any other.
    """
    signature, text = body[:_DIGITS], body[_DIGITS:]
    if not hmac.compare_digest(signature, _signature(text, key).encode()):
        raise RefusedError("missing or wrong signature")
    # Imported here: the launcher only needs this module's constants, and servers read commands
    # during MXNet's import.
    from mxnet.optimizer import Optimizer  # noqa: PLC0415

    try:
        found = _Unpickler(
            base64.b64decode(text, validate=True), _classes(Optimizer.opt_registry)
        ).load()
    except RefusedError:
        raise
    except Exception as error:
        raise RefusedError(f"not a pickle ({error})") from error
    if not isinstance(found, Optimizer):
        raise RefusedError(f"expected an optimizer, got {type(found).__name__}")
    return found


def _signature(text: bytes, key: bytes) -> str:
    return hmac.new(key, text, hashlib.sha256).hexdigest()


def _classes(registered: Mapping[str, type]) -> dict[tuple[str, str], type]:
    """Return the permitted classes by module and name.

    A command may hold them and plain values. None of them writes a file or starts a program,
    whatever its arguments are.
    """
    from bench.training.mxnet.sgd import Sgd  # noqa: PLC0415
    from bench.training.optimizer import (  # noqa: PLC0415
        OPTIMIZERS,
        Epochs,
        Schedule,
    )

    known = [Sgd, Schedule, Epochs, *(registered[name] for name in OPTIMIZERS)]
    return {(one.__module__, one.__name__): one for one in known}


class _Unpickler(pickle.Unpickler):
    """An unpickler that loads only the given classes; dotted names never match."""

    def __init__(self, data: bytes, classes: Mapping[tuple[str, str], type]) -> None:
        super().__init__(io.BytesIO(data))
        self._allowed = classes

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        """Return the class; RefusedError unless it is permitted."""
        found = self._allowed.get((module_name, global_name))
        if found is None:
            raise RefusedError(f"{module_name}.{global_name} is not an optimizer"[:120])
        return found
