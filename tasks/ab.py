"""bench.ab: which of two settings is faster, and by how much."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from invoke.exceptions import Exit

from bench.engines.catalog import ENGINES
from bench.errors import SpecError, parse_int, quoted
from bench.sweep import Sweep
from bench.trial import Trial, changed, chosen, shown
from im2rec_tools.terminal import echo
from tasks.bench import sweep_for_hosts
from tasks.cli import NO_HOST_OPTIONS, hosts_task
from tasks.report import new_folder

if TYPE_CHECKING:  # what needs long to load is loaded when a task runs
    from launch.sweep import ClusterSetup


@hosts_task(
    help={
        "a": "what is set in A: 'FIELD=VALUE env.NAME=VALUE ...'; '': as the sweep says",
        "b": "what is set in B",
        "sweep": "name of a shipped sweep, or a file",
        "point": "the point of it to measure, by words of its name: 'alexnet x1'",
        "blocks": "how many times A B B A, each a fresh job",
        "windows": "measured windows of each run; default: as the sweep says",
        "engine": f"instead of the sweep's: {', '.join(ENGINES)}",
        "run": "name below results/runs, or a path; default: one for these two settings",
    }
)
def bench_ab(  # type: ignore[no-untyped-def]
    c,
    a,
    b,
    sweep="",
    host_options=NO_HOST_OPTIONS,
    point="",
    blocks="8",
    windows="",
    engine="",
    run="",
):
    """Measure two settings of a point in turn, and say by how much B is faster than A."""
    from launch.setup import job_setup, listed_hosts

    if not sweep:
        raise SpecError("--sweep: expected the name of a sweep, or a file; it says what to measure")
    hosts = listed_hosts(host_options, only_named=engine == "fake")
    fields = {"windows": parse_int("--windows", windows)} if windows else {}
    what = sweep_for_hosts(hosts, sweep, fields, engine)
    base = only(what, point)
    both = changed(base, a), changed(base, b)
    first, second = (shown(text) or base.name for text in (a, b))  # as typed, without secrets
    what = replace(what, trials=both, description=f"A: {first}; B: {second}")
    count = parse_int("--blocks", blocks, least=2, most=500)
    with job_setup(hosts, host_options, what) as where:
        compare(what, run or f"ab-{what.name}-{both[0].key[:6]}-{both[1].key[:6]}", where, count)


def only(what: Sweep, point: str) -> Trial:
    """The one point that the words choose; SpecError where they choose several."""
    found = chosen(what.trials, point)
    if len(found) > 1:
        names = ", ".join(trial.name for trial in found)
        raise SpecError(
            f"--point {quoted(point)}: expected words of one point's name; these fit: {names}"
        )
    return found[0]


def compare(what: Sweep, run: str, where: ClusterSetup, blocks: int) -> None:
    """Measures what is left of a sweep of two trials, A and B, and says what came out."""
    from launch.sweep import identified, sweep
    from plots.screen import show_sweep
    from plots.tables.ab import remarks, write
    from results.comparison import ab
    from results.rates import rate_of
    from results.store import Store

    a, b = what.trials
    wanted = identified(ab.run_order(a, b, blocks), where)
    identities = [identity for _, identity in wanted]
    with closing(Store(new_folder(run))) as store:
        echo(what.description)
        echo(ab.power_sentence(ab.good_records(store.folder, identities), blocks))
        for count in (len(ab.BLOCK), len(wanted)):
            before = ab.good_records(store.folder, identities[:count])
            show_sweep(sweep(what, wanted, where, store, wanted[:count]))
            records = ab.good_records(store.folder, identities[:count])
            if len(records) < count:
                raise Exit(ab.failure_sentence(store.folder, identities[:count]), code=5)
            if len(before) < count:
                echo(ab.power_sentence(records, blocks))
        ran = ab.build_lines(records)
        effect = ab.effect_sentence(ab.effect([rate_of(one) for one in records]))
        lines = [effect, ab.power_sentence(records, blocks), *ran]
        for line in [*remarks(records), *ran, lines[0]]:
            echo(line)
        for path in write(store.folder, [what.description, *lines], records):
            echo(path)
