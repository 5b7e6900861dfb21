"""Protocol of programs on hosts: the check of every message that a host sends.

Pure.

A host is trusted for its own processes only. A line that begins like a message must be one of a
known kind, with fields of the right types and ranges; otherwise ProtocolError. Other lines are
noise and are skipped. Unknown fields are dropped.
"""

import ipaddress
import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NoReturn, NotRequired, TypedDict

import msgspec
from msgspec import Meta

from launch.remote.errors import ProtocolError

# Of a message: an agent sends what a pipe held and a line of 1 MiB, at most six bytes per byte.
MOST_LINE = 8 << 20
# Of noise, such as the output of a program that a start-up file left running.
_MOST_NOISE = 16 << 20
_MOST = 10**15

_Word = Annotated[str, Meta(max_length=4096)]
_Text = Annotated[str, Meta(max_length=1 << 16)]
# Upper limit of an environment variable of Linux, and of a line of pip.
_Long = Annotated[str, Meta(max_length=1 << 20)]
_Id = Annotated[str, Meta(max_length=100)]
_Whole = Annotated[int, Meta(ge=0, le=_MOST)]
_Bytes = Annotated[int, Meta(ge=0, le=2**62)]
_Crc = Annotated[int, Meta(ge=0, lt=2**32)]
_Number = Annotated[float, Meta(ge=0, le=1e15)]
_Share = Annotated[float, Meta(ge=0, le=1)]
_Celsius = Annotated[float, Meta(ge=0, le=200)]
_Port = Annotated[int, Meta(ge=0, le=65535)]
_ExitCode = Annotated[int, Meta(ge=-255, le=255)]
_Signal = Annotated[int, Meta(ge=1, le=128)]
_Words = Annotated[list[_Word], Meta(max_length=10_000)]
_Cores = Annotated[list[Annotated[int, Meta(ge=0, le=10**6)]], Meta(min_length=1)]


def _object(required: dict[str, Any], optional: dict[str, Any] | None = None) -> Any:
    """Return the type of a JSON object with these fields."""
    fields = required | {name: NotRequired[one] for name, one in (optional or {}).items()}
    return TypedDict("_Object", fields)  # type: ignore[operator] # its fields stand in a table


def _list(of: Any, most: int | None = None) -> Any:
    return Annotated[list[of], Meta(max_length=most)]


# Bytes in and out of each network interface.
_NETWORK = Annotated[dict[_Word, tuple[_Bytes, _Bytes]], Meta(max_length=100)]
# All fields, or none while no process runs. Energy of RAPL and nvidia-smi, or why not available.
_MACHINE = _object(
    {},
    {
        "machine": _Word,
        "cores": _Whole,
        "busy": _Number,
        "ours": _Number,
        "stolen": _Number,
        "swapped": _Whole,
        "throttled": _Whole,
        "network": _NETWORK,
        "retransmits": _Whole,
        "clock": _Number,
        "gpu_programs": _list(_Whole, 10_000),
        "energy": _object({}, {"rapl": _Number | _Word, "gpu": _Number | _Word}),
    },
)
_GPU_FACTS = ("index", "name", "memory", "used", "compute_cap", "mig", "driver")
_HOLDER = {"user": _Word, "master": _Word, "process": _Whole, "since": _Word, "pid": _Whole}
_OTHERS = _list(_object({"user": _Word, "pid": _Whole}), 100)
_ADDRESSES = {"addresses": dict[_Word, _Word], "reached": _list(_Word, 1)}
# What launch/remote/facts.py and bench/libraries.py find.
_FACTS = _ADDRESSES | {
    "hostname": _Word,
    "user": _Word,
    "machine": _Word,
    "system": _Word,
    "architecture": _Word,
    "processor": _Word,
    "cpu_flags": _Words,
    "cores": _Cores,
    "load": _Number,
    "memory_mib": _Whole,
    "available_mib": _Whole,
    "master": _list(_Word, 1),
    "disk": _Text,
    "free_bytes": _Bytes,
    "disk_problem": _Text,
    "disk_denied": bool,
    "gpus": _list(_object(dict.fromkeys(_GPU_FACTS, _Word)), 1000),
    "gpu_problem": _Text,
    "gpu_processes": _list(_Whole, 10_000),
    "tree": _Text,
    "code": _Word,
    "code_problem": _Text,
    "commit": _Word,
    "shell": _Text,
    "login_shell": _Text,
    "python": _Word,
    "mxnet": _Word,
    "dist_kvstore": bool,
    "cuda": bool,
    "libraries": _Words,
    "python_problem": _Text,
    "variables": dict[_Word, _Long],
    "holder": _object({}, _HOLDER),
    "others": _OTHERS,
    "time": _Number,
}
_OTHER_FACTS = {
    "cuda_driver": _Word,
    "torch": _Word,
    "torch_cuda": _Word,
    "torch_archs": _Words,
    "python_variables": _Words,
    "features": _Words,
    "numpy": _Word,
    "simplejpeg": _Word,
    "opencv": dict[_Word, _Word],
    "cuda_runtime": _Word,
}
# What a host holds of one data set: bench/data/partition.py.
_DATA_SET = _object({"lines": list[_Word], "share": tuple[_Whole, _Whole] | None})
# What its disk delivers: bench/data/disk.py.
_DISK = {
    "data_bytes": _Bytes,
    "data_images": _Whole,
    "cached": _Number | None,
    "ordered_bytes": _Bytes,
    "ordered_seconds": _Number,
    "random_bytes": _Bytes,
    "random_images": _Whole,
    "random_seconds": _Number,
}
# What a host has of a file: all of it, as it was pushed; contents of this checksum; nothing.
_FILE = Literal["same"] | _object({"crc": _Crc}, {"part": _Bytes}) | None

