"""Words and values that shells, terminals and encodings trip over."""

import sys

HOSTILE = (
    "",
    " ",
    "two  words",
    "it's",
    '"',
    "$HOME",
    "${PATH}",
    "`id`",
    "$(id)",
    "\\",
    "a\nb\n",
    "\t\r\x1b[31m\x07",
    "*",
    "~",
    "!1",
    "a;b|c&d>e<f#g",
    "%s {} []",
    "-n",
    "--",
    "--port=1",
    "NAME=value",
    "dûńØ 漢字 🎉",
    "\udcff\udc80",  # bytes that are not UTF-8
)
# Prints the received values as hexadecimal bytes.
ARRIVES = (
    sys.executable,
    "-c",
    "import json, os, sys\n"
    "names = sorted(name for name in os.environb if name.startswith(b'HOSTILE_'))\n"
    "words = [os.fsencode(word).hex() for word in sys.argv[1:]]\n"
    "print(json.dumps([words, [os.environb[name].hex() for name in names]]))",
)


def hostile_words() -> tuple[list[str], list[list[str]]]:
    """Return options that set a variable to each value, and ARRIVES' output for them."""
    names = [f"HOSTILE_{number:02}" for number in range(len(HOSTILE))]
    variables = [f"{name}={value}" for name, value in zip(names, HOSTILE, strict=True)]
    arriving = [value.encode("utf-8", "surrogateescape").hex() for value in HOSTILE]
    return ["--env", *variables], [arriving, arriving]
