"""The whole program of a server or a scheduler: `python -m bench.serve`, with DMLC_ROLE set.

MXNet serves the job while it is imported and ends the process when the job is over.
"""

import sys

from bench.rendezvous import announce
from im2rec_tools.terminal import echo


def main() -> None:
    """Serves one job; exits 2 where the environment makes this process no server of one."""
    announce()
    import bench.mxnet_import  # noqa: F401, PLC0415

    echo("DMLC_ROLE: expected server or scheduler; 'fab bench.sweep' sets it", err=True)
    sys.exit(2)


if __name__ == "__main__":
    main()
