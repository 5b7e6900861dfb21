"""What the fake engine plays: published rates, and faults in points that are chosen by words."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from bench.errors import SpecError, brief, is_whole, quoted
from bench.networks import describe, named
from bench.trial import Trial, chosen, make
from bench.values import checked

_MOST_SECONDS = 1e9
# Images per second of the whole job, by network and devices.
Rates = Mapping[tuple[str, int], float]


def rates(tables: Any) -> Rates:
    """The rates of a sweep's [rehearsal.NETWORK] tables of DEVICES = IMAGES_PER_SECOND."""
    if not isinstance(tables, dict) or not all(isinstance(one, dict) for one in tables.values()):
        raise SpecError(f"rehearsal: expected [rehearsal.NETWORK] tables, got {quoted(tables)}")
    found = {}
    for network, table in tables.items():
        label = describe(*named(network))
        for devices, rate in table.items():
            value = checked(f"rehearsal.{network}.{brief(devices)}", float, rate)
            if not is_whole(devices) or value <= 0:
                raise SpecError(
                    f"rehearsal.{network}: expected DEVICES = IMAGES_PER_SECOND, got "
                    f"{brief(devices)} = {quoted(rate)}"
                )
            found[label, int(devices)] = value
    return found


def played(trial: Trial, rates: Rates) -> Trial:
    """The trial with windows that last as its rate says, where the fake engine runs it."""
    rate = rates.get((trial.label, trial.devices))
    if trial.engine != "fake" or trial.fake_seconds or rate is None:
        return trial
    seconds = trial.global_batch * trial.steps_per_window / rate
    if not 0 < seconds < _MOST_SECONDS:
        raise SpecError(
            f"rehearsal.{trial.label}.{trial.devices}: {quoted(rate)} images per second make a "
            f"window of {seconds:g} s; expected less than {_MOST_SECONDS:g} s"
        )
    return dataclasses.replace(trial, fake_seconds=(seconds,))


def with_fault(trials: Sequence[Trial], text: str) -> tuple[Trial, ...]:
    """The trials with a fault POINT:ROLE[-INDEX]:KIND[@WINDOW] in those that POINT chooses.

    Raises SpecError where it chooses none or one of them cannot have this fault.
    """
    point, _, fault = text.partition(":")
    if ":" not in fault:
        raise SpecError(f"--fault: expected POINT:ROLE:KIND, got {quoted(text)}")
    faulty = chosen(trials, point)
    return tuple(_faulty(trial, fault) if trial in faulty else trial for trial in trials)


def _faulty(trial: Trial, fault: str) -> Trial:
    fields = dataclasses.asdict(trial)
    try:
        return make(fields | {"fake_faults": (*trial.fake_faults, fault)})
    except SpecError as error:
        raise SpecError(f"--fault: {trial.name}: {error}") from error
