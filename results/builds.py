"""Which builds of MXNet the two sides of a comparison ran."""

from collections.abc import Mapping, Sequence
from typing import Any

from results.ab import BLOCK
from results.errors import StoreError
from results.record import Record


def sides(records: Sequence[Record]) -> list[str]:
    """What A and B ran, of records in the order of running; none where none trained.

    Raises StoreError where a side changed its build meanwhile.
    """
    found = {side: _builds(records, side) for side in "AB"}
    for side, builds in found.items():
        if len(builds) > 1:
            raise StoreError(
                f"{side} ran different builds ({'; '.join(builds)}): its rates cannot be taken "
                f"together; measure with another --run"
            )
    if found["A"] == found["B"]:
        return [f"A and B ran {one}" for one in found["A"]]
    return [f"{side} ran {one}" for side, builds in found.items() for one in builds]


def _builds(records: Sequence[Record], side: str) -> list[str]:
    """Each build of that side's workers in words, once, by the first place it was seen at."""
    own = [record for n, record in enumerate(records) if BLOCK[n % len(BLOCK)] == side]
    facts = [rank.facts for record in own for rank in record.ranks]
    # Records of before tell none, nor do rehearsals.
    told = [one for one in facts if "mxnet_digest" in one]
    builds = {one["mxnet_digest"]: _words(one) for one in reversed(told)}
    return list(builds.values())


def _words(facts: Mapping[str, Any]) -> str:
    library, digest = facts["mxnet_library"], facts["mxnet_digest"]
    return f"MXNet {facts['mxnet']} ({library}, digest {digest}) on Python {facts['python']}"
