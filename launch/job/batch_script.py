"""Batch script for Slurm that allocates hosts and runs a sweep on them."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from bench.errors import quoted
from launch.remote.errors import LaunchError, error_line

# A step per program on each node, beside the other steps of the job, on all of the node's cores.
TEMPLATE = "srun --overlap --nodes=1 --ntasks=1 --cpu-bind=none --nodelist={host}"
# sbatch reads its own lines with its own quoting, so that their values have no odd characters.
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.,:@/+-]*")
_TIME = re.compile(r"(\d+-)?\d+(:\d+){0,2}|infinite|unlimited", re.ASCII | re.IGNORECASE)
_ODD = re.compile(r"[^A-Za-z0-9_.-]+")
# SIGTERM so long before the time limit lets a sweep end its processes.
_WARNING_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class BatchJob:
    """Job of a batch script.

    tree      path of the checkout, on this machine and on the nodes
    words     words of the sweep's command after 'fab bench.sweep'
    requests  options of sbatch with their values; empty values are left out
    """

    name: str
    tree: str
    nodes: int
    words: tuple[str, ...]
    requests: dict[str, str]


def script_lines(job: BatchJob) -> Iterator[str]:
    """Yield the lines of the script.

    Raises LaunchError for a value that an #SBATCH line cannot hold.
    """
    yield "#!/bin/bash"
    yield "# Edit the lines of SBATCH, or give options to sbatch, which override them."
    yield f"#SBATCH --job-name={_ODD.sub('-', job.name).strip('-.')[:64] or 'sweep'}"
    yield f"#SBATCH --nodes={job.nodes}"
    yield "#SBATCH --exclusive"
    yield "#SBATCH --mem=0"  # all memory of each node
    yield f"#SBATCH --signal=B:TERM@{_WARNING_SECONDS}"
    if job.requests.get("time") and not _TIME.fullmatch(job.requests["time"]):
        expected, got = "a time such as 90, 4:00:00 or 1-12:00:00", quoted(job.requests["time"])
        fix = "Give days-hours:minutes:seconds"
        raise LaunchError(error_line("--time", expected=expected, got=got, fix=fix))
    for option, value in job.requests.items():
        if value and not _PLAIN.fullmatch(value):
            raise LaunchError(
                error_line(
                    f"--{option}",
                    expected="letters, digits and .,:@/+-",
                    got=quoted(value),
                    fix="Give it to sbatch, which overrides the script",
                )
            )
        if value:
            yield f"#SBATCH --{option}={value}"
    words = ("fab", "bench.sweep", *job.words)
    for word in (job.tree, *words):
        if not word.isprintable():
            fix = "Rename it, or remove control characters and line breaks"
            got = quoted(word)
            raise LaunchError(error_line("script", expected="plain words", got=got, fix=fix))
    yield ""
    yield f"cd -- {shlex.quote(job.tree)} || exit 1"
    yield f"exec .venv/bin/{shlex.join(words)}"
