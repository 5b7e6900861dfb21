"""Checkpoints in upstream's format: PREFIX-symbol.json and PREFIX-NNNN.params.

PREFIX-NNNN.optimizer beside them has the optimizer's arrays and the position in the training data,
so that training continues as if it had not been interrupted. It holds arrays and JSON only.
"""

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench.errors import SpecError, brief, error_line, unknown
from bench.training.mxnet_shim import mx
from im2rec_tools.terminal import echo

STATE_SCHEMA = 1  # first
_DESCRIPTION = "json"
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True, kw_only=True)
class TrainingState:
    """State of training after some epochs.

    optimizer   its name
    batches     steps since the first epoch, of each worker, and so updates of each weight
    whole       images per step of all workers
    workers     number of workers
    m_schedule  nadam's product of momentums; 1 for others
    settings    options of the optimizer as typed, by flag; empty in files of earlier versions
    arrays      of the optimizer, by weight index and number
    """

    optimizer: str
    batches: int
    whole: int
    workers: int
    m_schedule: float = 1.0
    settings: Mapping[str, str] = field(default_factory=dict)
    arrays: Mapping[tuple[int, int], Any] = field(default_factory=dict)


def _write_state(state: TrainingState, path: Path) -> None:
    names = ("optimizer", "batches", "whole", "workers", "m_schedule", "settings")
    values = {name: getattr(state, name) for name in names}
    text = json.dumps({"schema": STATE_SCHEMA, **values}).encode()
    letters = np.frombuffer(text, np.uint8).copy()
    arrays = {f"{index}:{slot}": array for (index, slot), array in state.arrays.items()}
    described = {_DESCRIPTION: mx.nd.from_numpy(letters, zero_copy=False)}
    mx.nd.save(str(path), arrays | described)


def read_state(prefix: str, epoch: int) -> TrainingState | None:
    """Read the state of training after this epoch; None if there is no file.

    Raises SpecError for an invalid one.
    """
    path = Path(f"{prefix}-{epoch:04d}.optimizer")
    if not path.is_file():
        return None
    try:
        arrays = mx.nd.load(str(path))
        values = json.loads(arrays.pop(_DESCRIPTION).asnumpy().tobytes())
        if values["schema"] != STATE_SCHEMA:
            raise ValueError(f"schema {values['schema']}")
        named = {tuple(map(int, name.split(":"))): one for name, one in arrays.items()}
        return TrainingState(
            optimizer=str(values["optimizer"]),
            batches=int(values["batches"]),
            whole=int(values["whole"]),
            workers=int(values["workers"]),
            m_schedule=float(values["m_schedule"]),
            settings={str(k): str(v) for k, v in values.get("settings", {}).items()},
            arrays=named,  # type: ignore[arg-type]
        )
    except (mx.base.MXNetError, *_UNREADABLE) as error:
        raise SpecError(
            error_line(
                path,
                expected="the state of training",
                got=f"an invalid one ({brief(error)})",
                fix="Remove it to continue with momentum 0",
            )
        ) from error


def symbol(net: Any) -> Any:
    """Return the network as upstream saves it.

    It ends with the SoftmaxOutput `softmax` and has plain variables: Gluon's variables carry
    multipliers of weight decay and learning rate, which Module would apply to biases too.
    """
    composed: list[Any] = []
    net.apply(lambda block: composed.append(block) if getattr(block, "composed", False) else None)
    try:
        for block in composed:  # other programs expect MXNet's own operator
            block.composed = False
        with mx.name.NameManager():
            whole = mx.sym.SoftmaxOutput(net(mx.sym.var("data")), name="softmax")
    finally:
        for block in composed:
            block.composed = True
    graph = json.loads(whole.tojson())
    for node in graph["nodes"]:
        if node["op"] == "null":
            node.pop("attrs", None)
    return mx.sym.load_json(json.dumps(graph))


def check_network(
    net: Any, prefix: str, image_shape: tuple[int, ...], *, loaded: bool = False
) -> None:
    """Raise SpecError if checkpoints of a different network have this prefix.

    Different names of the same arrays count as a different network, unless training resumes from
    one of the checkpoints.
    """
    path = Path(f"{prefix}-symbol.json")
    if not path.is_file():
        return
    theirs = symbol_of(prefix)
    try:
        arguments, _, auxiliary = theirs.infer_shape(data=(1, *image_shape))
    except mx.base.MXNetError:
        arguments, auxiliary = [], []
    listed = [*theirs.list_arguments(), *theirs.list_auxiliary_states()]
    shapes = dict(zip(listed, [*(arguments or []), *(auxiliary or [])], strict=False))
    there = {name: shapes.get(name, ()) for name in parameter_names(theirs)}
    names = _names_in(net, there)
    if names is None or (not loaded and any(one != other for one, other in names.items())):
        raise SpecError(
            error_line(
                path,
                problem="belongs to checkpoints of a different network, which need it",
                fix="Give another --model-prefix",
            )
        )


