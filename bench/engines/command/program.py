"""Engine `command`: one process per job runs a program and reads what it prints.

Loads no framework.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from bench.engines.engine import Engine, Place
from bench.errors import SpecError, error_line, quoted, unknown
from bench.logs.formats import FORMATS
from bench.settings.secrets import is_secret, masked_word

if TYPE_CHECKING:
    from bench.trial import Trial

# Formats with a throughput per interval of training.
PRINTED = {name: form for name, form in FORMATS.items() if form.rates}
# What `command` may contain, by its name in braces.
PLACEHOLDERS = {
    "hosts": "addresses of the hosts, separated by commas",
    "host_slots": "the same with the devices of each: 10.0.0.1:4,10.0.0.2:4",
    "port": "a free port of the first host",
    "devices": "devices of the whole job",
    "batch": "images per step and device",
    "global_batch": "images per step of the whole job",
    "gpus": "numbers of the GPUs on each host: 0,1,2,3; nothing on CPUs",
}
# {name} is a placeholder; {{name}} stands for the text {name}. Typing errors have these forms, too.
_NAME = r"\w[\w:!-]{0,63}"
PLACEHOLDER = re.compile(rf"\{{(?P<text>\{{{_NAME}\}})\}}|\{{(?P<name>{_NAME})\}}", re.ASCII)
_KNOWN = "|".join(PLACEHOLDERS)
_SPACED = re.compile(rf"\{{[ \t]*({_KNOWN})[ \t]*\}}")
_UNCLOSED = re.compile(rf"\{{[ \t]*({_KNOWN})[ \t]*$")
# Linux takes 128 KiB per word; the hosts of a job fill the placeholders.
_MOST_BYTES = 1 << 16
# A format whose logs do not show how workers exchange gradients.
_UNNAMED = "unknown"
_MODES = ("synthetic", "real")
# Options of Python that end its options with code, and those whose value is the next word.
_PYTHON_CODE = re.compile("-[bBdEhiIOPqRsSuvVx]*c.*", re.DOTALL)
_PYTHON_VALUES = {"-W", "-X"}
# As `launch.launch --style mpi` has them: HOST:DEVICES,...
HOSTS, PORT = "MXSCALE_HOSTS", "MXSCALE_PORT"


def _fill(given: dict[str, Any]) -> None:
    form = PRINTED.get(str(given.get("format")))
    own = form.kvstore if form else _UNNAMED
    given.setdefault("kvstore", "program" if own == _UNNAMED else own)
    given.setdefault("devices_per_worker", given["devices"])
    if form:
        given.setdefault("steps_per_window", form.steps)


def _check(trial: "Trial") -> None:
    own = trial.program
    if not own.command or not own.command[0]:
        fix = "Set command = ['PROGRAM', 'WORD', ...]"
        raise SpecError(error_line("command", expected="a program", got="none", fix=fix))
    if not own.format:
        expected = f"one of {', '.join(PRINTED)}"
        raise SpecError(error_line("format", expected=expected, got="none"))
    if own.format not in PRINTED:
        raise unknown("format", own.format, PRINTED)
    if trial.mode not in _MODES:
        expected, fix = "'synthetic' or 'real'", "Use engine 'mxnet' for it"
        raise SpecError(error_line("mode", expected=expected, got=quoted(trial.mode), fix=fix))
    size = sum(len(word.encode("utf-8", "replace")) for word in own.command)
    if size > _MOST_BYTES:
        fix = "Put its settings into a file that it reads"
        expected = f"at most {_MOST_BYTES:,} bytes"
        raise SpecError(error_line("command", expected=expected, got=f"{size:,}", fix=fix))
    for word in own.command:
        _check_word(word)
    _check_layout(trial)
    store = trial.layout.kvstore
    if not (store.strip() and store.isprintable()) or "async" in store:
        expected, fix = "a name for reports, of synchronous training", "Give another name"
        raise SpecError(error_line("kvstore", expected=expected, got=quoted(store), fix=fix))
    for name in ("options", "python", "data_train", "data_val"):
        if trial.value(name):
            problem = "the program has its own"
            raise SpecError(error_line(name, problem=problem, fix="Put it into command"))
    if trial.data.stop_accuracy < 1:
        problem = "the program decides when it stops"
        raise SpecError(error_line("stop_accuracy", problem=problem, fix="Leave it out"))


def _check_layout(trial: "Trial") -> None:
    own = trial.program
    layout, fix = trial.layout, "Leave it out"
    if layout.devices_per_worker != layout.devices:
        problem = "one process reports for the whole job"
        raise SpecError(error_line("devices_per_worker", problem=problem, fix=fix))
    if own.printers > layout.devices:
        expected = f"at most {layout.devices}, the devices of the job"
        fix = "Leave it out if one process prints"
        raise SpecError(error_line("printers", expected=expected, got=own.printers, fix=fix))
    if layout.servers_per_host or layout.server_hosts:
        where, problem = "servers_per_host, server_hosts", "the program starts its own servers"
        raise SpecError(error_line(where, problem=problem, fix="Leave them out"))


def _check_word(word: str) -> None:
    name = word.partition("=")[0]
    if "\0" in word:
        fix, got = "Remove it", quoted(word)
        raise SpecError(error_line("command", expected="words without a NUL", got=got, fix=fix))
    shown = masked_word(word)
    if shown != word or ("=" in word and is_secret(name)):
        fix = "Other users see command lines. Pass it in env"
        got = quoted(shown)
        raise SpecError(error_line("command", expected="no secret", got=got, fix=fix))
    for one in PLACEHOLDER.finditer(word):
        if one["name"] and one["name"] not in PLACEHOLDERS:
            problem = str(unknown("placeholder", one["name"], PLACEHOLDERS))
            fix = f"Write {{{one[0]}}} for the text {one[0]}"
            raise SpecError(error_line("command", problem=problem, fix=fix))
    rest = PLACEHOLDER.sub("", word)
    for form, fix in ((_SPACED, "Remove the spaces"), (_UNCLOSED, "Close the brace")):
        if found := form.search(rest):
            expected, got = f"{{{found[1]}}}", quoted(found[0])
            raise SpecError(error_line("command", expected=expected, got=got, fix=fix))


def filled(words: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Replace the placeholders in the words of a command, and {{text}} by {text}."""

    def replaced(found: re.Match[str]) -> str:
        return found["text"] or values.get(found["name"], found[0])

    return [PLACEHOLDER.sub(replaced, one) for one in words]


