"""Labels of points that differ only in other settings."""

from bench.settings.point_names import distinguishing_fields
from bench.trial import make

BASE = {"network": "tiny", "kvstore": "dist_sync", "devices": 2, "batch_per_device": 8}


def test_only_points_that_look_alike_are_told_apart_and_by_what_differs() -> None:
    trials = [
        make(BASE),
        make(BASE | {"dtype": "bfloat16"}),
        make(BASE | {"options": ["--optimizer=nag", "--initializer=zero"]}),
        make(BASE | {"devices": 4}),
    ]
    assert distinguishing_fields(trials) == [
        "dtype float32, options none",
        "dtype bfloat16, options none",
        "dtype float32, options --optimizer=nag --initializer=zero",
        "",
    ]
