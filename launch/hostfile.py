"""Host lists in the formats of launchers, schedulers and clouds."""

import ipaddress
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from bench.errors import error_line, is_whole, quoted
from launch.remote.errors import LaunchError

# Upper limits of hosts, devices and bytes; more are a mistake.
MOST = 10_000
LARGEST_FILE = 1 << 20

_NODE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def nodelist(text: str, where: str = "$SLURM_JOB_NODELIST") -> tuple[str, ...]:
    """Expand 'tux[1-3,07],login': zeros are kept, several brackets multiply.

    Raises LaunchError.
    """
    names: list[str] = []
    for group in re.split(r",(?![^\[\]]*\])", text):
        parts = re.split(r"\[([^\[\]]*)\]", group)
        choices = [_numbers(part, where) if at % 2 else [part] for at, part in enumerate(parts)]
        if len(names) + math.prod(map(len, choices)) > MOST:
            raise LaunchError(
                error_line(where, expected=f"at most {MOST} hosts", got=quoted(group))
            )
        names += map("".join, product(*choices))
    for name in names:
        if not _NODE_NAME.fullmatch(name):
            raise LaunchError(
                error_line(where, expected="names as in 'tux[1-3,07],login'", got=quoted(name))
            )
    return tuple(names)


def _numbers(text: str, where: str) -> list[str]:
    """Expand '1-3,07'; each number is as wide as the first of its range."""
    numbers: list[str] = []
    for span in text.split(","):
        low, dash, high = span.partition("-")
        high = high if dash else low
        if not (is_whole(low) and is_whole(high) and 0 <= int(high) - int(low) < MOST):
            raise LaunchError(
                error_line(where, expected="numbers as '1-3,07' in brackets", got=quoted(span))
            )
        numbers += [f"{number:0{len(low)}}" for number in range(int(low), int(high) + 1)]
    return numbers


def gpus_per_node(environ: Mapping[str, str], nodes: int) -> int | None:
    """Return the GPUs per node of a Slurm job; None if Slurm sets no plain number."""
    # SLURM_GPUS_ON_NODE counts this node's GPUs; GPUs requested in total or per task may be spread
    # unevenly. SLURM_JOB_GPUS is no count: it lists the GPUs' indices.
    shared_out = not environ.keys().isdisjoint({"SLURM_GPUS", "SLURM_GPUS_PER_TASK"})
    here = "" if shared_out and nodes > 1 else environ.get("SLURM_GPUS_ON_NODE", "")
    counts = (environ.get("SLURM_GPUS_PER_NODE", ""), here)
    return next((int(text) for text in counts if is_whole(text) and int(text) > 0), None)


# Meaning of N in 'host:N': the SSH port in a file for MXNet's launcher, devices in one for MPICH.
FORMATS = ("dmlc", "mpich")
# Host list of Amazon's deep learning images, unless a variable names another file.
AMAZON = Path("/opt/deeplearning/workers")
# In --hosts, N is the number of devices, as for Horovod, unless it is likely an SSH port.
_INLINE, _MOST_INLINE, _SSH_PORT = "inline", 128, 22
_LABEL = r"[A-Za-z0-9_][A-Za-z0-9_-]{0,62}"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_SIX = r"[0-9A-Fa-f:.]+(?:%[A-Za-z0-9._-]+)?"
_HOST = re.compile(
    r"(?P<user>[A-Za-z0-9_][A-Za-z0-9._-]*@)?"
    rf"(?:\[(?P<boxed>{_SIX})\]|(?P<bare>(?=[^:]*:[^:]*:){_SIX})|(?P<name>{_NAME.pattern}))"
    r"(?::(?P<number>[^:]+))?"
)


@dataclass(frozen=True, kw_only=True)
class HostEntry:
    """A listed host: its SSH target and its number of devices.

    target  'node01', 'ubuntu@node01', '192.0.2.1', '2001:db8::1': no port, no brackets
    port    SSH port, if listed
    slots   devices, if listed
    """

    target: str
    port: int | None = None
    slots: int | None = None


