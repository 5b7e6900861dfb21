"""SSH configuration: how to reach hosts, as in ssh_config(5) and `ssh -G`."""

import glob
import os
import re
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from paramiko.config import SSHConfig, SSHConfigDict
from paramiko.ssh_exception import SSHException

from bench.errors import error_line, is_whole, quoted
from launch.remote.errors import LaunchError
from launch.remote.facts import user

_OWN, _SYSTEM = Path("~/.ssh/config"), Path("/etc/ssh/ssh_config")
_DEEPEST = 16
_LINE = re.compile(r"[ \t]*([A-Za-z0-9]+)(?:[ \t]*=[ \t]*|[ \t]+|$)(.*)")
_WORD = re.compile(r'"([^"]*)"|([^\s="]+)')
# The rest of the line is one value, with all quotes.
_WHOLE = {"proxycommand", "proxyjump", "localcommand", "remotecommand", "knownhostscommand"}
# The tokens of the options that have some. _PATHS also expand '~' and '${NAME}', and are lists.
_TOKENS = {
    "hostname": "%h",
    "proxycommand": "%hnpr",
    "proxyjump": "%hnpr",
    "identityfile": "%dhikLlnpru",
    "userknownhostsfile": "%dhikLlnpru",
    "globalknownhostsfile": "",
}
_PATHS = ("identityfile", "userknownhostsfile", "globalknownhostsfile")
_EXEC_TOKENS = "%dhikLlnpru"
_CANONICAL = {"yes", "always"}


def read(path: str) -> "Configuration":
    """Read the configuration of a file, or that of the user and the system.

    Raises LaunchError.
    """
    if path and not Path(path).is_file():
        raise LaunchError(
            error_line("--ssh-config", expected="a file", got=f"{path}, which does not exist")
        )
    files = [Path(path)] if path else [_OWN.expanduser(), _SYSTEM]
    return Configuration([_directives(file, 0) for file in files if file.is_file()])


@dataclass(frozen=True, kw_only=True)
class _Directive:
    """A line of a file: keyword in lower case, words.

    For Include the lines of the files.
    """

    where: str
    keyword: str
    words: tuple[str, ...]
    included: tuple[tuple["_Directive", ...], ...] = ()


def _directives(file: Path, depth: int) -> tuple[_Directive, ...]:
    if depth == _DEEPEST:
        raise LaunchError(
            error_line(file, problem="Include forms a cycle", fix="Remove one of the Include lines")
        )
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise LaunchError(error_line(file, problem=f"cannot be read ({error.strerror})")) from error
    if "\0" in text:
        raise LaunchError(
            error_line(file, expected="an ssh_config", got="a file with a NUL character")
        )
    lines = ((f"{file}:{n}", line.strip()) for n, line in enumerate(text.split("\n"), 1))
    listed = [(where, line) for where, line in lines if line and not line.startswith("#")]
    return tuple(_directive(where, line, file, depth) for where, line in listed)


def _directive(where: str, line: str, file: Path, depth: int) -> _Directive:
    found = _LINE.fullmatch(line)
    if found is None:
        raise LaunchError(error_line(where, expected="an option of ssh_config", got=quoted(line)))
    keyword, rest = found[1].lower(), found[2].strip()
    words: tuple[str, ...]
    if keyword in _WHOLE:
        words = (rest,)
    elif keyword == "match":
        words = tuple(str(one[1] or one[2]) for one in _WORD.finditer(rest))
    else:
        words = tuple(_words(rest, where))
    if keyword == "include":
        files = [path for word in words for path in _included(word, file)]
        return _Directive(
            where=where,
            keyword=keyword,
            words=words,
            included=tuple(_directives(path, depth + 1) for path in files),
        )
    return _Directive(where=where, keyword=keyword, words=words)


def _included(word: str, file: Path) -> list[Path]:
    """Return the existing files that Include names, in order."""
    home = _SYSTEM.parent if file.is_relative_to(_SYSTEM.parent) else _OWN.expanduser().parent
    pattern = str(home / os.path.expanduser(word))  # noqa: PTH111
    return [Path(path) for path in sorted(glob.glob(pattern)) if Path(path).is_file()]  # noqa: PTH207


def _words(text: str, where: str) -> Iterator[str]:
    """Split a line as OpenSSH does: quotes, backslashes, a comment at the end."""
    at = 0
    while at < len(text):
        if text[at] in " \t":
            at += 1
            continue
        if text[at] == "#":
            return
        word, quote = "", ""
        while at < len(text) and (quote or text[at] not in " \t"):
            one, after = text[at], text[at + 1 : at + 2]
            if one == "\\" and after and (after in "\"'\\" or (after == " " and not quote)):
                word, at = word + after, at + 1
            elif not quote and one in "\"'":
                quote = one
            elif quote and one == quote:
                quote = ""
            else:
                word += one
            at += 1
        if quote:
            raise LaunchError(error_line(where, expected=f"a closing {quote}", got="none"))
        yield word


