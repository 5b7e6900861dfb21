"""Results of training besides throughput: time to accuracy, peak memory."""

from collections.abc import Iterator, Sequence

from plots.format import significant
from plots.items import Item
from results.scaling import ScalingRow


def time_cells(row: ScalingRow) -> tuple[str, str]:
    """Return the cells '11.0 ± 1.7 s (2 of 3)' and '3.50': means of the repeats."""
    found = row.time_to_accuracy
    if found is None:
        return "", ""
    if found.seconds is None or found.epochs is None:
        return "not reached", ""
    half = "" if found.half_width is None else f" ± {significant(found.half_width)}"
    some = f" ({len(found.reached)} of {found.repeats})"
    return f"{significant(found.seconds)}{half} s{some}", significant(found.epochs)


def target_columns(rows: Sequence[ScalingRow]) -> list[str]:
    """Return a column for each stop accuracy of these points: 'to 0.9'."""
    found = {one.target for row in rows if (one := row.time_to_accuracy)}
    return [_target_column(target) for target in sorted(found)]


def _target_column(target: float) -> str:
    return f"to {target:g}"


def target_cells(row: ScalingRow, columns: Sequence[str]) -> list[str]:
    """Return the row's cells below `target_columns`."""
    found, (seconds, _) = row.time_to_accuracy, time_cells(row)
    own = _target_column(found.target) if found else ""
    return [seconds if name == own else "" for name in columns]


def time_notes(rows: Sequence[ScalingRow]) -> Iterator[str]:
    """Yield the definition of the time to accuracy, if some point has one."""
    if any(row.time_to_accuracy for row in rows):
        yield (
            "time to accuracy, epochs: from the first batch to the end of the validation that "
            "exceeds stop_accuracy, validations included. Mean and 95 % CI of the repeats that "
            "reached it (2 of 3: two of three repeats)."
        )


def memory_items(rows: Sequence[ScalingRow]) -> list[Item]:
    """Return the peak memory of the ranks of each point that reported it."""
    found = []
    for row in rows:
        ranks = [one for repeat in row.repeats for one in repeat.rank_speeds]
        host = [one.memory_bytes for one in ranks if one.memory_bytes]
        gpu = [one.device_memory_bytes for one in ranks if one.device_memory_bytes]
        texts_of = [_gigabytes(host, "host memory"), _gigabytes(gpu, "GPU memory")]
        if any(texts_of):
            found.append(Item(f"{row.name}: {', '.join(filter(None, texts_of))}"))
    return found


def _gigabytes(counts: Sequence[int], what: str) -> str:
    """Return '2.35 to 3.46 GB of host memory'; empty without counts."""
    ends = dict.fromkeys(significant(end(counts) / 1e9) for end in (min, max) if counts)
    return f"{' to '.join(ends)} GB of {what}" if ends else ""
