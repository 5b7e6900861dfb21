"""Trial: one point of a sweep, with every setting that affects its result."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, get_args, get_origin

from bench.engines.catalog import find_engine
from bench.engines.engine import Comm, find_comm
from bench.engines.faults import Fault, fault
from bench.engines.options import FakeOptions, MxnetOptions, ProgramOptions, TorchOptions
from bench.errors import SpecError, error_line, quoted, unknown
from bench.kvstores import check_bandwidth
from bench.networks.catalog import NETWORKS, check_images, checked_layers, describe, named
from bench.settings import secrets
from bench.settings.declaration import Field, Role, checked, fields_of, setting
from bench.settings.parts import (
    MODES,
    MOST_DEVICES,
    PART_FIELDS,
    PARTS,
    Data,
    Layout,
    Measurement,
    Model,
    Training,
)
from bench.settings.secrets import MaskedText, masked_word


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One point of a sweep with all defaults filled in; `make` validates and fills.

    Sweeps, records and tables use the settings' stored names: see `FIELDS` and `fields`.
    """

    engine: str = setting(
        "Engine: mxnet and torch train, command runs a program, fake simulates",
        "mxnet",
        role=Role.ORIGIN,
    )
    mode: str = setting(
        "Measurement: training on synthetic or real images, input pipeline, or kvstore bandwidth",
        "synthetic",
        choices=MODES,
    )
    model: Model
    layout: Layout
    training: Training
    measuring: Measurement
    data: Data
    mxnet: MxnetOptions
    torch: TorchOptions
    program: ProgramOptions
    fake: FakeOptions

    @property
    def fields(self) -> dict[str, Any]:
        """All settings by stored name, in the order of records."""
        return dict(zip(FIELDS, _ALL(self), strict=True))

    def value(self, name: str) -> Any:
        """The setting of this stored name."""
        return _GETTERS[name](self)

    def replace(self, **fields: Any) -> "Trial":
        """Return the trial with other values of these settings, without validation."""
        return composed(self.fields | fields)

    @property
    def label(self) -> str:
        """The network's name in tables: 'resnet-152'; 'input, 4 threads' without training."""
        if self.mode != "test-io":
            return self.network_name
        threads = f"{self.data.nthreads} thread{'s' if self.data.nthreads > 1 else ''}"
        return f"{self.network_name}, {threads}{', cold' if self.mxnet.cold else ''}"

    @property
    def network_name(self) -> str:
        """The network with its layers: 'resnet-152'; 'input' if nothing is trained."""
        return (
            "input"
            if self.mode == "test-io"
            else describe(self.model.network, self.model.num_layers)
        )

    @property
    def store_name(self) -> str:
        """The kvstore in tables; 'test-io' for the input-pipeline benchmark."""
        return "test-io" if self.mode == "test-io" else self.layout.kvstore

    @property
    def name(self) -> str:
        """The point's name in texts: 'resnet-152 dist_sync x2'."""
        if self.mode == "test-io":
            return (
                f"test-io{self.label.removeprefix('input').replace(',', '')} x{self.layout.devices}"
            )
        what = f"{self.label} {self.layout.kvstore}"
        real = f" {self.mode}" if self.mode in {"real", "bandwidth"} else ""
        how = "" if self.training.dtype == "float32" else f" {self.training.dtype}"
        how += "" if self.training.gc_type == "none" else f" {self.training.gc_type}"
        how += "" if self.mxnet.costs == "none" else f" {self.mxnet.costs}-costs"
        return f"{what}{how}{real} x{self.layout.devices}"

    @property
    def scripted(self) -> bool:
        """Whether its engine simulates instead of measuring."""
        return find_engine(self.engine).scripted

    @property
    def reported(self) -> bool:
        """Whether its throughput is what a program reports, not measured by mxscale."""
        return bool(self.program.command) and not self.scripted

    @property
    def comm(self) -> Comm:
        """How its workers exchange gradients; stored as `kvstore`."""
        return find_comm(find_engine(self.engine).comms, self.layout.kvstore)

    @property
    def engines(self) -> tuple[str, ...]:
        """Names of the engines whose packages its workers load."""
        return tuple(name for name in (self.engine, self.comm.borrows) if name)

    @property
    def root(self) -> str:
        """Id of the process that its others meet at."""
        return find_engine(self.comm.borrows or self.engine).root

    @property
    def workers(self) -> int:
        """Number of worker processes of the job."""
        return self.layout.devices // self.layout.devices_per_worker

    @property
    def hosts(self) -> int:
        """Number of hosts of the job: those with workers, and those with servers only."""
        return self.worker_hosts + (self.layout.server_hosts if self.comm.servers else 0)

    @property
    def worker_hosts(self) -> int:
        """Number of hosts with workers."""
        return -(-self.layout.devices // self.layout.devices_per_host)

    @property
    def servers(self) -> int:
        """Number of server processes; 0 if its comm has none."""
        if not self.comm.servers:
            return 0
        hosts = self.layout.server_hosts or self.worker_hosts
        return hosts * self.layout.servers_per_host or self.layout.server_hosts or self.workers

    @property
    def worker_batch(self) -> int:
        """Images per step of the worker with the largest batch; upstream's --batch-size."""
        return self.worker_batches[0]

    @property
    def worker_batches(self) -> tuple[int, ...]:
        """Images per step by rank; the first ranks get the remainder of a fixed batch."""
        if not self.training.global_batch_fixed:
            return (self.training.batch_per_device * self.layout.devices_per_worker,) * self.workers
        each, more = divmod(self.training.global_batch_fixed, self.workers)
        return tuple(each + (rank < more) for rank in range(self.workers))

    @property
    def device_batch(self) -> int:
        """Images per step of the device with the largest batch."""
        return -(-self.worker_batch // self.layout.devices_per_worker)

    @property
    def global_batch(self) -> int:
        """Images per step of the whole job."""
        return sum(self.worker_batches)

    @property
    def asynchronous(self) -> bool:
        """Whether the ranks run without waiting for each other; readers of images do."""
        reads = self.mode == "test-io" and self.workers > 1
        return reads or not self.comm.waits

    @property
    def total_windows(self) -> int:
        """Maximum windows per worker including warm-up; 0: all of its epochs."""
        windows = self.measuring.windows
        return windows and self.measuring.warmup_windows + windows

    @property
    def scripted_windows(self) -> int:
        """Windows per worker of the simulated engine, including warm-up."""
        return self.measuring.warmup_windows + (self.measuring.windows or 10)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The faults that the simulated engine injects; SpecError for an impossible one."""
        roles = dict(reversed(find_engine(self.engine).roles(self)))
        return tuple(
            fault(text, roles=roles, windows=self.scripted_windows) for text in self.fake.faults
        )

    @cached_property
    def key(self) -> str:
        """Twelve hex digits that identify the settings."""
        fields = self.fields
        for name, field in FIELDS.items():
            if field.setting.later and fields[name] == field.default:
                del fields[name]
        fields["env"] = secrets.identified(self.layout.env)
        text = json.dumps(fields, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def masked(self) -> "Trial":
        """Return the trial with secrets masked and its original key."""
        env = tuple(map(secrets.masked_word, self.layout.env))
        if env == self.layout.env:
            return self
        made = self.replace(env=env)
        made.__dict__["key"] = self.key
        return made


# All settings by stored name, in the order of records.
FIELDS: dict[str, Field] = {field.name: field for field in fields_of(Trial)} | PART_FIELDS
# The general name of `kvstore` in sweeps and settings; other engines have other methods.
COMM = "comm"
_ALL = attrgetter(*(field.path for field in FIELDS.values()))
_GETTERS = {name: attrgetter(field.path) for name, field in FIELDS.items()}


def values_of(names: Iterable[str]) -> Callable[[Trial], tuple[Any, ...]]:
    """Return a getter of these settings of a trial, by two or more stored names."""
    return attrgetter(*(FIELDS[name].path for name in names))


def with_role(*roles: Role) -> tuple[str, ...]:
    """Return the stored names of the settings with one of these roles."""
    return tuple(name for name, field in FIELDS.items() if field.setting.role in roles)


def composed(fields: Mapping[str, Any]) -> Trial:
    """Build a trial without validation; TypeError for unknown or missing settings."""
    parts: dict[str, dict[str, Any]] = {part: {} for part in PARTS}
    own: dict[str, Any] = {}
    for name, value in fields.items():
        if name not in FIELDS:
            raise TypeError(f"no setting of a trial: {name}")
        part, _, attribute = FIELDS[name].path.rpartition(".")
        (parts[part] if part else own)[attribute] = value
    return Trial(**own, **{part: PARTS[part](**values) for part, values in parts.items()})


def make(fields: dict[str, Any]) -> Trial:
    """Build a trial from these fields, fill in defaults, validate; raises SpecError."""
    given = {name: checked(name, FIELDS[name].type, value) for name, value in fields.items()}
    given.setdefault("network", "tiny")
    given["num_layers"] = checked_layers(given["network"], given.get("num_layers"))
    given.setdefault("image_shape", NETWORKS[given["network"]].image_shape)
    given.setdefault("devices", 1)
    gpu = given.setdefault("device", "cpu") == "gpu"
    given.setdefault("devices_per_host", given["devices"])
    find_engine(given.get("engine", "mxnet")).fill(given)
    given.setdefault("steps_per_window", 10 if gpu else 1)
    if given.get("global_batch_fixed"):
        given.setdefault("batch_per_device", 0)
    if "batch_per_device" not in given:
        expected, fix = "a number of images", "Set batch_per_device = 32"
        raise SpecError(error_line("batch_per_device", expected=expected, got="none", fix=fix))
    given["env"] = tuple(map(secrets.setting, given.get("env", ())))
    trial = composed(given)
    check(trial)
    return trial


def check(trial: Trial) -> None:
    """Validate a trial; SpecError with the field, expected and actual value."""
    for (name, field), value in zip(FIELDS.items(), _ALL(trial), strict=True):
        if problem := field.setting.problem(value):
            raise SpecError(error_line(name, problem=problem))
    if trial.mxnet.costs != "none" and trial.mode != "synthetic":
        raise SpecError(error_line("costs", expected="mode 'synthetic'", got=quoted(trial.mode)))
    if trial.servers > MOST_DEVICES:
        raise SpecError(
            error_line("servers", expected=f"{MOST_DEVICES} or fewer", got=trial.servers)
        )
    if "\0" in trial.mxnet.python:
        raise SpecError(error_line("python", expected="a path", got=quoted(trial.mxnet.python)))
    for text in trial.layout.env:
        _check_variable(text)
    names = [text.partition("=")[0] for text in trial.layout.env]
    if len(set(names)) < len(names):
        raise SpecError(error_line("env", expected="each name once", got=", ".join(names)))
    find_engine(trial.engine).check(trial)
    _check_images(trial)
    _check_layout(trial)
    _check_batch(trial)
    _check_data(trial)
    _check_played(trial)


def _check_played(trial: Trial) -> None:
    played = trial.faults or trial.fake.seconds or trial.fake.noise or trial.fake.spread
    if played and not trial.scripted:
        raise SpecError(
            error_line(
                "fake_seconds, fake_faults, fake_noise, fake_spread",
                expected="engine 'fake'",
                got=quoted(trial.engine),
                fix="Add --engine fake",
            )
        )
    if any(seconds <= 0 for seconds in trial.fake.seconds):
        raise SpecError(
            error_line("fake_seconds", expected="seconds above 0", got=list(trial.fake.seconds))
        )


def _check_variable(text: str) -> None:
    name, equals, _ = text.partition("=")
    value = text.value or "" if isinstance(text, MaskedText) else text
    if not (name.isascii() and name.isidentifier()) or "\0" in value:
        shown = repr(str(text)) if equals else "neither (value hidden)"
        raise SpecError(error_line("env", expected="NAME=VALUE or NAME", got=shown))


def _check_images(trial: Trial) -> None:
    if min(trial.data.rgb_std, default=0) <= 0:
        raise SpecError(
            error_line("rgb_std", expected="numbers above 0", got=list(trial.data.rgb_std))
        )
    if len(trial.model.image_shape) != 3 or min(trial.model.image_shape) < 1:
        raise SpecError(
            error_line(
                "image_shape",
                expected="channels, height, width",
                got=",".join(map(str, trial.model.image_shape)),
            )
        )
    if trial.model.image_shape[0] not in {1, 3}:
        raise SpecError(
            error_line(
                "image_shape",
                expected="1 or 3 channels first",
                got=list(trial.model.image_shape),
                fix="Write [channels, height, width]",
            )
        )
    for name in ("rgb_mean", "rgb_std"):
        if len(trial.value(name)) != 3:
            raise SpecError(error_line(name, expected="3 numbers", got=len(trial.value(name))))
    if trial.mode != "test-io":
        check_images(trial.model.network, trial.model.num_layers, trial.model.image_shape)


def _check_layout(trial: Trial) -> None:
    layout = trial.layout
    if layout.devices % layout.devices_per_worker:
        raise SpecError(
            error_line(
                "devices",
                expected=f"a multiple of devices_per_worker = {layout.devices_per_worker}",
                got=layout.devices,
            )
        )
    alone = bool(trial.program.command)  # its one process stands for all hosts
    if layout.devices_per_worker > layout.devices_per_host and not alone:
        raise SpecError(
            error_line(
                "devices_per_worker",
                expected=f"at most devices_per_host = {layout.devices_per_host}",
                got=layout.devices_per_worker,
            )
        )
    uneven = layout.devices_per_host % layout.devices_per_worker
    if trial.worker_hosts > 1 and uneven and not alone:
        raise SpecError(
            error_line(
                "devices_per_worker",
                expected=f"a divisor of devices_per_host = {layout.devices_per_host}",
                got=layout.devices_per_worker,
            )
        )
    if trial.workers > 1 and trial.mode != "test-io" and not trial.comm.spans:
        raise SpecError(
            error_line(
                "devices",
                expected=(
                    f"at most {layout.devices_per_worker} with kvstore {quoted(layout.kvstore)}, "
                    "which has one worker"
                ),
                got=f"{layout.devices} ({trial.workers} workers)",
                fix="Use kvstore 'ddp'" if trial.engine == "torch" else "Use a dist_... kvstore",
            )
        )


def _check_batch(trial: Trial) -> None:
    layout, each = trial.layout, trial.training.batch_per_device
    fixed = trial.training.global_batch_fixed
    if not fixed and each < 1:
        raise SpecError(error_line("batch_per_device", expected="1 or more", got=each))
    if fixed and each:
        raise SpecError(
            error_line(
                "global_batch_fixed",
                expected="it or batch_per_device",
                got=f"both ({fixed}, {each})",
                fix="Give one of them (--auto-batch finds the latter)",
            )
        )
    if fixed and fixed // trial.workers < layout.devices_per_worker:
        raise SpecError(
            error_line(
                "global_batch_fixed",
                expected=f"at least one image per device ({layout.devices} devices)",
                got=fixed,
            )
        )


def _check_data(trial: Trial) -> None:
    alone = bool(trial.program.command)  # it reads its own data, and trains as long as it likes
    reads = trial.mode in {"real", "test-io"} and not alone
    if not reads and (trial.data.train or trial.data.val):
        raise SpecError(
            error_line(
                "data_train, data_val",
                problem=f"mode {quoted(trial.mode)} reads no data",
                fix="Use mode = 'real'",
            )
        )
    if reads and not trial.data.train:
        raise SpecError(
            error_line(
                "data_train", expected=f".rec files in mode {quoted(trial.mode)}", got="none"
            )
        )
    if not 0 <= trial.data.stop_accuracy <= 1:
        raise SpecError(
            error_line(
                "stop_accuracy",
                expected="a fraction from 0 to 1",
                got=trial.data.stop_accuracy,
                fix="Give 0.9 for 90 %",
            )
        )
    if trial.data.stop_accuracy < 1 and not trial.data.val:
        raise SpecError(
            error_line("stop_accuracy", expected="data_val", got="none", fix="Set data_val")
        )
    if not (reads or alone) and trial.measuring.windows == 0:
        raise SpecError(
            error_line(
                "windows", expected="1 or more on synthetic data, which has no epochs", got="0"
            )
        )
    if trial.mode == "bandwidth" and not (
        trial.comm.servers and trial.layout.devices_per_worker == 1
    ):
        raise SpecError(
            error_line(
                "mode",
                expected="a kvstore with servers (dist_...) and 1 device per worker",
                got=f"{quoted(trial.layout.kvstore)} and {trial.layout.devices_per_worker}",
            )
        )
    if trial.mode == "bandwidth":
        check_bandwidth(trial.layout.kvstore)
    if trial.mxnet.cold and trial.mode != "test-io":
        raise SpecError(error_line("cold", expected="mode 'test-io'", got=quoted(trial.mode)))
    if trial.mode == "test-io" and trial.comm.spans:
        raise SpecError(
            error_line(
                "kvstore",
                expected="one process (local) for test-io",
                got=quoted(trial.layout.kvstore),
            )
        )
    if trial.mode == "test-io" and (trial.worker_hosts, trial.layout.devices_per_worker) != (1, 1):
        raise SpecError(
            error_line(
                "devices",
                expected="one host for test-io, and devices_per_worker = 1",
                got=f"{trial.worker_hosts} and {trial.layout.devices_per_worker}",
            )
        )


# A comma or space separates settings only before NAME=, so that image_shape=3,64,64 is one.
_BETWEEN = re.compile(r"[,\s]+(?=[A-Za-z_][\w.]*=)")
_DERIVED = ("image_shape", "devices_per_worker", "devices_per_host", "steps_per_window")


def changed(trial: Trial, text: str) -> Trial:
    """Apply FIELD=VALUE and env.NAME=VALUE settings to a trial.

    Settings that depend on them are derived again. Raises SpecError with the invalid setting.
    """
    fields, seen = given_settings(trial), set[str]()
    for one in filter(None, _BETWEEN.split(text.strip())):
        name, equals, value = one.partition("=")
        name = "kvstore" if name == COMM else name
        if name in seen:
            raise SpecError(
                error_line(
                    quoted(shown(text)),
                    expected=f"one value of {name}",
                    got="two",
                    fix="Leave one of them out",
                )
            )
        seen.add(name)
        if not equals:
            raise SpecError(
                error_line("settings", expected="FIELD=VALUE or env.NAME=VALUE", got=quoted(one))
            )
        if name.startswith("env."):
            name = name.removeprefix("env.")
            others = (one for one in fields["env"] if one.partition("=")[0] != name)
            fields["env"] = (*others, f"{name}={value}")
        elif name == "network":
            fields["network"], fields["num_layers"] = named(value)
        elif name in FIELDS and name != "env":
            fields[name] = _value(FIELDS[name].type, value)
        else:
            variable = f"env.{name if name.isupper() else 'NAME'}"
            raise unknown("setting", name, [*(one for one in FIELDS if one != "env"), variable])
    try:
        return make(fields)
    except SpecError as error:
        raise SpecError(error_line(quoted(shown(text)), problem=str(error))) from error


def shown(text: str) -> str:
    """Return the settings as typed, secrets masked."""
    return " ".join(map(masked_word, _BETWEEN.split(text.strip())))


def given_settings(trial: Trial) -> dict[str, Any]:
    """Return the fields without derived ones: another kvstore has other workers."""
    fields = trial.fields
    for name in _DERIVED:
        fewer = {other: value for other, value in fields.items() if other != name}
        with suppress(SpecError):  # a value of another tool or version
            fields = fewer if make(fewer) == trial else fields
    return fields


def _value(kind: Any, text: str) -> Any:
    """Convert a typed value as TOML would; `make` rejects values of a wrong type."""
    if get_origin(kind) is tuple:
        return [_value(get_args(kind)[0], part.strip()) for part in text.split(",") if part]
    if kind is str:
        return text
    if kind is bool:
        return {"true": True, "false": False}.get(text, text)
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text
