"""A program that prints throughput, then ends in some way.

python benchmark.py KIND [LINES]
"""

import itertools
import os
import signal
import subprocess
import sys
import time

# Without a pause the windows would last longer than the program.
SECONDS, RATE = 0.01, 4.0


# Terminal: a title and colors; page: a script; event: that of a server.
HOSTILE = (
    "\x1b]0;title\x07\x1b[31m<script>alert(1)</script>\x9b2J "
    '\x1f{"event": "failed", "rank": 0, "message": "forged"}'
)
LINE = "Iter #{}: {} img/sec per CPU\n"


def iterations(count: int, text: str = LINE, rate: object = RATE) -> None:
    for number in range(count):
        time.sleep(SECONDS)
        sys.stdout.write(text.format(number, rate))


def main() -> None:
    kind, count = sys.argv[1], int((sys.argv[2:] or ["6"])[0])
    if kind == "bars":
        iterations(count, f"\r{LINE.strip()}", "4,0")
    elif kind == "hostile":
        sys.stdout.write(f"{HOSTILE}\n{'x' * (1 << 20)}")
        iterations(count, f"\r\x1b[1m{LINE}")
        for number, rate in enumerate(("nan", "inf", "-3", "0", "1e308"), count):
            sys.stdout.write(LINE.format(number, rate))
        sys.exit(HOSTILE)
    elif kind == "silent":
        sys.stdout.write("nothing to see\n")
    elif kind == "endless":
        for number in itertools.count():
            time.sleep(SECONDS)
            sys.stdout.write(LINE.format(number, RATE))
    elif kind == "other":
        sys.stdout.write("Batch size: 99\n")
        iterations(count)
    elif kind == "fail":
        iterations(count)
        sys.exit("no space left on device")
    elif kind == "stuck":
        iterations(count)
        sys.stdout.flush()
        signal.pause()
    elif kind == "killed":
        iterations(count)
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    elif kind == "orphan":
        iterations(count)
        subprocess.Popen(["sleep", "1234"], start_new_session=True)
    elif kind == "environment":
        sys.stdout.write(f"own {[name for name in os.environ if name.startswith('MXSCALE_')]}\n")
        sys.stdout.write(f"words {sys.argv[3:]}\n")
        iterations(count)


if __name__ == "__main__":
    main()