Kinds = Mapping[bytes, msgspec.json.Decoder[Any]]


def _kinds(**types: Any) -> Kinds:
    objects = {name: _object(one) if isinstance(one, dict) else one for name, one in types.items()}
    return {name.encode(): msgspec.json.Decoder(one) for name, one in objects.items()}


AGENT = _kinds(
    hello={"pid": _Whole},
    beat=_object(
        {
            "at": _Number,
            "stopped": list[_Id],
            "cpu": dict[_Id, _Number],
            "gpu": dict[_Id, _Share],
            "machine": _MACHINE,
        },
        {
            "delay": dict[_Id, _Number],
            "gpu_temperature": dict[_Id, _Celsius],
            "gpu_clock": dict[_Id, _Share],
            "gpu_at": _Number,
        },
    ),
    started={"id": _Id, "pid": _Whole},
    refused={"id": _Id, "why": _Text},
    event={"id": _Id, "lines": list[str]},
    output={"id": _Id, "lines": list[str]},
    exit=_object({"id": _Id}, {"code": _ExitCode, "signal": _Signal, "oom": bool}),
    stopped={},
    leased={},
    port=_object({"port": _Port}, {"why": _Text}),
    ending={"why": _Text, "stopped": bool},
    rejected={"why": _Text},
)
# Of programs that answer one question with one message; of those that take or compare files.
ANSWERS = _kinds(
    facts=_object(_FACTS, _OTHER_FACTS),
    where=_ADDRESSES,
    usage={"programs": _Whole, "cores": _Number, "of": _Whole},
    contents={"contents": _list(_DATA_SET)},
    disk=_DISK,
    listening={"port": Annotated[int, Meta(ge=1, le=65535)]},
    reached={"failed": dict[_Word, _Text]},
    measured={"ms": _Number, "mb_s": _Number},
    failed={"why": _Text},
    broken={"why": _Text},
    ended=_object({"owner": _Text}, {"left": bool, "others": _OTHERS}),
    done={"code": int, "lines": _list(_Long, 100)},
    progress={"step": _Word, "done": _Bytes, "total": _Bytes},
    lacking={},
)
RECEIVER = _kinds(
    has={"files": _list(_FILE)},
    finished={},
    failed={"why": _Text},
    beat={"done": _Bytes, "total": _Bytes},
    compared={"differs": list[tuple[_Text, _Text]], "strange": list[_Text]},
)
_SAY = re.compile(rb'\{"say": ?"([a-z]{1,16})"')
_BEGINNING = b'{"say"'
# What a terminal takes for a command: CSI, OSC and the short ones.
_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b[\]PX^_]|\x9d)[^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -~]?"
)


def parse_message(line: bytes, kinds: Kinds) -> tuple[str, dict[str, Any]] | None:
    """Parse a line into the kind and the fields of a message; None for noise.

    ProtocolError if it is not a message of these kinds. All texts except the output of processes
    are cleaned.
    """
    if not line.startswith(_BEGINNING):
        return None
    found = _SAY.match(line)
    decoder = kinds.get(found[1]) if found else None
    if found is None or decoder is None:
        raise ProtocolError(f"expected a message of a known kind, got {_shown(line)}")
    say = found[1].decode()
    try:
        values: dict[str, Any] = decoder.decode(line)
    except RecursionError:
        raise ProtocolError(f"{say}: expected a message, got one nested too deeply") from None
    except msgspec.ValidationError as error:
        raise ProtocolError(f"{say}: {_cut(str(error))}") from None
    except ValueError:  # such as a surrogate, of a file name that is not UTF-8
        try:
            values = msgspec.convert(json.loads(line, parse_constant=_refuse), decoder.type)
        except msgspec.ValidationError as error:
            raise ProtocolError(f"{say}: {_cut(str(error))}") from None
        except (ValueError, RecursionError):
            raise ProtocolError(f"{say}: expected JSON, got {_shown(line)}") from None
    return say, values if say in {"output", "event"} else clean(values)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _shown(line: bytes) -> str:
    return ascii(line[:60].decode("utf-8", "replace"))


def _cut(text: str) -> str:
    return str(clean(text))[:200]


def clean(value: Any) -> Any:
    """Return the values of a message without escape sequences in their texts."""
    if isinstance(value, str):
        if value.isprintable():
            return value
        return "".join(c if c.isprintable() else " " for c in _ESCAPE.sub("", value))
    if isinstance(value, list):
        return [clean(one) for one in value]
    if isinstance(value, dict):
        return {clean(name): clean(one) for name, one in value.items()}
    return value


