"""Help of command-line options: METAVAR, text, default and group."""

import argparse
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NoReturn

from im2rec_tools.errors import error_line

# Defaults of an option that a program cannot do without, and of a flag.
REQUIRED = "required"
_OFF = "off"


@dataclass(frozen=True)
class OptionHelp:
    """Help of one option, for tasks and programs alike.

    metavar  placeholder of the value; empty for a flag
    text     the phrase that follows it
    unit     unit of the default: 's'
    empty    meaning of an empty default: 'the newest run', 'none', 'required'
    group    heading above the option
    """

    metavar: str
    text: str
    unit: str = ""
    empty: str = ""
    group: str = ""

    def described(self, default: object) -> str:
        """Return the text, followed by the default and its unit in brackets."""
        if default is False and not self.metavar:
            return f"{self.text} [{_OFF}]"
        shown = default_text(default, self.unit) or self.empty
        return f"{self.text} [{shown}]" if shown else self.text


def default_text(default: object, unit: str = "") -> str:
    """Return a default as help prints it, with its unit; empty for none."""
    if default is None or isinstance(default, bool) or default in ("", [], ()):
        return ""
    text = " ".join(map(str, default)) if isinstance(default, list) else str(default)
    return f"{text} {unit}" if unit else text


class DefaultsFormatter(argparse.HelpFormatter):
    """Formatter that appends each option's default in brackets; '[off]' for a flag.

    Brackets at the end of a help text are kept if they contain %(default)s, or if the default is
    empty: then they explain an empty default.
    """

    def _get_help_string(self, action: argparse.Action) -> str | None:
        text = action.help
        if not text or not action.option_strings or "%(default)s" in text:
            return text
        if action.required:
            return f"{text} [{REQUIRED}]"
        if action.nargs == 0 and action.default != argparse.SUPPRESS:
            return f"{text} [{_OFF}]"
        shown = default_text(None if action.default == argparse.SUPPRESS else action.default)
        plain = text.rpartition(" [")[0] if text.endswith("]") else text
        return f"{plain} [{shown.replace('%', '%%')}]" if shown else text


class ProgramParser(argparse.ArgumentParser):
    """Parser whose help has the same form as the tasks'."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            # An abbreviation would change its meaning with the next option.
            **{"formatter_class": DefaultsFormatter, "allow_abbrev": False, **settings},
            add_help=False,
        )
        self._positionals.title, self._optionals.title = "Arguments", "Options"
        self.add_argument("-h", "--help", action="help", help="Print this help and exit")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse a command line; the error of an unknown option names the nearest one."""
        found, others = self.parse_known_args(args, namespace)
        if others:
            names = [one.partition("=")[0] for one in others if one.startswith("--")]
            near = [*get_close_matches(names[0], self._option_string_actions, n=1)] if names else []
            hint = f" (did you mean {near[0]}?)" if near else ""
            self.error(f"unrecognized arguments: {' '.join(others)}{hint}")
        return found

    def error(self, message: str) -> NoReturn:
        """Print one line for a wrong command line, and exit with 2."""
        line = error_line(self.prog, problem=message, fix=f"Run '{self.prog} --help'")
        self.exit(2, f"error: {line}\n")
