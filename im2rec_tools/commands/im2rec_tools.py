"""Error for a module of this folder that is run by its path."""

import sys

print("run `python -m im2rec_tools NAME ...` in this checkout", file=sys.stderr)
raise SystemExit(2)
