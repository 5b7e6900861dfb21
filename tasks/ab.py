"""Task `bench.ab`: compare two settings of one point."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from invoke.exceptions import Exit

from bench.errors import SpecError, error_line, parse_int, quoted
from im2rec_tools.options import REQUIRED, OptionHelp
from im2rec_tools.terminal import echo
from tasks.bench import report_load
from tasks.cli import NO_HOST_OPTIONS, hosts_task
from tasks.plan import ENGINE, LOG_LEVEL, engine_name, is_scripted, set_log_level, sweep_for_hosts
from tasks.report import RUN, new_folder

if TYPE_CHECKING:  # slow imports wait until a task runs
    from bench.sweep import Sweep
    from bench.trial import Trial
    from launch.sweep import ClusterSetup
    from results.record import Record


@hosts_task(
    {
        "a": OptionHelp("A", "Settings of A: 'FIELD=VALUE env.NAME=VALUE ...'; '' changes none"),
        "b": OptionHelp("B", "Settings of B, in the same form"),
        "sweep": OptionHelp("SWEEP", "Name of a shipped sweep, or a .toml file", empty=REQUIRED),
        "point": OptionHelp(
            "WORDS",
            "Words of the point's name, such as 'alexnet x1'",
            empty="the sweep's only point",
        ),
        "blocks": OptionHelp("N", "Number of blocks A B B A; each of the four is a fresh job"),
        "windows": OptionHelp("N", "Windows per job, after warm-up", empty="the sweep's"),
        "engine": ENGINE,
        "run": replace(RUN, empty="a name made of the point, the settings and the date"),
        "log_level": LOG_LEVEL,
    },
    example="'' dtype=bfloat16 --sweep smoke --point 'local x1'",
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
    log_level="",
):
    """Compare two settings of one point (A/B test).

    Runs both in turn, each time in fresh jobs. Reports how much faster or slower B is, with a
    95 % CI, and the smallest difference that 9 of 10 such tests would find. Exits with 3 if a host
    fails its checks, 5 if a job has no result.
    """
    from bench.trial import changed, shown
    from launch.job.plan import resource_warnings
    from launch.setup import job_setup, listed_hosts
    from results.comparison.ab import MOST_BLOCKS, run_name

    if not sweep:
        raise SpecError(
            error_line(
                "--sweep",
                expected="the name of a sweep or a file",
                got="none",
                fix="Give --sweep smoke",
            )
        )
    set_log_level(log_level)
    engine = engine_name(engine)
    hosts = listed_hosts(host_options, only_named=is_scripted(engine))
    fields = {"windows": parse_int("--windows", windows)} if windows else {}
    what = sweep_for_hosts(hosts, sweep, fields, engine)
    base = only(what, point)
    both = changed(base, a), changed(base, b)
    first, second = (shown(text) or base.name for text in (a, b))  # as typed, without secrets
    what = replace(what, trials=both, description=f"A: {first}; B: {second}")
    count = parse_int("--blocks", blocks, least=2, most=MOST_BLOCKS)
    with job_setup(hosts, host_options, what) as where:
        warnings = resource_warnings(both, where.hosts)
        echo(*warnings, err=True)
        busy = report_load(what, where, wait_seconds=0)
        date = f"{datetime.now(UTC):%Y%m%d}"
        name = run or run_name(what.name, *both, date)
        compare(what, name, where, count, warnings=warnings, busy=busy)


def _failed(failed: list[Record], count: int, run: str) -> Exit:
    """Print a line for each failed run; return the end of the measurement."""
    from plots.failed_repeats import failure_lines

    echo(*failure_lines(failed, run, count), err=True)
    return Exit(f"{len(failed)} of {count} runs have no result", code=5)


def only(what: Sweep, point: str) -> Trial:
    """Return the one point that these words select; SpecError if they select several."""
    from bench.settings.point_names import chosen, point_words

    found = chosen(what.trials, point)
    if len(found) > 1:
        names = ", ".join(point_words(found))
        raise SpecError(
            error_line(
                "--point",
                expected="words of one point's name",
                got=f"{quoted(point)}, which fits {len(found)}: {names}",
                fix="Add a word, or FIELD=VALUE",
            )
        )
    return found[0]


def compare(
    what: Sweep,
    run: str,
    where: ClusterSetup,
    blocks: int,
    *,
    warnings: Sequence[str] = (),
    busy: Sequence[str] = (),
) -> None:
    """Run the remaining jobs of a sweep of two points, A and B, and report the effect.

    warnings  lines on the settings, which the page repeats
    busy      what other programs used before the first of these jobs, a text per host
    """
    from launch.sweep import identified, sweep
    from plots.screen import show_sweep
    from plots.tables.ab import busy_lines, doubtful_lines, remarks, throughput_line, write
    from results.comparison import ab
    from results.rates import rate_of
    from results.store import Store

    a, b = what.trials
    wanted = identified(ab.run_order(a, b, blocks), where)
    identities = [identity for _, identity in wanted]
    with (
        closing(Store(new_folder(run))) as store,
        closing(sweep(what, wanted, where, store)) as running,
    ):
        if store.done().issuperset(identities):
            busy = ()
        updates = ab.labeled(running, identities)
        echo(what.description)
        echo(ab.power_sentence(ab.good_records(store.folder, identities), blocks))
        for done in ab.checkpoints(blocks):
            count = done * len(ab.BLOCK)
            left = set(identities[:count]) - store.done()
            # The last part also ends the sweep, which describes itself even if nothing is left.
            show_sweep(updates if done == blocks else ab.until_ended(updates, left))
            records = ab.good_records(store.folder, identities[:count])
            if len(records) < count:
                raise _failed(ab.failed_records(store.folder, identities[:count]), count, run)
            rates = [rate_of(one) for one in records]
            if done < blocks and ab.is_hopeless(rates, blocks):
                echo(f"stopped after {done} of {blocks} blocks")
                break
            if left:
                echo(ab.power_sentence(records, blocks))
        ran = ab.build_lines(records)
        effect = ab.effect(rates)
        power = (
            []
            if ab.is_too_noisy(effect.noise, effect.blocks)
            else [ab.power_sentence(records, effect.blocks)]
        )
        doubts = [*busy_lines(busy), *doubtful_lines(records)]
        found = [throughput_line(records), ab.effect_sentence(effect), *doubts]
        lines = [*found, *power, *ran, *warnings]
        echo(*remarks(records), *ran, *found)
        for path in write(store.folder, [what.description, *lines], records):
            echo(path)