def find(
    hostfile: str, hosts: str, format: str, environ: Mapping[str, str]
) -> tuple[HostEntry, ...]:
    """Return the hosts of an option or of the environment; none if neither lists any.

    In this order: --hosts or --hostfile, $DEEPLEARNING_WORKERS_PATH, the Slurm allocation of this
    process, the default file of Amazon's images. Raises LaunchError.
    """
    _check_format(format)
    if hosts and hostfile:
        raise LaunchError(
            error_line("--hosts", expected="no --hostfile", got="both", fix="Leave one of them out")
        )
    if hosts:
        return inline(hosts, "--hosts", format)
    if hostfile:
        return read(Path(hostfile), format)
    if workers := environ.get("DEEPLEARNING_WORKERS_PATH"):
        where = f"$DEEPLEARNING_WORKERS_PATH: {workers}"
        return parse(_text(Path(workers), where), where, format)
    if nodes := environ.get("SLURM_JOB_NODELIST"):
        names = nodelist(nodes)
        found = inline(",".join(names), "$SLURM_JOB_NODELIST")
        return tuple(replace(host, slots=gpus_per_node(environ, len(names))) for host in found)
    return read(AMAZON, format) if os.access(AMAZON, os.R_OK) else ()


def read(path: Path, format: str = "") -> tuple[HostEntry, ...]:
    """Parse a hosts file. Raises LaunchError, which names the wrong line."""
    return parse(_text(path, str(path)), str(path), format)


def parse(text: str, where: str, format: str = "") -> tuple[HostEntry, ...]:
    """Parse a text with one host per line; messages name lines as 'where:3'.

    Raises LaunchError, which names the wrong line.
    """
    _check_format(format)
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    contents = ((f"{where}:{n}", line.partition("#")[0]) for n, line in enumerate(lines, 1))
    listed = [(place, _line(text, place, format)) for place, text in contents if text.strip(" \t")]
    if not listed:
        raise LaunchError(
            error_line(
                where,
                expected="one host per line, as 'HOST', 'HOST slots=N' or 'HOST:N'",
                got="none",
            )
        )
    return _distinct(listed)


def inline(text: str, where: str, format: str = "") -> tuple[HostEntry, ...]:
    """Parse 'h1:4,h2:4' (hosts with devices, as for Horovod) or 'h1,h2'.

    A number that may be an SSH port needs a format, as in a file. Raises LaunchError, which names
    the wrong entry.
    """
    entries = ((f"{where}, host {n}", entry) for n, entry in enumerate(text.split(","), 1))
    return _distinct([(place, _line(entry, place, format or _INLINE)) for place, entry in entries])


def _ambiguous(where: str, word: str) -> LaunchError:
    return LaunchError(
        error_line(
            where,
            expected="a clear meaning of N",
            got=quoted(word),
            fix=(
                "Use --hosts-format dmlc if N is an SSH port, --hosts-format mpich if it is the "
                "number of devices"
            ),
        )
    )


def with_devices(
    listed: Sequence[HostEntry], devices_per_node: int | None
) -> tuple[tuple[HostEntry, ...], tuple[str, ...]]:
    """Return the hosts with an equal number of devices, and notes for the user.

    `devices_per_node` overrides listed numbers. Raises LaunchError if neither gives a number.
    """
    if devices_per_node is not None:
        _whole(str(devices_per_node), MOST, "--devices-per-node", "N")
        other = [host.target for host in listed if host.slots not in {None, devices_per_node}]
        note = (
            f"{_several(other)}: --devices-per-node {devices_per_node} overrides the listed number"
        )
        equal = tuple(replace(host, slots=devices_per_node) for host in listed)
        return equal, (note,) if other else ()
    if missing := [host.target for host in listed if host.slots is None]:
        raise LaunchError(
            error_line(
                _several(missing),
                expected="a number of devices",
                got="none",
                fix="Add slots=N to the line of each host, or use --devices-per-node N",
            )
        )
    counts = [(host.slots, host.target) for host in listed if host.slots is not None]
    if len({slots for slots, _ in counts}) < 2:
        return tuple(listed), ()
    (fewest, poor), (most, rich) = min(counts), max(counts)
    note = f"devices: {poor} has {fewest}, {rich} has {most}; a sweep uses {fewest} on each host"
    return tuple(replace(host, slots=fewest) for host in listed), (note,)


