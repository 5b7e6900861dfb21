"""Help of command-line options: METAVAR, text, default and group."""

import argparse
from dataclasses import dataclass


@dataclass(frozen=True)
class OptionHelp:
    """Help of one option, for tasks and programs alike.

    metavar  placeholder of the value; empty for a flag
    text     the phrase that follows it
    unit     unit of the default: 's'
    empty    meaning of an empty default: 'the newest run'; empty if there is no default
    group    heading above the option
    """

    metavar: str
    text: str
    unit: str = ""
    empty: str = ""
    group: str = ""

    def described(self, default: object) -> str:
        """Return the text, followed by the default and its unit in brackets."""
        shown = default_text(default, self.unit) or self.empty
        return f"{self.text} [{shown}]" if shown else self.text


def default_text(default: object, unit: str = "") -> str:
    """Return a default as help prints it, with its unit; empty for none."""
    if default is None or isinstance(default, bool) or default in ("", [], ()):
        return ""
    text = " ".join(map(str, default)) if isinstance(default, list) else str(default)
    return f"{text} {unit}" if unit else text


class DefaultsFormatter(argparse.HelpFormatter):
    """Formatter that appends the default in brackets to each option's help.

    Brackets at the end of a help text are kept if they contain %(default)s, or if the default is
    empty: then they explain an empty default.
    """

    def _get_help_string(self, action: argparse.Action) -> str | None:
        text = action.help
        if not text or not action.option_strings or "%(default)s" in text:
            return text
        shown = default_text(None if action.default == argparse.SUPPRESS else action.default)
        plain = text.rpartition(" [")[0] if text.endswith("]") else text
        return f"{plain} [{shown.replace('%', '%%')}]" if shown else text
