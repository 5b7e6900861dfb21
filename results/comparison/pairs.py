"""Pairs of points in two runs: equal settings, or the same changed setting."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from bench.settings.declaration import Role
from bench.trial import FIELDS, Trial, given_settings, values_of, with_role
from results.record import grouped
from results.scaling import ScalingRow

Key = Callable[[Trial], Hashable]
Pairs = Sequence[tuple[ScalingRow, ScalingRow]]

# Settings that distinguish points.
_SETTINGS = with_role(Role.IDENTITY, Role.SCALED, Role.SERVERS)
_settings = values_of(_SETTINGS)
# Lists of NAME=VALUE, compared entry by entry; the others are compared as a whole.
_ENTRIES = ("env", "options")
# A network is one choice, and its fields follow from it.
_NETWORK = ("network", "num_layers")
_MOST_VALUES = 8


@dataclass(frozen=True, kw_only=True)
class SettingChange:
    """A setting with different values in A and B: 'OMP_NUM_THREADS 1 (default) → 2'.

    field    stored name of the setting; `name` also names an entry of a list
    a, b     its values; None for an entry that is not set
    default  the value that counts if none is given; None if there is none, or it is unknown
    """

    field: str
    name: str
    a: Any
    b: Any
    default: Any = None

    def __str__(self) -> str:
        return f"{self.name} {self._text(self.a)} → {self._text(self.b)}"

    def _text(self, value: Any) -> str:
        if value is None:
            return "unset" if self.default is None else f"{_plain(self.default)} (default)"
        known = self.field not in _ENTRIES and self.default is not None
        return _plain(value) + (" (default)" if known and value == self.default else "")


def _plain(value: Any) -> str:
    """Return a value as a sweep file has it, without quotes and brackets."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        more = f" and {len(value) - _MOST_VALUES} more" if len(value) > _MOST_VALUES else ""
        return (",".join(map(_plain, value[:_MOST_VALUES])) or "none") + more
    if isinstance(value, float):
        return f"{value:g}"
    return "none" if value in {"", None} else str(value)


def same_settings(trial: Trial) -> Hashable:
    """Return the pairing key of equal points: every setting that affects the result."""
    return _settings(trial)


def same_size(trial: Trial) -> Hashable:
    """Return the pairing key of --across: mode, network and number of devices."""
    return trial.mode, trial.label, trial.layout.devices


def pair_rows(a: Sequence[ScalingRow], b: Sequence[ScalingRow], key: Key) -> Pairs:
    """Pair rows with the same key, fewest differing settings first; in the order of A."""
    places = grouped((key(row.trial), m) for m, row in enumerate(b))
    found = sorted(
        (
            len(_differing(one.trial, b[m].trial)),
            sorted((one.trial.key, b[m].trial.key)),
            n,
            m,
        )
        for n, one in enumerate(a)
        for m in places.get(key(one.trial), ())
    )
    partner: dict[int, int] = {}
    taken: set[int] = set()
    for _, _, n, m in found:
        if n not in partner and m not in taken:
            partner[n] = m
            taken.add(m)
    return [(a[n], b[m]) for n, m in sorted(partner.items())]


def pair_changed(a: Sequence[ScalingRow], b: Sequence[ScalingRow]) -> Pairs:
    """Pair rows that differ in one setting; none if several settings changed.

    Every pair must have the same values before and after, so the partner of each row is
    certain, and the comparison has one subject.
    """
    alike = [
        (found, row, other)
        for row in a
        for other in b
        if len(_differing(row.trial, other.trial)) <= _MOST_DERIVED
        and len(found := setting_changes(row.trial, other.trial)) == 1
    ]
    return [pair[1:] for pair in alike] if len({found for found, *_ in alike}) == 1 else []


# Fields of one choice: itself, or the network and its depth, and those derived from it.
_MOST_DERIVED = 6


def _differing(a: Trial, b: Trial) -> list[str]:
    """Return the stored names of all settings that differ."""
    values = zip(_SETTINGS, _settings(a), _settings(b), strict=True)
    return [name for name, one, other in values if one != other]


def setting_changes(a: Trial, b: Trial) -> tuple[SettingChange, ...]:
    """Return the chosen settings that differ; those that follow from them are omitted."""
    names = _differing(a, b)
    if not names:
        return ()
    follow = _derived(a) & _derived(b)
    found: list[SettingChange] = []
    for name in names:
        if name in _ENTRIES:
            found += _changed_entries(name, a.value(name), b.value(name))
        elif name not in follow and name not in _NETWORK:
            found.append(_change(name, a.value(name), b.value(name)))
    if set(_NETWORK) & set(names):
        found.insert(0, _change("network", a.network_name, b.network_name))
    # A value that follows from the others may differ between versions.
    return tuple(found or (_change(name, a.value(name), b.value(name)) for name in names))


def change_of(pairs: Pairs) -> SettingChange:
    """Return the change of `pair_changed`.

    A variable that one side does not set has the value that its workers report as default.
    """
    (found,) = setting_changes(pairs[0][0].trial, pairs[0][1].trial)
    if found.field != "env" or None not in {found.a, found.b}:
        return found
    without = [pair[found.a is not None] for pair in pairs]
    seen = {one.conditions.get(found.name) for row in without for one in row.repeats} - {None}
    return replace(found, default=seen.pop()) if len(seen) == 1 else found


@lru_cache(maxsize=4096)
def _derived(trial: Trial) -> frozenset[str]:
    """Return the settings whose values follow from the others of the trial."""
    return frozenset(FIELDS.keys() - given_settings(trial).keys())


def _change(name: str, a: Any, b: Any) -> SettingChange:
    usual = FIELDS[name].default
    default = usual if isinstance(usual, type(a)) and name != "network" else None
    return SettingChange(field=name, name=name, a=a, b=b, default=default)


def _changed_entries(field: str, a: Sequence[str], b: Sequence[str]) -> Iterator[SettingChange]:
    one, other = _entries(a), _entries(b)
    for name in dict.fromkeys([*one, *other]):
        if one.get(name) != other.get(name):
            yield SettingChange(field=field, name=name, a=one.get(name), b=other.get(name))


def _entries(texts: Sequence[str]) -> Mapping[str, str]:
    """Return values by name; a variable without '=' has a value that is not recorded."""
    pairs = (text.partition("=") for text in texts)
    return {name: value if equals else "not recorded" for name, equals, value in pairs}
