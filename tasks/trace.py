"""Task `results.trace`: merge the profiles of a job's ranks."""

from pathlib import Path

from bench.errors import SpecError, error_line, quoted
from im2rec_tools.options import OptionHelp
from im2rec_tools.terminal import echo
from tasks.cli import command, task
from tasks.results import files


@task(
    {
        "profiles": OptionHelp("FILES", "Profiles of all ranks: a quoted pattern"),
        "to": OptionHelp("FILE", "Chrome trace to write"),
        "align": OptionHelp(
            "METHOD", "Zero of times: clock (one for all hosts) or start (first event of each rank)"
        ),
    },
    example="'rank*_w.json' --to merged.json",
)
@command
def results_trace(c, profiles, to="merged.json", align="clock"):  # type: ignore[no-untyped-def]
    """Merge the profiles of all ranks into one trace.

    Each rank is a process of it. Workers write profiles with --profile-worker-suffix.
    """
    from results.exports.trace import ALIGNMENTS, read, write

    chosen = next((one for one in ALIGNMENTS if one == align), None)
    if chosen is None:
        fix = "Give --align start if the hosts' clocks differ"
        raise SpecError(
            error_line("--align", expected=" or ".join(ALIGNMENTS), got=quoted(align), fix=fix)
        )
    found, target = files(profiles), Path(to).expanduser()
    if target.resolve() in {path.resolve() for path in found}:
        fix = "Give --to another name"
        raise SpecError(
            error_line("--to", expected="a new file", got="one of the profiles", fix=fix)
        )
    traces = read(found)
    write(target, traces, chosen)
    first = min(trace.start for trace in traces)
    for trace in traces:
        zero = trace.start if chosen == "start" else first
        begin, end = ((time - zero) / 1e3 for time in (trace.start, trace.end))
        echo(f"{trace.name}: {len(trace.events)} events from {begin:.1f} to {end:.1f} ms")
    echo(f"{target}: open it in Perfetto or at chrome://tracing")
