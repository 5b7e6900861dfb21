"""Checkpoints: PREFIX-symbol.json and PREFIX-NNNN.params, which any program on MXNet loads."""

import tempfile
from pathlib import Path
from typing import Any

from bench.errors import SpecError
from bench.mxnet_import import mx


def make_room(prefix: str) -> None:
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


def check_network(net: Any, prefix: str, image_shape: tuple[int, ...]) -> None:
    """SpecError where checkpoints of another network have this prefix: they would lose theirs."""
    path = Path(f"{prefix}-symbol.json")
    if not path.is_file():
        return
    symbol = symbol_of(prefix)
    try:
        arguments, _, auxiliary = symbol.infer_shape(data=(1, *image_shape))
    except mx.base.MXNetError:
        arguments, auxiliary = [], []
    names = [*symbol.list_arguments(), *symbol.list_auxiliary_states()]
    there = dict(zip(names, [*(arguments or []), *(auxiliary or [])], strict=False))
    there.pop("data", None)
    if there != {name: one.shape for name, one in net.collect_params().items()}:
        raise SpecError(
            f"{path}: is of another network, whose checkpoints could not be read without it; give "
            f"another --model-prefix"
        )


def save(net: Any, prefix: str, epoch: int, sample: Any) -> None:
    """Writes the network as it is after `epoch` epochs; `sample` is a batch it is run on once.

    A reader, or a job that is ended meanwhile, sees a whole checkpoint or none.
    """
    net(sample)
    target = Path(prefix)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".saving-") as folder:
        net.export(str(Path(folder) / target.name), epoch=epoch)
        for name in (f"{target.name}-symbol.json", f"{target.name}-{epoch:04d}.params"):
            (Path(folder) / name).replace(target.with_name(name))


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
        raise SpecError(f"{path}: is damaged or holds no parameters") from error
    if not isinstance(loaded, dict):
        raise SpecError(f"{path}: holds arrays without names; expected a checkpoint's parameters")
    return {name.removeprefix("arg:").removeprefix("aux:"): one for name, one in loaded.items()}


def load(net: Any, prefix: str, epoch: int) -> None:
    """Puts a checkpoint's parameters into a network of known shapes; SpecError where they differ.

    How the optimiser stood is in no checkpoint: momentum begins anew.
    """
    saved, where = parameters_of(prefix, epoch), f"{prefix}-{epoch:04d}.params"
    wanted = net.collect_params()
    for name in sorted(set(saved) ^ set(wanted)):
        how = "lacks" if name in wanted else "has"
        raise SpecError(f"{where}: is of another network, it {how} {name}; give its --network")
    for name, parameter in wanted.items():
        if saved[name].shape != parameter.shape:
            raise SpecError(
                f"{where}: {name} is {saved[name].shape}, and this network's {parameter.shape}; "
                f"give its --num-classes and --image-shape"
            )
        parameter.set_data(saved[name].astype(parameter.dtype))
