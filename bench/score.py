"""Score a checkpoint on a set of images; replaces upstream's score.py.

python -m bench.score --model PREFIX --load-epoch 8 --data-val val
"""

import argparse
import sys
from collections.abc import Sequence

if not __package__:
    print(
        "error: bench/score.py: cannot run as a script. "
        "Run 'python -m bench.score ...' in the checkout",
        file=sys.stderr,
    )
    raise SystemExit(2)
if __name__ == "__main__":
    from bench.errors import check_python

    check_python("bench.score")

from bench.data import DATA, input_format, shard_checks
from bench.errors import SpecError, error_line, is_whole, quoted
from bench.predict import add_input_options
from bench.training.options import empty, parse
from im2rec_tools.terminal import echo, echo_error, install_filter

_READ = ("rgb_mean", "rgb_std", "image_shape", "data_nthreads", "gpus")


def parser() -> argparse.ArgumentParser:
    """Return the parser of `python -m bench.score`."""
    made = empty("score", "Score a checkpoint on a set of images.")
    add = made.add_argument
    add(
        "--model",
        "--model-prefix",
        required=True,
        metavar="PREFIX",
        help="Prefix of the checkpoint's files",
    )
    add("--load-epoch", type=int, metavar="N", help="Epoch of the checkpoint [the newest]")
    add("--data-val", required=True, metavar="PATH", help=f"Shards: {DATA}")
    text = "Metrics: acc, top_k_accuracy_K, ce, nll-loss"
    usual = "[acc; above 5 classes, also top_k_accuracy_5]"
    add("--metrics", metavar="LIST", help=f"{text} {usual}")
    add("--batch-size", type=int, default=32, metavar="N", help="Images per batch")
    add("--gpus", default="", metavar="N", help="Index of the GPU [CPU]")
    add_input_options(made)
    add("--data-nthreads", default="4", metavar="N", help="Decoding threads")
    return made


def metrics(text: str) -> dict[str, int]:
    """Parse metrics: each name and its k (1 for accuracy, 0 for a loss).

    Raises SpecError for others.
    """
    found: dict[str, int] = {}
    for name in filter(None, text.split(",")):
        k = name.removeprefix("top_k_accuracy_")
        if name in {"acc", "accuracy"}:
            found[name] = 1
        elif name in {"ce", "nll-loss"}:
            found[name] = 0
        elif k != name and is_whole(k) and int(k):
            found[name] = int(k)
        else:
            raise SpecError(
                error_line(
                    "--metrics", expected="acc, top_k_accuracy_K, ce or nll-loss", got=quoted(name)
                )
            )
    if not found:
        raise SpecError(error_line("--metrics", expected="at least one metric", got="none"))
    return found


def score(argv: Sequence[str]) -> dict[str, float]:
    """Compute the requested metrics by name.

    Raises SpecError if model or data cannot be read.
    """
    typed = vars(parser().parse_args(argv))
    asked = None if typed["metrics"] is None else metrics(typed["metrics"])
    input_format.fill_from_checkpoint(typed, argv, typed["model"])
    if note := input_format.assumption_note(typed, argv, typed["model"]):
        echo(note, err=True)
    if known := input_format.read(typed["model"]):
        data, fix = typed["data_val"], "Give shards of the same classes"
        source = input_format.path_of(typed["model"])
        shard_checks.check_classes("--data-val", data, known.labels, source, fix)
        note = shard_checks.recipe_note("--data-val", data, known.recipe, source)
        if note:
            echo(note, err=True)
    reading = [f"--{name.replace('_', '-')}={typed[name]}" for name in _READ]
    reading += [f"--data-train={typed['data_val']}", f"--batch-size={typed['batch_size']}"]
    options = parse([*reading, "--test-io=1", "--network=tiny"])
    # Load MXNet only after the options are validated.
    from bench.data.partition import whole_data  # noqa: PLC0415
    from bench.training import validation  # noqa: PLC0415
    from bench.training.mxnet.checkpoint import predictor  # noqa: PLC0415
    from bench.training.mxnet.inputs import validation_batches  # noqa: PLC0415
    from bench.training.mxnet.worker import device_contexts  # noqa: PLC0415

    whole = whole_data(options.data_train)
    size = min(options.batch_size, whole.epoch)
    epoch = typed["load_epoch"]
    run = predictor(
        typed["model"],
        input_format.newest_epoch(typed["model"]) if epoch is None else epoch,
        (size, *options.image_shape),
        device_contexts(options)[0],
    )
    sums: dict[int, validation.Score] = {}
    for data, label, kept in validation_batches(options, whole, size):
        scores, labels = run(data)[:kept], label.asnumpy()[:kept]
        asked = asked or metrics("acc,top_k_accuracy_5" if scores.shape[1] > 5 else "acc")
        sums = sums or dict.fromkeys(_ks(asked, scores.shape[1]), validation.Score())
        sums = {k: sum_ + validation.score_outputs(scores, labels, k) for k, sum_ in sums.items()}
    one = next(iter(sums.values()))
    found = {0: one.loss, 1: one.correct, **{k: sums[k].in_top_k for k in sums if k > 1}}
    return {name: float(found[k]) / one.total for name, k in (asked or {}).items()}


def _ks(asked: dict[str, int], classes: int) -> set[int]:
    """Return the k of each top-k accuracy; SpecError for more than the classes."""
    ks = {k for k in asked.values() if k > 1} or {1}
    if max(ks) > classes:
        raise SpecError(
            error_line("--metrics", expected=f"k of at most {classes} classes", got=max(ks))
        )
    return ks


def main() -> None:
    """Print one line per metric; exit 2 for wrong options, model or data."""
    install_filter()
    try:
        found = score(sys.argv[1:])
    except (SpecError, ValueError, FloatingPointError) as error:
        echo_error(error)
        sys.exit(2)
    except KeyboardInterrupt:
        echo("interrupted", err=True)
        sys.exit(130)
    for name, value in found.items():
        echo(f"{name} {value:.4f}")


if __name__ == "__main__":
    main()
