"""Error for a module of this folder that is run by its path."""

import sys

print(
    "error: im2rec_tools: cannot run as a script. Run 'python -m im2rec_tools NAME ...' in the "
    "checkout",
    file=sys.stderr,
)
raise SystemExit(2)