def placed(settings: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, str]:
    """Return the placeholders' values by a process's settings and variables."""
    slots = env.get(HOSTS, "")
    hosts = ",".join(one.rpartition(":")[0] for one in slots.split(","))
    own = {name: str(settings[name]) for name in ("devices", "batch", "global_batch", "gpus")}
    return own | {"hosts": hosts, "host_slots": slots, "port": env.get(PORT, "")}


def _environment(trial: "Trial", place: Place) -> dict[str, str]:
    return {
        HOSTS: ",".join(f"{address}:{devices}" for address, devices in place.hosts),
        PORT: str(place.root[1]),
    }


def _command(trial: "Trial", role: str, index: int) -> tuple[str, ...]:
    """Return module, settings and program; the settings are one JSON argument."""
    layout = trial.layout
    gpus = range(min(layout.devices, layout.devices_per_host)) if layout.device == "gpu" else ()
    settings = {
        "format": trial.program.format,
        "printers": trial.program.printers,
        "devices": layout.devices,
        "batch": trial.device_batch,
        "global_batch": trial.global_batch,
        "gpus": ",".join(map(str, gpus)),
        "steps": trial.measuring.steps_per_window,
        "warmup_windows": trial.measuring.warmup_windows,
        "windows": trial.total_windows,
        "precision": trial.measuring.precision,
        "budget_seconds": trial.measuring.budget_seconds,
    }
    return ("-m", "bench.engines.command.runner", json.dumps(settings), *trial.program.command)


def program_name(words: Sequence[str]) -> str:
    """Return the program's name; of Python, that of the script or module."""
    name = PurePath(words[0]).name
    if not name.startswith("python"):
        return name
    rest = iter(words[1:])
    for word in rest:
        if _PYTHON_CODE.fullmatch(word):
            return name
        if word in _PYTHON_VALUES:
            next(rest, "")
        elif not word.startswith("-"):
            return PurePath(word).name
    return name


def reported_by(trial: "Trial") -> str:
    """Return the source of its figures: 'reported by horovodrun (horovod-synthetic)'."""
    return f"reported by {program_name(trial.program.command)} ({trial.program.format})"


COMMAND = Engine(
    name="command",
    title="a program's own output",
    scripted=False,
    package="",
    install="",
    # A leftover of another job would make the program join it.
    foreign=("DMLC_", "PS_", "MASTER_", "RANK", "WORLD_SIZE", "TORCHELASTIC_"),
    comms={},
    root="worker-0",
    fill=_fill,
    check=_check,
    roles=lambda trial: (("worker", trial.workers),),
    environment=_environment,
    command=_command,
    wire_bytes=lambda comm, compression, gradient_bytes: 0,
    lacks=lambda facts, needs: "",
    no_code=lambda gpu, facts: "",
    software=lambda facts: "",
)
