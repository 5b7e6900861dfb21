"""Names of a sweep's points, and the words that select points."""

import hashlib
from collections import Counter
from collections.abc import Sequence

from bench.errors import SpecError, error_line, quoted
from bench.trial import FIELDS, Trial, values_of

# Values of a field to print; a list may have hundreds.
_MOST = 8
# Characters of a value in a name, and in a word that selects a point.
_MOST_TEXT = 40
# Names of points to print in an error.
_MOST_NAMES = 30
# The script of the simulated engine, which only records and results.csv show.
_SCRIPT = "fake_"
# The word that selects a point by its key.
_KEY = "key"
# The name of a point contains these if they have no default.
_IN_NAME = ("dtype", "gc_type", "costs")
# Parts of a trial that one engine has, and a field that engines fill.
_OWN_PARTS, _FILLED = ("torch", "program"), "devices_per_worker"
_OWN = {name for name, one in FIELDS.items() if one.path.partition(".")[0] in _OWN_PARTS}
_values = values_of(FIELDS)


def differing(trials: Sequence[Trial]) -> list[list[str]]:
    """Return, per trial, the fields that differ among trials with its label.

    The label is network, mode, kvstore and devices. Empty for a trial with a unique label. Among
    several engines, every trial has `engine`, which stands for the fields that only one of them
    has.
    """
    mixed = len({trial.engine for trial in trials}) > 1
    alike: dict[object, list[int]] = {}
    for place, trial in enumerate(trials):
        alike.setdefault(_shown(trial), []).append(place)
    found = [list[str]()] * len(trials)
    for places in alike.values():
        members = _of_engines([trials[place] for place in places])
        for place, names in zip(places, members, strict=True):
            found[place] = ["engine", *names] if mixed and "engine" not in names else names
    return found


def _of_engines(trials: Sequence[Trial]) -> list[list[str]]:
    """Return, per trial, the fields that differ, without those of its engine."""
    names = _differing(trials)
    if "engine" not in names:
        return [names] * len(trials)
    engines: dict[str, list[Trial]] = {}
    for trial in trials:
        engines.setdefault(trial.engine, []).append(trial)
    within = {engine: _differing(members) for engine, members in engines.items()}
    return [
        [one for one in names if one not in {*_OWN, _FILLED} or one in within[trial.engine]]
        for trial in trials
    ]


def _differing(trials: Sequence[Trial]) -> list[str]:
    """Return the fields that differ; those of a script only if no others do."""
    if len(trials) == 1:
        return []
    columns = zip(*map(_values, trials), strict=True)
    names = [name for name, some in zip(FIELDS, columns, strict=True) if len(set(some)) > 1]
    plain = [name for name in names if not name.startswith(_SCRIPT)]
    distinct = {tuple(one.value(name) for name in plain) for one in trials}
    return plain if len(distinct) == len(set(trials)) else names


def _shown(trial: Trial) -> object:
    return trial.label, trial.mode, trial.layout.kvstore, trial.layout.devices


def varying(trials: Sequence[Trial]) -> list[str]:
    """Return the fields that `differing` has for some point, in the order of records."""
    found = {name for names in differing(trials) for name in names}
    return [name for name in FIELDS if name in found]


def distinguishing_fields(trials: Sequence[Trial]) -> list[str]:
    """Return the `differing` fields as text: 'dtype bfloat16, gc_type 2bit'."""
    return [
        format_fields(trial, names) for trial, names in zip(trials, differing(trials), strict=True)
    ]


def point_names(trials: Sequence[Trial]) -> list[str]:
    """Return names with the fields that they lack: 'tiny local x2 (lr 0.1)'.

    Points whose names are still equal, because long values are cut, also have their keys.
    """
    texts = [
        format_fields(trial, names) for trial, names in zip(trials, _unnamed(trials), strict=True)
    ]
    count = Counter((trial.name, text) for trial, text in zip(trials, texts, strict=True) if text)
    return [
        f"{trial.name} ({text}{f', key {trial.key}' * (count[trial.name, text] > 1)})"
        if text
        else trial.name
        for trial, text in zip(trials, texts, strict=True)
    ]


def point_words(trials: Sequence[Trial]) -> list[str]:
    """Return the words that select each point: 'tiny local x2 lr=0.1'.

    The key of the point replaces values that are no words or too long.
    """
    found = []
    for trial, names in zip(trials, _unnamed(trials), strict=True):
        words = {name: _word(trial, name) for name in names}
        more = [f"{name}={word}" for name, word in words.items() if word]
        key = [] if all(words.values()) else [f"{_KEY}={trial.key}"]
        found.append(" ".join([trial.name, *more, *key]))
    return found


def _unnamed(trials: Sequence[Trial]) -> list[list[str]]:
    """Return the `differing` fields that the name of a point does not contain."""
    return [[name for name in names if name not in _IN_NAME] for names in differing(trials)]


def format_fields(trial: Trial, names: Sequence[str]) -> str:
    """Return the trial's fields as text: 'dtype bfloat16, gc_type 2bit'."""
    return ", ".join(f"{name} {short_value(trial.value(name))}" for name in names)


def short_value(value: object) -> str:
    """Return the value as `format_value` does; a long one is cut in its middle.

    Four hex digits of its SHA-256 replace the middle, so that unlike values stay unlike.
    """
    text = " ".join(map(str, value)) if isinstance(value, tuple) else format_value(value)
    if len(text) <= _MOST_TEXT:
        return text or format_value(value)
    cut = f"…{hashlib.sha256(repr(value).encode()).hexdigest()[:4]}…"
    half = (_MOST_TEXT - len(cut)) // 2
    return f"{text[:half]}{cut}{text[-half:]}"


def format_value(value: object) -> str:
    """Return the value of a field as text: 'true', '1 2', 'none' if it is empty."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        more = f" and {len(value) - _MOST} more" if len(value) > _MOST else ""
        return (" ".join(map(str, value[:_MOST])) or "none") + more
    return "none" if value in {"", None} else str(value)


def _word(trial: Trial, name: str) -> str:
    """Return the value as one word of a selection; '' if it is none, or too long."""
    text = _text(trial, name)
    return "" if len(text) > _MOST_TEXT or any(one.isspace() for one in text) else text


def _text(trial: Trial, name: str) -> str:
    value = trial.value(name)
    return ",".join(map(str, value)) if isinstance(value, tuple) else format_value(value)


def is_called(trial: Trial, words: str) -> bool:
    """Return whether all words fit: words of the trial's name, FIELD=VALUE or key=KEY."""
    name = set(trial.name.split())
    return all(word in name or _has(trial, word) for word in words.split())


def _has(trial: Trial, word: str) -> bool:
    name, _, text = word.partition("=")
    if name == _KEY:
        return text == trial.key
    if name not in FIELDS:
        return False
    value = trial.value(name)
    if type(value) in {int, float}:
        try:
            return bool(float(text) == value)
        except ValueError:
            return False
    return text == _text(trial, name) or (name == "network" and text == trial.network_name)


def chosen(trials: Sequence[Trial], words: str) -> list[Trial]:
    """Return the trials that all words fit; SpecError if there are none.

    Example: 'resnet-152 x256 gc_type=2bit'.
    """
    found = [trial for trial in trials if is_called(trial, words)]
    if not found:
        names = point_words(trials)
        more = [f"{len(names) - _MOST_NAMES} more"] if len(names) > _MOST_NAMES else []
        raise SpecError(
            error_line(
                "point",
                expected="words of a point's name",
                got=quoted(words),
                fix=f"The points: {', '.join([*names[:_MOST_NAMES], *more])}",
            )
        )
    return found
