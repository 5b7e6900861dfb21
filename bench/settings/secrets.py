"""Secrets: values of variables that are passed to processes and written nowhere.

A value is secret if its variable's name contains one of `WORDS`, in any case. A variable that is
listed without a value has the one of this machine, which is not written either.
"""

import os
import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping, Sequence

from bench.errors import SpecError

WORDS = ("TOKEN", "SECRET", "PASS", "KEY", "CREDENTIAL")
MASK = "***"
# Of a process: the variables, separated by commas, whose values it does not report.
NAMES = "MXSCALE_HIDDEN"
_SETTING = re.compile(r"(-{0,2}[A-Za-z_][A-Za-z0-9_.-]*)=(.+)", re.DOTALL)
# In a sentence or a command only names of capitals are variables; some are quoted as a whole.
_NAME = rf"[A-Z0-9_]*(?:{'|'.join(WORDS)})[A-Z0-9_]*"
_IN_TEXT = re.compile(
    rf"(?P<quote>[\"'])(?P<whole>{_NAME})=.*?(?P=quote)"
    rf"|\b(?P<name>{_NAME})=(?:'[^']*'|\"[^\"]*\"|[^\s'\"])+",
    re.DOTALL,
)
# In a comment, what follows such a name of any letters, to its end.
_IN_COMMENT = re.compile(
    rf"(?P<name>[A-Z0-9_.-]*(?:{'|'.join(WORDS)})[A-Z0-9_.-]*)[\"']?\s*[=:].*", re.IGNORECASE
)
# Of an address, the user and password before the host.
_LOGIN = re.compile(r"://[^/\s:@'\"]*:[^/\s@'\"]+@")
_IN_TOML = re.compile(
    r"#[^\n]*"
    r'|"""(?:[^\\]|\\.)*?"{3,5}'
    r"|\'\'\'.*?\'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)


class MaskedText(str):
    """'NAME=***' or 'NAME', which is all that is written of a variable.

    `value` is its value, None if that is not known here.
    """

    __slots__ = ("value",)
    value: str | None

    def __new__(cls, text: str, value: str | None = None) -> "MaskedText":
        """The text, beside the value that it stands for."""
        made = super().__new__(cls, text)
        made.value = value
        return made


def is_secret(name: str) -> bool:
    """Whether the value of a variable of this name is secret."""
    return any(word in name.upper() for word in WORDS)


def setting(text: str) -> str:
    """NAME=VALUE or NAME of an environment as it is kept, its value beside it if that is secret."""
    if isinstance(text, MaskedText):
        return text
    name, equals, value = text.partition("=")
    if not equals:
        return MaskedText(name, os.environ.get(name))
    if not is_secret(name):
        return text
    return MaskedText(f"{name}={MASK}", None if value == MASK else value)


def identified(env: Iterable[str]) -> list[str]:
    """The settings as a trial's identity has them: a secret and a passed variable by name."""
    return [one.removesuffix(f"={MASK}") if is_secret(_name(one)) else one for one in env]


def names(env: Iterable[str]) -> list[str]:
    """The names of those settings whose values are not written."""
    return [_name(one) for one in map(setting, env) if isinstance(one, MaskedText)]


def variables(env: Iterable[str]) -> dict[str, str]:
    """Name and value of each setting; what is not written is a `MaskedText`."""
    found: dict[str, str] = {}
    for one in map(setting, env):
        name, _, value = one.partition("=")
        if isinstance(one, MaskedText):
            found[name] = MaskedText(MASK if "=" in one else f'"${name}"', one.value)
        else:
            found[name] = value
    return found


def revealed(env: Mapping[str, str]) -> dict[str, str]:
    """The environment with the values that are written nowhere, for the process itself."""
    hidden = [name for name, one in env.items() if isinstance(one, MaskedText)]
    shown = {name: one.value if isinstance(one, MaskedText) else one for name, one in env.items()}
    found = {name: value for name, value in shown.items() if value is not None}
    return found | ({NAMES: ",".join(hidden)} if hidden else {})


def assignment(name: str, value: str) -> str:
    """NAME=VALUE as a shell takes it, on one line."""
    if isinstance(value, MaskedText):
        return f"{name}={value!s}"
    return f"{name}={MASK if is_secret(name) else quoted(value)}"


def quoted(word: str) -> str:
    """A word of a command as a shell takes it, on one line also if it has ends of lines."""
    if word.isprintable() or any("\ud800" <= c <= "\udfff" for c in word):
        return shlex.quote(word)
    text = word.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + "".join(c if c.isprintable() else _escaped(c) for c in text) + "'"


def _escaped(c: str) -> str:
    return f"\\x{ord(c):02x}" if ord(c) < 0x80 else f"\\U{ord(c):08x}"


def command_line(words: Iterable[str]) -> str:
    """The words of a command as a shell takes them, on one line, secrets masked."""
    return " ".join(quoted(masked_word(word)) for word in words)


def masked_word(word: str) -> str:
    """A word of a command: of NAME=VALUE and --name=VALUE, the value masked if it is secret."""
    found = _SETTING.fullmatch(word)
    return f"{found[1]}={MASK}" if found and is_secret(found[1]) else word


def masked(values: object, also: Iterable[str] = ()) -> dict[str, str]:
    """Variables by name, masked the values that are secret and those of the names in `also`.

    Nothing of what is not variables by name, as a host may say.
    """
    hidden = set(also)
    if not isinstance(values, Mapping):
        return {}
    return {
        name: MASK if name in hidden or is_secret(name) else value for name, value in values.items()
    }


def masked_text(text: str) -> str:
    """A sentence, a log's line or a command, in which NAME=VALUE is masked if it is secret."""
    if "://" in text:
        text = _LOGIN.sub(f"://{MASK}@", text)
    if not any(word in text for word in WORDS):
        return text
    return _IN_TEXT.sub(rf"\g<quote>\g<whole>\g<name>={MASK}\g<quote>", text)


def masked_toml(text: str) -> str:
    """The text of a sweep as its run keeps it, settings in its strings masked."""

    if "\\" not in text and not any(word in text.upper() for word in WORDS):
        return text

    def kept(found: re.Match[str]) -> str:
        if found[0].startswith("#"):
            return _IN_COMMENT.sub(rf"\g<name>={MASK}", masked_text(found[0]))
        value = tomllib.loads(f"a = {found[0]}")["a"]
        hidden = masked_word(value)
        return found[0] if hidden == value else f'"{hidden}"'

    return _IN_TOML.sub(kept, text)


def added(env: Sequence[str], more: Sequence[str]) -> list[str]:
    """The settings of a sweep, in their places, and those of a command line, which win."""
    given = {_name(one): one for one in more}
    kept = [given.pop(_name(one), one) for one in env]
    return [*kept, *(one for one in more if _name(one) in given)]


def check(env: Iterable[str]) -> None:
    """Raise SpecError for a setting whose value is neither written nor known here."""
    for one in map(setting, env):
        if not isinstance(one, MaskedText) or one.value is not None:
            continue
        name = _name(one)
        raise SpecError(
            f"env: {name}: expected a value, got none, for it is not kept in runs. Set {name} here "
            f"and give '-x {name}', or give '-x {name}=VALUE'"
        )


def _name(text: str) -> str:
    return text.partition("=")[0]
