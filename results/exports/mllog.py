"""MLPerf's `:::MLLOG` lines, one file per repeat that trained to its end.

The lines report a throughput, and whether training reached its stop accuracy. MLPerf's own rules
require more: docs/how-to/export.md.
"""

import io
import logging
import math
import re
from pathlib import Path
from typing import Any

from mlperf_logging.mllog import constants as keys
from mlperf_logging.mllog.mllog import MLLogger

from results.exports.point import (
    TRAINING,
    ExportPoint,
    RepeatSeries,
    export_points,
    file_name,
    legible,
    repeat_series,
    series,
    start_seconds,
)
from results.repeat import RepeatSummary
from results.run import Run
from results.store import write_text

# Rules for a throughput, for `python -m mlperf_logging.compliance_checker --config`.
RULES = Path(__file__).with_name("throughput.yaml")
_ROOT = Path(__file__).parents[2]
_THROUGHPUT = "tracked_stats"


def write(run: Run, folder: Path) -> list[Path]:
    """Write mllog/RUN/POINT/result_REPEAT.txt per repeat; return the folder."""
    home = folder / "mllog" / run.name
    for old in home.glob("*/result_*.txt"):
        old.unlink()
    known = series(run.folder)
    trained = [
        (point, one)
        for point in export_points(run)
        if point.row.trial.mode in TRAINING
        for one in point.row.repeats
        if point.row.rate or one.reached or (one.missed and one.identity in known)
    ]
    for point, one in trained:
        place = home / file_name(point.name)
        place.mkdir(parents=True, exist_ok=True)
        lines = text(one, point, repeat_series(known, one))
        write_text(place / f"result_{one.identity.repeat}.txt", lines)
    return [home] if trained else []


def text(one: RepeatSummary, point: ExportPoint, found: RepeatSeries) -> str:
    """Return the lines of one repeat: settings, one block per window, end."""
    lines = io.StringIO()
    log = _logger(lines, point.standing)
    start = found.ends[0] - found.windows[0][0]
    _settings(log, one, point, _milliseconds(min(start_seconds(one, start), start)))
    log.start(keys.INIT_START, time_ms=_milliseconds(min(start_seconds(one, start), start)))
    log.end(keys.INIT_STOP, time_ms=_milliseconds(start))
    log.start(keys.RUN_START, time_ms=_milliseconds(start))
    _blocks(log, one, found)
    end = _milliseconds(max([found.ends[-1], *(start + last.seconds for last in one.validations)]))
    status = keys.ABORTED if one.missed else keys.SUCCESS
    log.end(keys.RUN_STOP, metadata={keys.STATUS: status}, time_ms=end)
    if one.accuracy is not None and math.isfinite(one.accuracy):
        scope: dict[str, Any] = {"of": "the last validation"}
        if one.validations:
            scope[keys.EPOCH_NUM] = one.validations[-1].epochs
        log.event(keys.EVAL_ACCURACY, one.accuracy, metadata=scope, time_ms=end)
    return lines.getvalue()


def _logger(file: io.StringIO, standing: str) -> MLLogger:
    """Return the library's logger to `file`; the namespace is the point's standing."""
    logger = logging.Logger("mllog")
    logger.addHandler(logging.StreamHandler(file))
    return MLLogger(
        logger=logger, default_namespace=f"mxscale {standing}", root_dir=re.escape(str(_ROOT))
    )


def _settings(log: MLLogger, one: RepeatSummary, point: ExportPoint, time_ms: int) -> None:
    trial = one.trial
    about = {
        "mlperf_result": False,
        "point": point.name,
        "repeat": one.identity.repeat + 1,
        "standing": point.standing,
        # The checker ignores the part of a line before its last mark.
        "source": legible(one.source).replace(":::", ""),
        "code": one.identity.code_hash,
        **point.labels,
    }
    values: dict[str, Any] = {
        "mxscale": about,
        keys.CACHE_CLEAR: trial.mxnet.cold,
        keys.SEED: trial.training.seed,
        keys.GLOBAL_BATCH_SIZE: trial.global_batch,
        keys.OPT_BASE_LR: trial.training.lr,
        keys.OPT_WEIGHT_DECAY: trial.training.weight_decay,
    }
    if trial.data.num_examples:
        values[keys.TRAIN_SAMPLES] = trial.data.num_examples
    for key, value in values.items():
        log.event(key, value, time_ms=time_ms)


def _blocks(log: MLLogger, one: RepeatSummary, found: RepeatSeries) -> None:
    samples = 0
    for number, (seconds, images) in enumerate(found.windows):
        end = found.ends[number]
        log.start(
            keys.BLOCK_START,
            metadata={keys.SAMPLES_COUNT: samples},
            time_ms=_milliseconds(end - seconds),
        )
        samples += images
        is_counted = one.samples is not None and number >= one.dropped
        counts = {keys.SAMPLES_COUNT: samples, "counts": is_counted}
        value = {"throughput": images / seconds}
        log.event(_THROUGHPUT, value, metadata=counts, time_ms=_milliseconds(end))
        log.end(keys.BLOCK_STOP, metadata=counts, time_ms=_milliseconds(end))


def _milliseconds(seconds: float) -> int:
    return round(1000 * seconds)