def save(net: Any, prefix: str, epoch: int, state: TrainingState | None = None) -> None:
    """Save the network after `epoch` epochs, and the state of training if given.

    The files appear complete or not at all. If the prefix has checkpoints with upstream's names,
    the new one uses them too.
    """
    target, whole = Path(prefix), symbol(net)
    names = _names_of_prefix(net, prefix)
    auxiliary = set(whole.list_auxiliary_states())
    arrays = {
        f"{'aux' if name in auxiliary else 'arg'}:{names[name]}": parameter._reduce()
        for name, parameter in net.collect_params().items()
    }
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".saving-") as folder:
        if all(name == other for name, other in names.items()):
            whole.save(str(Path(folder) / f"{target.name}-symbol.json"))
        mx.nd.save(str(Path(folder) / f"{target.name}-{epoch:04d}.params"), arrays)
        if state:
            _write_state(state, Path(folder) / f"{target.name}-{epoch:04d}.optimizer")
        else:  # an earlier training's would not belong to these weights
            Path(f"{prefix}-{epoch:04d}.optimizer").unlink(missing_ok=True)
        # The symbol first, the weights before their state: a state without them is not read.
        for made in sorted(Path(folder).iterdir(), reverse=True):
            made.replace(target.with_name(made.name))


def _names_of_prefix(net: Any, prefix: str) -> dict[str, str]:
    """Return each parameter's name in the symbol of this prefix.

    Without a symbol, the names are the network's own.
    """
    own = list(net.collect_params().keys())
    if Path(f"{prefix}-symbol.json").is_file():
        there = parameter_names(symbol_of(prefix))
        if set(there) != set(own):
            return dict(zip(parameter_names(symbol(net)), there, strict=True))
    return {name: name for name in own}


def parameter_names(of: Any) -> list[str]:
    """Return a symbol's parameters in order of use, untrained ones last."""
    names = [*of.list_arguments(), *of.list_auxiliary_states()]
    return [name for name in names if name != "data" and not name.endswith("label")]


def _names_in(net: Any, theirs: Mapping[str, tuple[int, ...]]) -> dict[str, str] | None:
    """Map the network's parameter names to theirs; None for a different network.

    `theirs`: shapes by name, in order of use. Different names are matched by that order: the suffix
    of each name and all shapes must agree.
    """
    own = {name: one.shape for name, one in net.collect_params().items()}
    if set(own) == set(theirs):
        return {name: name for name in own} if own == dict(theirs) else None
    ordered = parameter_names(symbol(net))
    pairs = list(zip(ordered, theirs, strict=False))
    same = len(ordered) == len(theirs) and all(
        own[name] == theirs[other] and name.rpartition("_")[2] == other.rpartition("_")[2]
        for name, other in pairs
    )
    return dict(pairs) if same else None


def _fixed_scales(of: Any) -> list[bool]:
    """Return whether each batch normalization's scale is fixed at 1, in order of use."""
    nodes = [node for node in json.loads(of.tojson())["nodes"] if node["op"] == "BatchNorm"]
    return [node.get("attrs", {}).get("fix_gamma", "True") in {"True", "1"} for node in nodes]


def symbol_of(prefix: str) -> Any:
    """Read the network as an MXNet symbol; SpecError if it is missing or unreadable."""
    path = Path(f"{prefix}-symbol.json")
    try:
        return mx.sym.load_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(
            error_line(
                path,
                expected=f"a checkpoint's network ({error.strerror})",
                fix=_prefix_fix(prefix),
            )
        ) from error
    except (mx.base.MXNetError, ValueError) as error:
        raise SpecError(error_line(path, expected="a network that MXNet can read")) from error


def _prefix_fix(prefix: str) -> str:
    """Return the fix of a prefix without a network, which may be the name of a file."""
    plain = re.sub(r"-(\d{4,}\.(params|optimizer)|symbol\.json|mxscale\.json)$", "", prefix)
    return f"Give the prefix {plain}" if plain != prefix else "Name the prefix of a training"


def parameters_of(prefix: str, epoch: int) -> dict[str, Any]:
    """Read the arrays of a checkpoint by name.

    Raises SpecError if they are missing or unreadable.
    """
    path = Path(f"{prefix}-{epoch:04d}.params")
    if not path.is_file():
        there = sorted(path.parent.glob(f"{path.name[: -len('-0000.params')]}-[0-9]*.params"))
        found = ", ".join(one.name for one in there) or "none"
        raise SpecError(
            error_line(
                path,
                expected="a checkpoint's parameters",
                got="none",
                fix=f"Checkpoints there: {found}",
            )
        )
    try:
        loaded = mx.nd.load(str(path))
    except mx.base.MXNetError as error:
        raise SpecError(
            error_line(
                path,
                expected="arrays that MXNet saved",
                got=f"{path.stat().st_size} bytes that are truncated or in another format",
                fix="Copy the checkpoint again, or load another epoch",
            )
        ) from error
    if not isinstance(loaded, dict):
        raise SpecError(
            error_line(path, expected="a checkpoint's parameters", got="arrays without names")
        )
    return {name.removeprefix("arg:").removeprefix("aux:"): one for name, one in loaded.items()}