class Noise:
    """Lines of a host that are no messages: skipped, up to a limit."""

    def __init__(self) -> None:
        self._bytes = 0

    def skip(self, line: bytes) -> None:
        """Skip a line that is no message; ProtocolError if there are too many."""
        self._bytes += len(line) + 1
        if self._bytes > _MOST_NOISE:
            raise ProtocolError(
                f"expected messages, got over {_MOST_NOISE >> 20} MiB of other output, the last "
                f"{_shown(line)}"
            )


def parse_answer(line: bytes, number: int) -> tuple[str, dict[str, Any]] | None:
    """Parse the answer to the request of this number into its kind and its fields.

    None for noise, and for answers to other requests.
    """
    if not line.startswith(_BEGINNING) or _number(line) != number:
        return None
    found = parse_message(line, ANSWERS)
    if found is not None:
        for address in found[1].get("addresses", {}).values():
            if not is_ipv4(address):
                raise ProtocolError(f"{found[0]}: expected IPv4 addresses, got {address[:60]!a}")
    return found


class _MessageNumber(msgspec.Struct):
    n: Any = None


def _number(line: bytes) -> Any:
    """Return the number of the request of an answer; ProtocolError if it is no JSON."""
    try:
        return msgspec.json.decode(line, type=_MessageNumber).n
    except RecursionError:
        raise ProtocolError("expected an answer, got one nested too deeply") from None
    except ValueError:
        try:
            return json.loads(line)["n"]
        except (ValueError, LookupError, RecursionError):
            raise ProtocolError(f"expected an answer as JSON, got {_shown(line)}") from None


def is_ipv4(text: str) -> bool:
    """Return whether it is a numeric IPv4 address, as MXNet's parameter server needs."""
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True


# Messages that an agent sends once for each command.
_ANSWERS = {"leased": "lease", "port": "port", "stopped": "stop"}
# An agent sends one heartbeat per second; after a suspension of this machine many come at once.
_BEATS_AHEAD, _BEATS_PER_SECOND = 60, 2.0
_MACHINE = frozenset(("machine", "cores", "busy", "ours", "gpu_programs"))


class AgentMessages:
    """Check of an agent's messages against the commands that it received.

    No clock of its own; two threads may call `asked` and `read`.
    """

    def __init__(self, now: float) -> None:
        self._processes: dict[str, str] = {}
        self._over = False
        self._asked: Counter[str] = Counter(hello=1)
        self._began, self._beats = now, 0

    def asked(self, command: Mapping[str, Any]) -> None:
        """Take a command that is sent to the agent."""
        do = command["do"]
        if do == "start":
            if self._over:  # another job, whose processes may have the same names
                self._processes, self._over = {}, False
            self._processes[command["id"]] = "asked"
        self._over = self._over or do == "stop"
        self._asked[do] += 1

    def read(self, line: bytes, now: float) -> tuple[str, dict[str, Any]] | None:
        """Parse a line into kind and fields; None for noise. ProtocolError if not allowed."""
        found = parse_message(line, AGENT)
        if found is None:
            return None
        say, values = found
        if say in {"event", "output"}:
            if values["id"] not in self._processes:
                self._refuse_id(say, values["id"])
        elif say == "beat":
            self._beat(values, now)
        elif say in {"started", "refused", "exit"}:
            self._turn(say, values)
        elif say == "rejected":
            raise ProtocolError(f"rejected a command: {values['why']}")
        elif say != "ending":
            command = _ANSWERS.get(say, say)
            if self._asked[command] < 1:
                raise ProtocolError(f"{say}: expected no answer without a command")
            self._asked[command] -= 1
        return found

    def _refuse_id(self, say: str, name: str) -> NoReturn:
        raise ProtocolError(f"{say}: expected a process of this host, got {name[:60]!a}")

    def _turn(self, say: str, values: dict[str, Any]) -> None:
        """Check that a process starts once and ends once."""
        name = values["id"]
        if name not in self._processes:
            self._refuse_id(say, name)
        known = self._processes[name]
        if known == "ended" or (say in {"started", "refused"} and known != "asked"):
            raise ProtocolError(f"{say}: {name} was reported twice")
        if say == "exit" and len({"code", "signal"} & set(values)) != 1:
            raise ProtocolError("exit: expected an exit code or a signal")
        self._processes[name] = "started" if say == "started" else "ended"

    def _beat(self, values: dict[str, Any], now: float) -> None:
        self._beats += 1
        if self._beats > _BEATS_AHEAD + _BEATS_PER_SECOND * (now - self._began):
            raise ProtocolError("beat: expected one per second, got more than twice as many")
        for name in (*values["cpu"], *values.get("delay", ()), *values["stopped"]):
            if name not in self._processes:
                self._refuse_id("beat", name)
        if values.get("gpu_at", 0.0) > values["at"]:
            raise ProtocolError("beat: expected an answer of nvidia-smi before the heartbeat")
        machine = values["machine"]
        if machine and not machine.keys() >= _MACHINE:
            raise ProtocolError(f"beat: expected the machine's {', '.join(sorted(_MACHINE))}")
