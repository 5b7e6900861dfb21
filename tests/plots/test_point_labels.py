"""Labels of points that differ only in other settings."""

from bench.settings.point_names import distinguishing_fields, point_names, short_value, varying
from bench.trial import make
from plots.figures.model import lines
from tests.support.runs.scenes import point, run

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


def test_the_engine_stands_for_what_it_determines() -> None:
    ddp = BASE | {"engine": "torch", "kvstore": "ddp", "steps_per_window": 10}
    program = {"engine": "command", "format": "tf-cnn", "command": ["run"]}
    trials = [
        make(ddp),
        make(ddp | {"compile": True}),
        make(ddp | {"lr": 0.5}),
        make(ddp | program),
        make(ddp | program | {"command": ["run", "--fast"]}),
    ]
    assert point_names(trials) == [
        "tiny ddp x2 (engine torch, lr 0.01, compile false)",
        "tiny ddp x2 (engine torch, lr 0.01, compile true)",
        "tiny ddp x2 (engine torch, lr 0.5, compile false)",
        "tiny ddp x2 (engine command, lr 0.01, command run)",
        "tiny ddp x2 (engine command, lr 0.01, command run --fast)",
    ]
    assert varying(trials) == ["engine", "lr", "compile", "command"]
    assert point_names(trials[:1] + trials[3:4]) == [
        "tiny ddp x2 (engine torch)",
        "tiny ddp x2 (engine command)",
    ]


def test_long_values_that_differ_in_their_middle_or_after_many_words_stay_apart() -> None:
    start, end = ["./edge.py"], ["{batch}", "{devices}", "--learning-rate=0.1", "--optimizer=sgd"]
    commands = [(*start, word, *end) for word in ("plain", "double")]
    commands += [tuple("abcdefgh") * 3 + (word,) for word in ("x", "y")]
    texts = [short_value(one) for one in commands]
    assert len(set(texts)) == 4
    assert max(map(len, texts)) <= 40
    records = [
        point(2, 10.0, engine="command", command=list(one), format="mxnet") for one in commands
    ]
    assert len({line.label for line in lines(run(records).rows)}) == 4
