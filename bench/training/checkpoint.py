"""Checkpoints: PREFIX-symbol.json and PREFIX-NNNN.params, as upstream writes."""

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.errors import SpecError, unknown
from bench.training.mxnet_shim import mx


def make_folder(prefix: str) -> None:
    """Makes the folder that checkpoints go to; SpecError where none can be written."""
    target = Path(prefix)
    if not target.name:
        raise SpecError(f"--model-prefix {prefix}: expected a folder and how file names begin")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".saving-") as folder:
            (Path(folder) / f"{target.name}-symbol.json").touch()
    except OSError as error:
        raise SpecError(f"--model-prefix {prefix}: {error.strerror} ({error.filename})") from error


def symbol(net: Any) -> Any:
    """The network as upstream saves it: SoftmaxOutput `softmax` behind it, plain variables.

    Gluon's variables carry multipliers of decay and rate, which Module would apply to biases too.
    """
    composed: list[Any] = []
    net.apply(lambda block: composed.append(block) if getattr(block, "composed", False) else None)
    try:
        for block in composed:  # MXNet's own operator is what others have
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
    """SpecError if checkpoints of another network have this prefix: they would lose theirs.

    Other names of the same arrays are another network, unless training goes on from one of them.
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
            f"{path}: is of another network, whose checkpoints could not be read without it; give "
            f"another --model-prefix"
        )


def save(net: Any, prefix: str, epoch: int) -> None:
    """Write the network as it is after `epoch` epochs.

    A reader, or a job that is ended meanwhile, sees a whole checkpoint or none. If the prefix has
    checkpoints with upstream's names, the new one has these too.
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
        for made in sorted(Path(folder).iterdir(), reverse=True):  # the symbol first
            made.replace(target.with_name(made.name))


def _names_of_prefix(net: Any, prefix: str) -> dict[str, str]:
    """The name of each parameter in the prefix's symbol; the network's own if it has none."""
    own = list(net.collect_params().keys())
    if Path(f"{prefix}-symbol.json").is_file():
        there = parameter_names(symbol_of(prefix))
        if set(there) != set(own):
            return dict(zip(parameter_names(symbol(net)), there, strict=True))
    return {name: name for name in own}


def parameter_names(of: Any) -> list[str]:
    """A symbol's parameters in order of use, those that training does not move last."""
    names = [*of.list_arguments(), *of.list_auxiliary_states()]
    return [name for name in names if name != "data" and not name.endswith("label")]


def _names_in(net: Any, theirs: Mapping[str, tuple[int, ...]]) -> dict[str, str] | None:
    """Their name of each parameter of the network; None if theirs is another network.

    `theirs` has their shapes in order of use. Other names than the network's own are matched by
    that order: what each array is for, as its name ends, and all shapes have to agree.
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
    """Of each batch normalization, in order of use, whether its scale is 1 whatever it holds."""
    nodes = [node for node in json.loads(of.tojson())["nodes"] if node["op"] == "BatchNorm"]
    return [node.get("attrs", {}).get("fix_gamma", "True") in {"True", "1"} for node in nodes]


def symbol_of(prefix: str) -> Any:
    """The network as MXNet's symbol; SpecError where there is none to read."""
    path = Path(f"{prefix}-symbol.json")
    try:
        return mx.sym.load_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror}; expected a checkpoint's network") from error
    except (mx.base.MXNetError, ValueError) as error:
        raise SpecError(f"{path}: is not a network that MXNet can read") from error


def parameters_of(prefix: str, epoch: int) -> dict[str, Any]:
    """Arrays by name, of weights and of running means alike; SpecError where there are none."""
    path = Path(f"{prefix}-{epoch:04d}.params")
    if not path.is_file():
        there = sorted(path.parent.glob(f"{path.name[: -len('-0000.params')]}-[0-9]*.params"))
        found = ", ".join(one.name for one in there) or "none"
        raise SpecError(f"{path}: expected a checkpoint's parameters; found {found}")
    try:
        loaded = mx.nd.load(str(path))
    except mx.base.MXNetError as error:
        raise SpecError(
            f"{path}: expected arrays that MXNet saved, got {path.stat().st_size} bytes that are "
            f"cut off or of another format; copy the checkpoint again, or load another epoch"
        ) from error
    if not isinstance(loaded, dict):
        raise SpecError(f"{path}: holds arrays without names; expected a checkpoint's parameters")
    return {name.removeprefix("arg:").removeprefix("aux:"): one for name, one in loaded.items()}


def load(net: Any, prefix: str, epoch: int) -> None:
    """Puts a checkpoint's parameters into a network of known shapes; SpecError where they differ.

    They may have upstream's names. How the optimizer stood is in no checkpoint: momentum begins
    anew.
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
                f"{where}: expected scales of normalizations that are fixed as upstream's are, got "
                f"trained ones; bench.fine_tune and bench.score can read it"
            )
    if names is None and len(saved) == len(list(wanted)):
        raise SpecError(
            f"{where}: expected {len(saved)} arrays of this network's shapes, got "
            f"others; give its --network, --num-classes and --image-shape"
        )
    if names is None:
        name = min(set(saved) ^ set(wanted))
        how = "lacks" if name in wanted else "has"
        raise SpecError(f"{where}: is of another network, it {how} {name}; give its --network")
    for name, parameter in wanted.items():
        array = saved[names[name]]
        if array.shape != parameter.shape:
            raise SpecError(
                f"{where}: {name} is {array.shape}, and this network's {parameter.shape}; "
                f"give its --num-classes and --image-shape"
            )
        parameter.set_data(array.astype(parameter.dtype))


def feature_network(prefix: str, epoch: int, layer: str, contexts: list[Any]) -> Any:
    """The network up to `layer`, or up to what its last full connection reads, as a Gluon block."""
    symbol = symbol_of(prefix)
    inside = symbol.get_internals()
    name = _output(inside, layer) if layer else _before_last(symbol)
    kept = inside[name]
    parameters = parameters_of(prefix, epoch)
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
    missing = sorted(set(parameter_names(symbol)) - set(parameters))
    if missing:
        raise SpecError(f"{prefix}: the parameters lack {', '.join(missing[:3])} of its network")
    if "data" not in wanted:
        raise SpecError(f"{prefix}: expected a network whose input is called 'data'")


def predictor(
    prefix: str, epoch: int, shape: tuple[int, ...], context: Any
) -> Callable[[Any], Any]:
    """What maps (N, C, H, W) images of `shape` to (N, classes), before or after a softmax."""
    symbol, parameters = symbol_of(prefix), parameters_of(prefix, epoch)
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