def _several(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _text(path: Path, where: str) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise LaunchError(
            error_line(
                where,
                expected="a file with one host per line",
                problem=f"cannot be read ({error.strerror})",
                fix="Check the path after --hostfile",
            )
        ) from None
    text = content.decode("utf-8", errors="replace")
    if "\0" in text or "\ufffd" in text or len(content) > LARGEST_FILE:
        raise LaunchError(
            error_line(
                where,
                expected="UTF-8 text of at most 1 MB with one host per line",
                got="other data",
            )
        )
    return text


def _check_format(format: str) -> None:
    if format and format not in FORMATS:
        raise LaunchError(
            error_line(
                "--hosts-format",
                expected=" or ".join(FORMATS),
                got=quoted(format),
                fix="See docs/reference/hosts-file.md",
            )
        )


def _line(content: str, where: str, format: str) -> HostEntry:
    word, *words = re.findall(r"[^ \t]+", content) or [""]
    target, number = _target(word, where)
    if ":" in target or not target.strip("0123456789."):  # 'ADDRESS NAME...', as in /etc/hosts
        while words and _NAME.fullmatch(words[0]) and _can_be(words[0]):
            words = words[1:]
    slots = _counts(words, where)
    if number is None:
        return HostEntry(target=target, slots=slots)
    value = int(number) if is_whole(number) else 0
    if format == _INLINE and (value > _MOST_INLINE or value == _SSH_PORT):
        raise _ambiguous(where, word)
    if format in {"mpich", _INLINE} and slots is None:
        return HostEntry(target=target, slots=_whole(number, MOST, where, "devices"))
    # With slots=N the number can only be a port.
    if format == "dmlc" or (slots is not None and not format):
        port = _whole(number, 65535, where, "an SSH port")
        return HostEntry(target=target, port=port, slots=slots)
    if format:
        raise LaunchError(
            error_line(where, expected="the number of devices once", got=quoted(content.strip()))
        )
    raise _ambiguous(where, word)


def _target(word: str, where: str) -> tuple[str, str | None]:
    """Return the target at the begin of a line, and the text after its colon."""
    found = _HOST.fullmatch(word)
    host = found and (found["boxed"] or found["bare"] or found["name"])
    if found is None or host is None or not _can_be(host):
        raise LaunchError(
            error_line(
                where,
                expected="a host such as node01, user@node01, 192.0.2.1 or [2001:db8::1]",
                got=quoted(word),
            )
        )
    return (found["user"] or "") + host, found["number"]


def _can_be(host: str) -> bool:
    """Whether a text is a valid host.

    192.0.2 is not, though resolvers read it as 192.0.0.2.
    """
    if ":" in host or not host.strip("0123456789."):
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return False
    return len(host) <= 253


def _counts(words: Iterable[str], where: str) -> int | None:
    """Return the N of slots=N, if given; max_slots, Open MPI's limit, is only checked."""
    counts: dict[str, int] = {}
    for word in words:
        key, _, value = word.replace("max-slots", "max_slots").partition("=")
        if key not in {"slots", "max_slots"} or key in counts:
            raise LaunchError(
                error_line(
                    where,
                    expected="slots=N or max_slots=N, each once",
                    got=quoted(word),
                    fix="Write an SSH port as HOST:PORT slots=N",
                )
            )
        counts[key] = _whole(value, MOST, where, f"{key}=N")
    slots = counts.get("slots")
    if slots is not None and counts.get("max_slots", slots) < slots:
        raise LaunchError(
            error_line(
                where, expected=f"max_slots of at least slots={slots}", got=counts["max_slots"]
            )
        )
    return slots


def _whole(text: str, most: int, where: str, name: str) -> int:
    if is_whole(text) and 1 <= int(text) <= most:
        return int(text)
    raise LaunchError(error_line(where, expected=f"{name} from 1 to {most}", got=quoted(text)))


def _distinct(listed: Iterable[tuple[str, HostEntry]]) -> tuple[HostEntry, ...]:
    places: dict[tuple[str, int | None], str] = {}
    hosts: list[HostEntry] = []
    for where, host in listed:
        name = host.target.rpartition("@")[2].lower()
        name = str(ipaddress.ip_address(name)) if ":" in name else name
        first = places.setdefault((name, host.port), where)
        if first != where:
            raise LaunchError(
                error_line(
                    where,
                    problem=f"{name} is already listed in {first}",
                    fix="List each host once, with slots=N for its devices",
                )
            )
        hosts.append(host)
    return tuple(hosts)
