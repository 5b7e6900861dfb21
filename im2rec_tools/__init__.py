"""Data tools: pack images into RecordIO shards. Independent of the other packages."""

import sys


def _moved_command() -> str:
    """Return the data command run as a module, as in version 0.1.0; NAME if unknown."""
    words = sys.orig_argv
    if sys.argv[:1] != ["-m"] or "-m" not in words[:-1]:
        return ""
    package, _, name = words[words.index("-m") + 1].partition(".")
    if package != __name__ or not name or name == "__main__":
        return ""
    from im2rec_tools.declarations import COMMANDS  # noqa: PLC0415 - needed for such commands only

    name = name.removeprefix("commands.").replace("_", "-")
    modules = {command.plan.partition(".")[0] for command in COMMANDS.values()}
    return name if name in COMMANDS else "NAME" if name in modules else ""


if _name := _moved_command():
    print(
        f"error: im2rec_tools.{_name}: moved. Run 'python -m im2rec_tools {_name} ...'",
        file=sys.stderr,
    )
    raise SystemExit(2)