def load(net: Any, prefix: str, epoch: int) -> None:
    """Load a checkpoint's parameters into a network of known shapes.

    Raises SpecError if the shapes differ. The parameters may have upstream's names.
    """
    saved, where = parameters_of(prefix, epoch), f"{prefix}-{epoch:04d}.params"
    wanted = net.collect_params()
    names: dict[str, str] | None = {name: name for name in wanted}
    if set(saved) != set(wanted):
        theirs = symbol_of(prefix)
        there = parameter_names(theirs)
        names = _names_in(net, {one: saved[one].shape for one in there if one in saved})
        if names is not None and _fixed_scales(theirs) != _fixed_scales(symbol(net)):
            raise SpecError(
                error_line(
                    where,
                    expected="fixed normalization scales, as upstream's",
                    got="trained ones",
                    fix="Use bench.fine_tune or bench.score",
                )
            )
    if names is None and len(saved) == len(list(wanted)):
        raise SpecError(
            error_line(
                where,
                expected=f"{len(saved)} arrays of this network's shapes",
                got="different ones",
                fix="Give its --network, --num-classes and --image-shape",
            )
        )
    if names is None:
        name = min(set(saved) ^ set(wanted))
        how = "lacks" if name in wanted else "has"
        raise SpecError(
            error_line(
                where,
                problem=f"belongs to a different network: it {how} {name}",
                fix="Give its --network",
            )
        )
    for name, parameter in wanted.items():
        array = saved[names[name]]
        if array.shape != parameter.shape:
            raise SpecError(
                error_line(
                    f"{where}: {name}",
                    expected=f"shape {_words(parameter.shape)}",
                    got=_words(array.shape),
                    fix="Give its --num-classes and --image-shape",
                )
            )
        parameter.set_data(array.astype(parameter.dtype))


def _words(shape: Iterable[int]) -> str:
    return " x ".join(map(str, shape))


def feature_network(prefix: str, epoch: int, layer: str, contexts: list[Any]) -> Any:
    """Load the network up to `layer`, or up to its last fully connected layer's input."""
    symbol = symbol_of(prefix)
    inside = symbol.get_internals()
    name = _output(inside, layer) if layer else _before_last(symbol)
    kept = inside[name]
    parameters = parameters_of(prefix, epoch)
    _check(prefix, kept, parameters)
    echo(f"starts from {prefix}-{epoch:04d}.params", err=True)
    block = mx.gluon.SymbolBlock(outputs=kept, inputs=mx.sym.var("data", dtype="float32"))
    # These are the symbol's own names; Gluon adds no prefix.
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
    """Return the output that the last fully connected layer reads."""
    nodes = json.loads(symbol.tojson())["nodes"]
    last = [node for node in nodes if node["op"] == "FullyConnected"]
    if not last:
        raise SpecError(
            error_line(
                "--layer-before-fullc",
                expected="a layer's name",
                got="none",
                problem="the network has no fully connected layer",
            )
        )
    node = nodes[last[-1]["inputs"][0][0]]
    return f"{node['name']}_output" if node["op"] != "null" else str(node["name"])


def _check(prefix: str, symbol: Any, parameters: dict[str, Any]) -> None:
    wanted = {*symbol.list_arguments(), *symbol.list_auxiliary_states()}
    missing = sorted(set(parameter_names(symbol)) - set(parameters))
    if missing:
        raise SpecError(
            error_line(
                prefix,
                problem=f"the parameters lack {', '.join(missing[:3])}, which the network needs",
            )
        )
    if "data" not in wanted:
        raise SpecError(error_line(prefix, expected="a network with the input 'data'"))


def predictor(
    prefix: str, epoch: int, shape: tuple[int, ...], context: Any
) -> Callable[[Any], Any]:
    """Return a function from images of `shape` (N, C, H, W) to scores (N, classes)."""
    symbol, parameters = symbol_of(prefix), parameters_of(prefix, epoch)
    _check(prefix, symbol, parameters)
    auxiliary = set(symbol.list_auxiliary_states())
    os.environ.setdefault("MXNET_SUBGRAPH_VERBOSE", "0")  # no line about its backend
    try:
        executor = symbol.simple_bind(context, grad_req="null", data=shape)
        executor.copy_params_from(
            {name: one for name, one in parameters.items() if name not in auxiliary},
            {name: one for name, one in parameters.items() if name in auxiliary},
            allow_extra_params=True,
        )
    except mx.base.MXNetError as error:
        last = str(error).strip().splitlines()[-1]
        raise SpecError(
            error_line(
                prefix,
                problem=f"cannot run on images of {_words(shape[1:])}: {last}",
                fix="Give the --image-shape of the training",
            )
        ) from error

    echo(f"weights: {prefix}-{epoch:04d}.params", err=True)

    def run(data: Any) -> Any:
        return executor.forward(is_train=False, data=data)[0].asnumpy()

    return run
