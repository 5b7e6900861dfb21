"""bench.ab: which of two settings is faster, and by how much."""

from __future__ import annotations

from collections.abc import Sequence
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
from tasks.cluster import NO_HOST_OPTIONS, cluster_hosts, cluster_setup, hosts_task, local_setup
from tasks.report import new_folder

if TYPE_CHECKING:  # what needs long to load is loaded when a task runs
    from launch.sweep import ClusterSetup, PlannedRun
    from results.record import Record
    from results.store import Store


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
    if not sweep:
        raise SpecError("--sweep: expected the name of a sweep, or a file; it says what to measure")
    hosts = cluster_hosts(host_options, only_named=engine == "fake")
    fields = {"windows": parse_int("--windows", windows)} if windows else {}
    what = sweep_for_hosts(hosts, sweep, fields, engine)
    base = only(what, point)
    both = changed(base, a), changed(base, b)
    what = replace(what, trials=both, description=described(a, b, base))
    count = parse_int("--blocks", blocks, least=2, most=500)
    place = cluster_setup(hosts, host_options, what) if hosts else local_setup(what)
    with place as where:
        compare(what, run or f"ab-{what.name}-{both[0].key[:6]}-{both[1].key[:6]}", where, count)


def described(a: str, b: str, base: Trial) -> str:
    """The two settings as they were typed, without secrets."""
    first, second = (shown(text) or base.name for text in (a, b))
    return f"A: {first}; B: {second}"


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
    from launch.sweep import identified
    from plots.tables.ab import remarks, write
    from results.comparison.ab import BLOCK, build_lines, effect, effect_sentence, run_order
    from results.rates import rate_of
    from results.store import Store

    a, b = what.trials
    wanted = identified(run_order(a, b, blocks), where)
    with closing(Store(new_folder(run))) as store:
        echo(what.description)
        echo(sees(good(store, wanted), blocks))
        for part in (wanted[: len(BLOCK)], wanted):
            before = good(store, part)
            _measure(what, wanted, where, store, part)
            records = good(store, part)
            if len(records) < len(part):
                raise Exit(_broken(store, part), code=5)
            if len(before) < len(part):
                echo(sees(records, blocks))
        ran = build_lines(records)
        lines = [
            effect_sentence(effect([rate_of(one) for one in records])),
            sees(records, blocks),
            *ran,
        ]
        for line in [*remarks(records), *ran, lines[0]]:
            echo(line)
        for path in write(store.folder, [what.description, *lines], records):
            echo(path)


def sees(records: Sequence[Record], blocks: int) -> str:
    """The smallest difference that so many blocks find, by the runs so far or as assumed."""
    from results.comparison.ab import BLOCK, detectable_difference, noise, percent
    from results.rates import ASSUMED_SCATTER, rate_of

    known = len(records) // len(BLOCK)
    spread = noise([rate_of(one) for one in records]) if known else ASSUMED_SCATTER
    why = (
        f"as in the {known} measured"
        if known > 1
        else "as in the first one, which alone says little"
    )
    least = percent(detectable_difference(spread, blocks))
    return (
        f"{blocks} blocks of A B B A find a difference of {least} % in "
        f"9 of 10 measurements, where runs scatter by {percent(spread)} %, "
        f"{why if known else 'which is assumed: nothing is measured yet'}"
    )


def _measure(
    what: Sweep,
    wanted: Sequence[PlannedRun],
    where: ClusterSetup,
    store: Store,
    part: Sequence[PlannedRun],
) -> None:
    from launch.sweep import sweep
    from plots.screen import SweepScreen

    with SweepScreen() as screen:
        for update in sweep(what, wanted, where, store, part):
            screen.show(update)


def good(store: Store, wanted: Sequence[PlannedRun]) -> list[Record]:
    """The good records of these runs, in their order, up to the first that has none."""
    from results.store import read_records

    found = {one.identity: one for one in read_records(store.folder) if one.status == "ok"}
    records = []
    for _, name in wanted:
        if name not in found:
            break
        records.append(found[name])
    return records


def _broken(store: Store, part: Sequence[PlannedRun]) -> str:
    from results.store import read_records

    newest = {one.identity: one for one in read_records(store.folder)}
    bad = [newest[name] for _, name in part if newest[name].status != "ok"]
    first = bad[0]
    return (
        f"{len(bad)} of {len(part)} runs have no number, the first: {first.trial.name}: "
        f"{first.status}: {first.message}; run it again to go on"
    )
