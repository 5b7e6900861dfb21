"""Verdicts on simulated steps with injected causes, and the limits of the rule."""

import dataclasses
import random
from collections import Counter
from typing import Any

import pytest

from bench.notes import NoteKind, sentence, template
from results.explain.measurements import SlowRank, StepMeasurements
from results.explain.verdict import NOTE_KINDS, SHARES, Cause, Gap, verdict
from tests.support.runs.steps import QUIET, known

_DRAWS = 300


def _about(chance: random.Random, value: float, spread: float) -> float:
    return value * chance.gauss(1, spread)


def simulated(chance: random.Random, *causes: Cause) -> StepMeasurements:
    """Return a step with injected causes, each 15 to 80 % of computing."""
    own = chance.uniform(0.05, 2.0)
    update = own * chance.uniform(0, 0.1)
    amount = {cause: own * chance.uniform(0.15, 0.8) for cause in causes}
    cores = max(amount.get(one, 0.0) for one in (Cause.CORES, Cause.INTERFERENCE))
    slow, wait = amount.get(Cause.STRAGGLER, 0.0), amount.get(Cause.INPUT, 0.0)
    light = own * chance.uniform(0.005, 0.05)
    exchange = light + sum(amount.get(one, 0.0) for one in (Cause.LINK, Cause.SERVER, Cause.SYNC))
    overlap = chance.uniform(0, 0.3)
    link = light * 0.1 + amount.get(Cause.LINK, 0.0) / (1 - overlap)
    server = light * 0.3 + amount.get(Cause.SERVER, 0.0) / (1 - overlap)
    step = own + update + cores + slow + wait + exchange
    ranks = chance.randint(2, 8)
    tcp = 100e6
    return StepMeasurements(
        step=_about(chance, step, 0.01),
        noise=0.03 * step,
        alone=_about(chance, own + update, 0.01),
        own=_about(chance, own + cores, 0.01),
        own_alone=_about(chance, own, 0.01),
        input=max(0.0, _about(chance, wait, 0.02)),
        slow_rank=SlowRank(rank=1, host="n2", seconds=_about(chance, slow, 0.03)) if slow else None,
        server_cpu=_about(chance, server, 0.06),
        server_delay=0.0,
        link_bytes=_about(chance, link * tcp, 0.06),
        other_cores=0.4 if Cause.INTERFERENCE in causes else 0.0,
        reading=_about(chance, step, 0.06) if wait else step / 5,
        reads=True,
        tcp_bytes_per_second=tcp,
        workers=ranks,
        servers=ranks,
        hosts=2,
    )


INJECTED = [
    *(Cause.INPUT, Cause.LINK, Cause.SERVER, Cause.STRAGGLER, Cause.CORES),
    *(Cause.INTERFERENCE, Cause.SYNC),
]


def named(*causes: Cause) -> Counter[Cause]:
    chance = random.Random(7)
    return Counter(verdict(simulated(chance, *causes)).cause for _ in range(_DRAWS))


@pytest.mark.parametrize("cause", INJECTED)
def test_an_injected_cause_is_named(cause: Cause) -> None:
    found = named(cause)
    assert found[cause] >= 0.95 * _DRAWS
    assert set(found) <= {cause, Cause.SEVERAL, Cause.COMPUTE}


def test_nothing_is_named_when_nothing_is_injected() -> None:
    found = named()
    assert found[Cause.COMPUTE] >= 0.95 * _DRAWS


@pytest.mark.parametrize("first", INJECTED)
@pytest.mark.parametrize("second", INJECTED)
def test_of_two_causes_a_third_is_never_named(first: Cause, second: Cause) -> None:
    found = named(first, second)
    assert set(found) <= {first, second, Cause.SEVERAL, Cause.COMPUTE}


@pytest.mark.parametrize("cause", INJECTED)
def test_shares_add_up_to_the_step(cause: Cause) -> None:
    chance = random.Random(3)
    for _ in range(20):
        found = verdict(simulated(chance, cause))
        assert list(found.shares) == list(SHARES)
        assert sum(found.shares.values()) == pytest.approx(1)
        assert min(found.shares.values()) >= 0


def test_shares_of_a_link() -> None:
    found = verdict(known(step=2.0, link_bytes=100e6))
    assert found.cause is Cause.LINK
    assert found.share == pytest.approx(0.525)
    assert found.shares["compute"] == pytest.approx(0.475)
    assert sentence(found.note) == (
        "verdict link: exchange takes 1.05 s of each 2 s step (52 %), and the bytes of the busiest "
        "host take 1 s at the speed of raw TCP"
    )


