"""Counter-experiments: a change of settings that a right verdict must respond to."""

from contextlib import suppress
from dataclasses import dataclass

from bench.errors import SpecError
from bench.trial import Trial, changed
from results.explain.verdict import Cause, Verdict

# Bytes of a step with compressed gradients, of those without. A kvstore has at most one of them.
# 2bit: 2 of 32 bits are sent, 32 received; ternary: 2 both ways.
_COMPRESSED = {"2bit": (2 + 32) / (32 + 32), "ternary": 2 / 32}
# Causes that pass: the point is measured again on idle machines.
_PASSING = (Cause.INTERFERENCE, Cause.MACHINE)


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A change of a point's settings, and the step that follows from a cause.

    settings   'FIELD=VALUE ...' of the changed point, as `bench.ab` takes them; empty: measure the
               same point again on idle hosts
    expected   its step if the cause is right, as a multiple of the point's step
    otherwise  the same if the cause is wrong
    """

    cause: Cause
    settings: str
    expected: float
    otherwise: float

    def confirmed(self, step: float, other: float) -> bool:
        """Return whether steps of both settings agree better with the cause than without.

        step   measured with the settings of the point
        other  measured with the changed settings
        """
        middle = (self.expected + self.otherwise) / 2
        lower = self.expected < self.otherwise
        return (other < middle * step) == lower


def experiment(trial: Trial, found: Verdict) -> Experiment | None:
    """Return the counter-experiment of the named cause, or of the largest of several.

    None if nothing is named, or no setting tests it.
    """
    step = found.measurements.step
    if not step or not found.names_a_cause:
        return None
    cause = found.cause
    if cause is Cause.SEVERAL:
        parts = {one: s for one, s in found.seconds.items() if one is not Cause.COMPUTE}
        cause = max(parts, key=parts.__getitem__)
    seconds = found.seconds.get(cause, 0.0)
    if cause in _PASSING:
        return _relative(cause, "", step - seconds, step, step)
    for settings, expected, otherwise in _changes(trial, found, cause, step, seconds):
        with suppress(SpecError):
            if changed(trial, settings) != trial:
                return _relative(cause, settings, expected, otherwise, step)
    return None


def _relative(
    cause: Cause, settings: str, expected: float, otherwise: float, step: float
) -> Experiment:
    """Return an experiment with steps as multiples of the point's own."""
    return Experiment(
        cause=cause, settings=settings, expected=expected / step, otherwise=otherwise / step
    )


def _changes(
    trial: Trial, found: Verdict, cause: Cause, step: float, seconds: float
) -> list[tuple[str, float, float]]:
    """Return settings that test a cause, with the steps if it is right and wrong."""
    layout, without = trial.layout, step - seconds
    doubled = f"batch_per_device={2 * trial.device_batch}"
    compute = found.seconds[Cause.COMPUTE]
    # The seconds lost per step do not depend on the batch.
    batch = (doubled, compute + step, 2 * step)
    if cause is Cause.INPUT:
        threads = f"data_nthreads={2 * trial.data.nthreads}"
        synthetic = "mode=synthetic data_train= data_val="
        return [
            (synthetic, without, step),
            (f"{synthetic} windows=10", without, step),
            (threads, step - seconds / 2, step),
        ]
    if cause is Cause.LINK:
        kinds = _COMPRESSED if trial.training.gc_type == "none" else {}
        sent = [(f"gc_type={kind}", without + seconds * kinds[kind], step) for kind in kinds]
        return [*sent, batch]
    if cause is Cause.SERVER:
        more = trial.servers // max(1, layout.server_hosts or trial.worker_hosts)
        servers = (f"servers_per_host={2 * more}", step - seconds / 2, step)
        return [("kvstore=local", without, step)] if trial.hosts == 1 else [servers]
    if cause is Cause.STRAGGLER:
        asynchronous = layout.kvstore.replace("_sync", "_async")
        ranks = trial.workers
        spread = ranks / ((ranks - 1) / without + 1 / step) if without > 0 else step
        return [(f"kvstore={asynchronous}", spread, step)]
    if cause is Cause.CORES:
        each = layout.devices_per_worker
        fewer = f"devices={each * trial.worker_hosts} devices_per_host={each}"
        return [(fewer, without, step)]
    return [batch]
