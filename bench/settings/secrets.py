"""Secrets: values of variables that processes receive and that are never written.

A value is secret if its variable's name contains one of `WORDS`, in any case. A variable listed
without a value takes it from this machine's environment; that value is not written either.
"""

import os
import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping, Sequence

from bench.errors import SpecError, error_line

WORDS = ("TOKEN", "SECRET", "PASS", "KEY", "CREDENTIAL")
MASK = "***"
# The variables, separated by commas, whose values a process must not report.
NAMES = "MXSCALE_HIDDEN"
_SETTING = re.compile(r"(-{0,2}[A-Za-z_][A-Za-z0-9_.-]*)=(.+)", re.DOTALL)
# In text and commands only names in capitals are variables; some are quoted as a whole.
_NAME = rf"[A-Z0-9_]*(?:{'|'.join(WORDS)})[A-Z0-9_]*"
_IN_TEXT = re.compile(
    rf"(?P<quote>[\"'])(?P<whole>{_NAME})=.*?(?P=quote)"
    rf"|\b(?P<name>{_NAME})=(?:'[^']*'|\"[^\"]*\"|[^\s'\"])+",
    re.DOTALL,
)
# In a comment: the rest of the line after such a name, in any case.
_IN_COMMENT = re.compile(
    rf"(?P<name>[A-Z0-9_.-]*(?:{'|'.join(WORDS)})[A-Z0-9_.-]*)[\"']?\s*[=:].*", re.IGNORECASE
)
# The user and password before the host of a URL.
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
    """'NAME=***' or 'NAME', the written form of a secret variable.

    `value` is its value; None if this machine does not have it.
    """

    __slots__ = ("value",)
    value: str | None

    def __new__(cls, text: str, value: str | None = None) -> "MaskedText":
        """Create the text and attach its value."""
        made = super().__new__(cls, text)
        made.value = value
        return made


def is_secret(name: str) -> bool:
    """Return whether a variable of this name holds a secret."""
    return any(word in name.upper() for word in WORDS)


def setting(text: str) -> str:
    """Convert NAME=VALUE or NAME to its stored form.

    A secret value becomes an attribute.
    """
    if isinstance(text, MaskedText):
        return text
    name, equals, value = text.partition("=")
    if not equals:
        return MaskedText(name, os.environ.get(name))
    if not is_secret(name):
        return text
    return MaskedText(f"{name}={MASK}", None if value == MASK else value)


def identified(env: Iterable[str]) -> list[str]:
    """Return the settings that identify a trial.

    Secrets, and variables passed without a value, count by name only.
    """
    return [one.removesuffix(f"={MASK}") if is_secret(_name(one)) else one for one in env]


def names(env: Iterable[str]) -> list[str]:
    """Return the names of the settings whose values are not written."""
    return [_name(one) for one in map(setting, env) if isinstance(one, MaskedText)]


def variables(env: Iterable[str]) -> dict[str, str]:
    """Return the settings by name; values that are not written are `MaskedText`."""
    found: dict[str, str] = {}
    for one in map(setting, env):
        name, _, value = one.partition("=")
        if isinstance(one, MaskedText):
            found[name] = MaskedText(MASK if "=" in one else f'"${name}"', one.value)
        else:
            found[name] = value
    return found


def revealed(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process, with the secret values."""
    hidden = [name for name, one in env.items() if isinstance(one, MaskedText)]
    shown = {name: one.value if isinstance(one, MaskedText) else one for name, one in env.items()}
    found = {name: value for name, value in shown.items() if value is not None}
    return found | ({NAMES: ",".join(hidden)} if hidden else {})


def assignment(name: str, value: str) -> str:
    """Return NAME=VALUE in shell syntax, on one line, secrets masked."""
    if isinstance(value, MaskedText):
        return f"{name}={value!s}"
    return f"{name}={MASK if is_secret(name) else quoted(value)}"


def quoted(word: str) -> str:
    """Quote a word for a shell, on one line even if the word contains line breaks."""
    if word.isprintable() or any("\ud800" <= c <= "\udfff" for c in word):
        return shlex.quote(word)
    text = word.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + "".join(c if c.isprintable() else _escaped(c) for c in text) + "'"


def _escaped(c: str) -> str:
    return f"\\x{ord(c):02x}" if ord(c) < 0x80 else f"\\U{ord(c):08x}"


def command_line(words: Iterable[str]) -> str:
    """Join words to a shell command on one line, secrets masked."""
    return " ".join(quoted(masked_word(word)) for word in words)


def masked_word(word: str) -> str:
    """Mask a secret value in a word NAME=VALUE or --name=VALUE, or the login of a URL."""
    found = _SETTING.fullmatch(word)
    if found and is_secret(found[1]):
        return f"{found[1]}={MASK}"
    return _LOGIN.sub(f"://{MASK}@", word)


def masked(values: object, also: Iterable[str] = ()) -> dict[str, str]:
    """Mask secret values, and those of the names in `also`, in variables by name.

    Returns {} if `values` is no mapping, because hosts are not trusted to send one.
    """
    hidden = set(also)
    if not isinstance(values, Mapping):
        return {}
    return {
        name: MASK if name in hidden or is_secret(name) else value for name, value in values.items()
    }


def masked_text(text: str) -> str:
    """Mask secret NAME=VALUE pairs and URL passwords in a text.

    The text is a message, a log line or a command.
    """
    if "://" in text:
        text = _LOGIN.sub(f"://{MASK}@", text)
    if not any(word in text for word in WORDS):
        return text
    return _IN_TEXT.sub(rf"\g<quote>\g<whole>\g<name>={MASK}\g<quote>", text)


def masked_toml(text: str) -> str:
    """Mask the secrets in a sweep file's strings and comments.

    The run stores the result.
    """

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
    """Merge a sweep's settings with those of the command line, which take precedence."""
    given = {_name(one): one for one in more}
    kept = [given.pop(_name(one), one) for one in env]
    return [*kept, *(one for one in more if _name(one) in given)]


def check(env: Iterable[str]) -> None:
    """Raise SpecError for a variable whose value this machine does not have."""
    for one in map(setting, env):
        if not isinstance(one, MaskedText) or one.value is not None:
            continue
        name = _name(one)
        raise SpecError(
            error_line(
                "env",
                problem=f"{name}: expected a value, got none; runs do not store it",
                fix=f"Set {name} here and give '-x {name}', or give '-x {name}=VALUE'",
            )
        )


def _name(text: str) -> str:
    return text.partition("=")[0]