@pytest.mark.parametrize(
    ("arrays", "delay", "cause"),
    [
        (None, 0.0, Cause.SERVER),
        (4, 0.0, Cause.SERVER),
        (1000, 0.0, Cause.SYNC),
        (1000, 3.9, Cause.SYNC),
        (1000, 4.1, Cause.SERVER),
    ],
)
def test_servers_of_small_arrays_are_busy_with_messages(
    arrays: int | None, delay: float, cause: Cause
) -> None:
    # 1,000 arrays have 10 kB each.
    changes = {"server_cpu": 0.9, "server_delay": 0.9 * delay, "bytes_each_way": 10e6}
    assert verdict(known(step=2.0, arrays=arrays, **changes)).cause is cause


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        ({"input": None}, Gap.INPUT),
        ({"alone": None, "own": None, "own_alone": None}, Gap.ALONE),
        ({"step": None}, Gap.STEP),
    ],
)
def test_without_its_measurements_there_is_no_verdict(
    change: dict[str, None], missing: Gap
) -> None:
    found = verdict(known(**change))
    assert found.cause is Cause.NOT_MEASURED
    assert missing in found.not_measured
    assert found.shares == {}


def test_an_unmeasured_ceiling_is_not_guessed() -> None:
    slow: dict[str, Any] = {"step": 2.0, "tcp_bytes_per_second": None}
    found = verdict(known(**slow))
    assert found.cause is Cause.NOT_MEASURED
    assert found.not_measured == (Gap.LINK,)
    assert found.shares["unexplained"] == pytest.approx(0.525)
    assert verdict(known(**slow, server_cpu=0.8)).cause is Cause.SERVER
    assert verdict(known(step=2.0, server_cpu=None)).cause is Cause.NOT_MEASURED
    assert verdict(known(step=2.0)).cause is Cause.SYNC


def test_waiting_for_fast_readers_is_a_lack_of_cores() -> None:
    waits: dict[str, Any] = {"step": 2.0, "input": 1.0, "reads": True}
    assert verdict(known(**waits, reading=1.9)).cause is Cause.INPUT
    assert verdict(known(**waits, reading=0.4)).cause is Cause.CORES
    found = verdict(known(**waits))
    assert (found.cause, found.not_measured) == (Cause.INPUT, (Gap.READING,))


def test_a_disturbed_machine_names_nothing_else() -> None:
    found = verdict(known(step=2.0, link_bytes=100e6, disturbances=(NoteKind.SWAPPED,)))
    assert found.cause is Cause.MACHINE
    assert found.shares["link"] == 0
    assert found.shares["unexplained"] == pytest.approx(0.525)
    assert verdict(known(disturbances=(NoteKind.SWAPPED,))).cause is Cause.COMPUTE


def test_a_loss_within_the_interval_is_not_named() -> None:
    lossy = {"step": 1.2, "link_bytes": 30e6}
    assert verdict(known(**lossy)).cause is Cause.LINK
    found = verdict(known(**lossy, noise=0.3))
    assert (found.cause, found.not_measured) == (Cause.NOT_MEASURED, (Gap.PRECISION,))
    assert verdict(known(noise=0.3)).cause is Cause.COMPUTE


def test_one_host_has_no_link_and_one_process_no_exchange() -> None:
    alone = known(step=2.0, hosts=1, link_bytes=0.0, tcp_bytes_per_second=None)
    assert verdict(alone).cause is Cause.SYNC
    single = dataclasses.replace(alone, workers=1, servers=0)
    found = verdict(single)
    assert (found.cause, found.not_measured) == (Cause.NOT_MEASURED, ())


@pytest.mark.parametrize("cause", Cause)
def test_each_cause_has_a_note_whose_figures_are_known(cause: Cause) -> None:
    chance = random.Random(1)
    examples = {
        Cause.COMPUTE: QUIET,
        Cause.MACHINE: known(step=2.0, disturbances=(NoteKind.SWAPPED,)),
        Cause.SEVERAL: known(step=2.0, own=1.4, input=0.5),
        Cause.NOT_MEASURED: StepMeasurements(),
    }
    found = verdict(examples.get(cause) or simulated(chance, cause))
    assert found.cause is cause
    assert found.note.kind is NOTE_KINDS[cause]
    assert "?" not in sentence(found.note)
    assert template(found.note.kind)


def test_computing_on_gpus_that_wait_says_so_in_its_evidence() -> None:
    waits = verdict(known(low_gpu_utilization=0.45))
    assert waits.cause is Cause.COMPUTE
    assert waits.note.kind is NoteKind.BOUND_BY_COMPUTE_GPU_WAITS
    assert "the GPUs are busy for only 45 % of the time" in sentence(waits.note)
    assert "?" not in sentence(waits.note)
    # What explains the loss also explains why GPUs wait.
    other = verdict(known(step=2.0, link_bytes=100e6, low_gpu_utilization=0.45))
    assert other.note.kind is NOTE_KINDS[Cause.LINK]


def test_two_equal_ceilings_share_the_exchange() -> None:
    found = verdict(known(step=3.0, link_bytes=200e6, server_cpu=2.0))
    assert found.cause is Cause.SEVERAL
    assert found.shares["link"] == pytest.approx(found.shares["server"])
