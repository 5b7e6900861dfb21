"""The engines by name: `mxnet` trains; `fake` simulates window times and faults."""

from bench.engines.command.program import COMMAND
from bench.engines.engine import Engine
from bench.engines.fake import FAKE
from bench.engines.mxnet import MXNET
from bench.engines.torch import TORCH

ENGINES: dict[str, Engine] = {one.name: one for one in (MXNET, TORCH, COMMAND, FAKE)}


def find_engine(name: str) -> Engine:
    """Return the engine of a stored name; MXNet's for imported and newer records."""
    return ENGINES.get(name, MXNET)