@dataclass(kw_only=True)
class _HostConfig:
    """Options of a host so far: the first value of each, as in the file."""

    host: str
    original: str
    final: bool = False
    wants_final: bool = False
    options: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def first(self, keyword: str) -> str:
        return next(iter(self.options.get(keyword, ())), "")


class Configuration(SSHConfig):  # type: ignore[misc] # paramiko has no types
    """SSH configuration as ssh applies it, with the interface of paramiko's class.

    Unlike in paramiko, a Host or Match block of an included file ends with that file, and matches
    only if the block that includes it does.
    """

    def __init__(
        self, files: Sequence[tuple[_Directive, ...]] = (), user: str = "", port: int | None = None
    ) -> None:
        super().__init__()
        self._files = files
        given = {"user": user, "port": "" if port is None else str(port)}
        self._given = {name: (value,) for name, value in given.items() if value}
        self._lock = threading.Lock()
        self._known: dict[str, dict[str, Any]] = {}

    def given(self, user: str, port: int | None) -> "Configuration":
        """Return the configuration with the user or port of the command line."""
        return Configuration(self._files, user, port) if user or port is not None else self

    def lookup(self, hostname: str) -> SSHConfigDict:
        """Return the options of a host, with names in lower case and expanded tokens."""
        with self._lock:
            if hostname not in self._known:
                self._known[hostname] = self._asked(hostname)
            known = self._known[hostname]
            return SSHConfigDict(
                {
                    name: value[:] if isinstance(value, list) else value
                    for name, value in known.items()
                }
            )

    def _asked(self, hostname: str) -> dict[str, Any]:
        found = _HostConfig(host=hostname, original=hostname, options=dict(self._given))
        for directives in self._files:
            _apply(directives, found, active=True, never=False)
        canonical = self._canonical(hostname, found)
        # Apply all again for the new name.
        if found.wants_final or found.first("canonicalizehostname") in _CANONICAL:
            found.host, found.final = canonical or _hostname(found), True
            found.options["hostname"] = (found.host.replace("%", "%%"),)
            for directives in self._files:
                _apply(directives, found, active=True, never=False)
        return _values(found)

    def _canonical(self, hostname: str, found: _HostConfig) -> str:
        """Return the name that CanonicalizeHostname gives a host, or ''."""
        given = {name: " ".join(words) for name, words in found.options.items()}
        domains = given.get("canonicaldomains", "").split()
        dots = given.get("canonicalizemaxdots", "1")
        if given.get("canonicalizehostname") not in _CANONICAL or not is_whole(dots):
            return ""
        if not domains or hostname.count(".") > int(dots):
            return ""
        try:
            made: str = self.canonicalize(hostname, SSHConfigDict(given), domains)
        except SSHException as error:
            raise LaunchError(
                error_line(hostname, problem=f"CanonicalizeHostname: {error}")
            ) from error
        return made


def _apply(
    directives: Sequence[_Directive], found: _HostConfig, *, active: bool, never: bool
) -> None:
    """Apply the matching lines of a file; `never`: none of its blocks can match."""
    for one in directives:
        if one.keyword == "host":
            active = not never and _names(one.words, found.host)
        elif one.keyword == "match":
            active = _matches(one, found) and not never
        elif one.keyword == "include":
            for lines in one.included:
                _apply(lines, found, active=active, never=never or not active)
        elif active and one.words:
            _take(one, found)


def _take(one: _Directive, found: _HostConfig) -> None:
    keyword, options = one.keyword, found.options
    if keyword == "identityfile":
        new = tuple(word for word in one.words[:1] if word not in options.get(keyword, ()))
        options[keyword] = (*options.get(keyword, ()), *new)
    elif keyword == "port":
        options.setdefault(keyword, (_port(one),))
    elif not (
        # Of these two, whichever is first.
        (keyword == "proxyjump" and "proxycommand" in options)
        or (keyword == "proxycommand" and found.first("proxyjump").lower() not in {"", "none"})
    ):
        options.setdefault(keyword, one.words)


def _port(one: _Directive) -> str:
    word = one.words[0]
    if is_whole(word) and 1 <= int(word) <= 65535:
        return str(int(word))
    try:
        return str(socket.getservbyname(word, "tcp"))
    except (OSError, ValueError):  # ValueError: a null character
        raise LaunchError(error_line(one.where, expected="a port", got=quoted(word))) from None


