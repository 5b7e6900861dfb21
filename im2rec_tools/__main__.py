"""Run a data command: `python -m im2rec_tools NAME ...`."""

import sys
from collections.abc import Sequence

if not __package__:
    print(
        "error: im2rec_tools/__main__.py: cannot run as a script. Run 'python -m im2rec_tools "
        "NAME ...' in the checkout",
        file=sys.stderr,
    )
    raise SystemExit(2)

from im2rec_tools.cli import run_command
from im2rec_tools.declarations import COMMANDS
from im2rec_tools.errors import quoted
from im2rec_tools.terminal import echo


def main(argv: Sequence[str]) -> int:
    """Run the command named by the first argument; return its exit code."""
    name = argv[0] if argv else "--help"
    if name in {"-h", "--help"}:
        echo(
            "usage: python -m im2rec_tools NAME ...",
            "",
            "Run a data command. Print its arguments and options with NAME --help.",
            "",
            "Commands:",
            *(f"  {one.name:<14} {one.help}" for one in COMMANDS.values()),
        )
        return 0
    name = name.replace("_", "-")
    if name not in COMMANDS:
        echo(
            f"error: command: expected one of {', '.join(COMMANDS)}, got {quoted(name)}",
            err=True,
        )
        return 2
    return run_command(COMMANDS[name], argv[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
