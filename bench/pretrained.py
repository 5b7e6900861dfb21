"""A checkpoint as it is: run, or without its last layer. Any program on MXNet may have made it."""

import json
from collections.abc import Callable
from typing import Any

from bench import checkpoint
from bench.errors import SpecError, unknown
from bench.mxnet_import import mx


def features(prefix: str, epoch: int, layer: str, contexts: list[Any]) -> Any:
    """The network up to `layer`, or up to what its last full connection reads, as a Gluon block."""
    symbol = checkpoint.symbol_of(prefix)
    inside = symbol.get_internals()
    name = _output(inside, layer) if layer else _before_last(symbol)
    kept = inside[name]
    parameters = checkpoint.parameters_of(prefix, epoch)
    _check(prefix, kept, parameters)
    block = mx.gluon.SymbolBlock(outputs=kept, inputs=mx.sym.var("data", dtype="float32"))
    # These are the symbol's own names: a block's are not changed for them.
    for one, parameter in block.collect_params().items():
        parameter.shape = parameters[one].shape
        parameter.initialize(mx.init.Zero(), ctx=contexts)
        parameter.set_data(parameters[one])
    return block


def _output(inside: Any, layer: str) -> str:
    names = inside.list_outputs()
    for name in (layer, f"{layer}_output"):
        if name in names:
            return name
    outputs = [name.removesuffix("_output") for name in names if name.endswith("_output")]
    raise unknown("--layer-before-fullc", layer, outputs[-12:])


def _before_last(symbol: Any) -> str:
    """The output that the last full connection of a network reads."""
    nodes = json.loads(symbol.tojson())["nodes"]
    last = [node for node in nodes if node["op"] == "FullyConnected"]
    if not last:
        raise SpecError("the network has no full connection; name one by --layer-before-fullc")
    node = nodes[last[-1]["inputs"][0][0]]
    return f"{node['name']}_output" if node["op"] != "null" else str(node["name"])


def _check(prefix: str, symbol: Any, parameters: dict[str, Any]) -> None:
    wanted = {*symbol.list_arguments(), *symbol.list_auxiliary_states()}
    missing = sorted(wanted - set(parameters) - {"data", *_labels(symbol)})
    if missing:
        raise SpecError(f"{prefix}: the parameters lack {', '.join(missing[:3])} of its network")
    if "data" not in wanted:
        raise SpecError(f"{prefix}: expected a network whose input is called 'data'")


def _labels(symbol: Any) -> list[str]:
    return [name for name in symbol.list_arguments() if name.endswith("label")]


def predictor(
    prefix: str, epoch: int, shape: tuple[int, ...], context: Any
) -> Callable[[Any], Any]:
    """What maps (N, C, H, W) images of `shape` to (N, classes), before or after a softmax."""
    symbol, parameters = checkpoint.symbol_of(prefix), checkpoint.parameters_of(prefix, epoch)
    _check(prefix, symbol, parameters)
    auxiliary = set(symbol.list_auxiliary_states())
    try:
        executor = symbol.simple_bind(context, grad_req="null", data=shape)
        executor.copy_params_from(
            {name: one for name, one in parameters.items() if name not in auxiliary},
            {name: one for name, one in parameters.items() if name in auxiliary},
            allow_extra_params=True,
        )
    except mx.base.MXNetError as error:
        last = str(error).strip().splitlines()[-1]
        raise SpecError(f"{prefix}: cannot run on images of {shape[1:]}: {last}") from error

    def run(data: Any) -> Any:
        return executor.forward(is_train=False, data=data)[0].asnumpy()

    return run