def _names(patterns: Sequence[str], host: str) -> bool:
    """Return whether a Host line matches the host.

    A matching negated pattern excludes it.
    """
    if any(_like(one[1:], host) for one in patterns if one.startswith("!")):
        return False
    return any(_like(one, host) for one in patterns if not one.startswith("!"))


def _like(pattern: str, text: str) -> bool:
    return fnmatchcase(text, pattern.replace("[", "[[]"))


def _matches(one: _Directive, found: _HostConfig) -> bool:
    """Return whether all criteria of a Match line hold, tested in order."""
    words = iter(one.words)
    for word in words:
        if word.startswith("#"):
            break
        criterion, wanted = word.lstrip("!").lower(), not word.startswith("!")
        if criterion == "all":
            return wanted
        if criterion in {"canonical", "final"}:
            found.wants_final = found.wants_final or criterion == "final"
            holds = found.final
        else:
            argument = next(words, "")
            if not argument or argument.startswith("#"):
                raise LaunchError(
                    error_line(one.where, expected=f"a value after {quoted(word)}", got="none")
                )
            holds = _holds(criterion, argument, found)
        if holds != wanted:
            return False
    return bool(one.words)


def _holds(criterion: str, argument: str, found: _HostConfig) -> bool:
    """Return whether a criterion holds; unknown ones and those on networks do not."""
    own = user()
    names = {
        "host": _expanded(found.first("hostname") or found.host, "%h", found).lower(),
        "originalhost": found.original.lower(),
        "user": found.first("user") or own,
        "localuser": own,
    }
    if criterion == "exec":
        command = _expanded(argument, _EXEC_TOKENS, found)
        done = subprocess.run(
            [os.environ.get("SHELL") or "/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            check=False,
        )
        return done.returncode == 0
    if criterion not in names:
        return False
    patterns = argument.split(",")
    lower = criterion in {"host", "originalhost"}
    return _names([one.lower() for one in patterns] if lower else patterns, names[criterion])


def _hostname(found: _HostConfig) -> str:
    named = found.first("hostname") or found.host.replace("%", "%%")
    return _expanded(named, _TOKENS["hostname"], found).lower()


def _values(found: _HostConfig) -> dict[str, Any]:
    """Return the options for Fabric: lists of files, and texts."""
    hostname = _hostname(found)
    found.options["hostname"] = (hostname.replace("%", "%%"),)
    values: dict[str, Any] = {
        name: [_expanded(word, _TOKENS.get(name, ""), found, path=name in _PATHS) for word in words]
        for name, words in found.options.items()
    }
    values["hostname"] = [hostname]
    for name in values.keys() - set(_PATHS):
        values[name] = " ".join(values[name])
    if "proxyjump" in values:
        gateways = values["proxyjump"].split(",")
        values["proxyjump"] = ",".join(one.strip().removeprefix("ssh://") for one in gateways)
    for name in ("proxyjump", "proxycommand"):
        if values.get(name, "").lower() == "none":
            del values[name]
    if "identityfile" in values:
        values["identityfile"] = [one for one in values["identityfile"] if one.lower() != "none"]
    if "forwardagent" in values:  # Fabric forwards the one agent, or none
        values["forwardagent"] = "yes" if values["forwardagent"] in {"yes", "true"} else "no"
    return values


def _expanded(text: str, tokens: str, found: _HostConfig, *, path: bool = False) -> str:
    """Expand the tokens of an option's value, and '~' and '${NAME}' in a path."""
    if path:
        text = os.path.expanduser(text)  # noqa: PTH111
        text = re.sub(r"\$\{(\w+)\}", lambda name: os.environ.get(name[1], name[0]), text)
    if not tokens or "%" not in text:
        return text
    return re.sub(r"%(.)", lambda one: _token(one[1], tokens, found), text)


def _token(letter: str, tokens: str, found: _HostConfig) -> str:
    if letter == "%":
        return "%"
    if letter not in tokens:
        return f"%{letter}"
    own = os.uname().nodename
    named = found.first("hostname")
    host = found.host if letter == "h" and tokens == _TOKENS["hostname"] else named or found.host
    simple = {
        "d": os.path.expanduser("~"),  # noqa: PTH111
        "h": host.replace("%%", "%"),
        "i": str(os.getuid()),
        "k": found.first("hostkeyalias") or found.original,
        "L": own.partition(".")[0],
        "l": own,
        "n": found.original,
        "p": found.first("port") or "22",
        "r": found.first("user") or user(),
        "u": user(),
    }
    return simple.get(letter, f"%{letter}")
