"""One worker process, with upstream train_imagenet.py's option names.

    python -m bench.train_imagenet --network alexnet --batch-size 8 --benchmark 1 --windows 10

A worker of a job sends events to its agent. Started by hand, it prints a summary at the end.
"""

import math
import os
import resource
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

if not __package__:
    print(
        "error: bench/train_imagenet.py: cannot run as a script. "
        "Run 'python -m bench.train_imagenet ...' in the checkout",
        file=sys.stderr,
    )
    raise SystemExit(2)
if __name__ == "__main__":
    from bench.errors import check_python

    check_python("bench.train_imagenet")

from bench import events
from bench.auto_batch import advice, is_out_of_memory, sized
from bench.data import input_format, shard_checks
from bench.engines import server
from bench.engines.catalog import ENGINES
from bench.environment import computing, software
from bench.errors import SpecError, error_line
from bench.kvstores import find_kvstore
from bench.networks import NETWORKS, describe, named
from bench.networks.catalog import check_images
from bench.notes import as_json
from bench.statistics.stopping_rule import per_image_seconds, relative_half_width
from bench.training.options import Options, given, parser, used
from bench.training.startup import announce_rendezvous, prepare_arithmetic
from im2rec_tools.terminal import echo, echo_error, install_filter, unexpected

if TYPE_CHECKING:
    from bench.training.loop import TrainingSummary


# The options that select a network.
_NETWORK = {"--network", "--num-layers"}
# The variables that place a worker of PyTorch in its job.
_PLACE = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")
# The variables that name the job's scheduler and its number of processes.
_NEEDED = ("DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT", "DMLC_NUM_WORKER", "DMLC_NUM_SERVER")


def summary_text(options: Options, summary: "TrainingSummary") -> str:
    """Return the summary of a worker that was started by hand."""
    steady = summary.windows[options.warmup_windows :] or summary.windows
    images = sum(window["images"] for window in steady)
    rate = images / sum(window["seconds"] for window in steady)
    alone = summary.num_workers == 1
    by, of = ("", "") if alone else (f" by rank {summary.rank}", f" of rank {summary.rank}")
    counted = f"{len(steady)} window{'s' if len(steady) > 1 else ''}"
    if options.bandwidth:  # whose "images" are bytes
        return f"{rate / 1e6:.0f} MB/s in each direction{by}, in {counted}"
    what = "read" if options.test_io else "trained"
    known = relative_half_width(per_image_seconds(summary.windows), options.warmup_windows)
    batch = steady[-1]["images"] // steady[-1]["steps"]  # ranks may have different batches
    percent = f"{float(f'{100 * known:.2g}'):g}"  # two digits: 110, not 1.1e+02
    lines = [
        f"{rate:.2f} images/s {what}{by}: {images} images in {counted} after a "
        f"warm-up of {len(summary.windows) - len(steady)}; worker batch {batch}"
        + (f"; 95 % CI ±{percent} % (within-process variance only)" if math.isfinite(known) else "")
    ]
    if summary.accuracy is not None and not (summary.joined and summary.rank):
        target = options.stop_accuracy
        missed = f", which does not exceed --stop-accuracy {target:g}"
        lines.append(
            f"validation accuracy {summary.accuracy:.3f}{'' if summary.joined else of}"
            + (missed if target < 1 and summary.accuracy <= target else "")
        )
    return "\n".join(lines)


def _run(options: Options) -> "TrainingSummary":
    announce_rendezvous()
    if options.test_io:
        from bench.training.input_rate import time_input  # noqa: PLC0415

        return time_input(options)
    # Load MXNet only after the options are validated.
    if options.bandwidth:
        from bench.training.mxnet.bandwidth import time_transfers  # noqa: PLC0415

        return time_transfers(options)
    instructions = prepare_arithmetic("float32" if options.gpus else options.dtype)
    if options.engine == "torch":
        from bench.training.torch.backend import train  # noqa: PLC0415
    else:
        from bench.training.mxnet.backend import train  # noqa: PLC0415

    return train(options, {"instructions": instructions, "variables": computing()})


def _missing() -> list[str]:
    return [name for name in _NEEDED if name not in os.environ]


def _check_place(options: Options) -> None:
    """Raise SpecError unless the environment places this worker in the job."""
    missing = [name for name in _PLACE if not os.environ.get(name)]
    spans = ENGINES[options.engine].comms[options.kv_store].spans
    if spans and missing:
        where = f"--kv-store {options.kv_store}"
        got = f"all but {', '.join(missing)}" if len(missing) < len(_PLACE) else "none of them"
        expected, fix = f"{', '.join(_PLACE)} in the environment", "Use 'fab bench.sweep'"
        raise SpecError(error_line(where, expected=expected, got=got, fix=fix))
    if options.expect_workers > 1 and not spans:
        expected, count = "1 with --kv-store none", options.expect_workers
        fix = "Give --kv-store ddp"
        raise SpecError(error_line("--expect-workers", expected=expected, got=count, fix=fix))


def _check_role(options: Options) -> None:
    """Raise SpecError unless DMLC_ROLE is a worker's.

    For any other role, MXNet's import would start a server or scheduler.
    """
    comm = ENGINES[options.engine].comms[options.kv_store]
    if options.engine == "torch" or comm.borrows:
        _check_place(options)
    if options.engine == "torch":
        return
    role = os.environ.get(
        "DMLC_ROLE", "worker" if not find_kvstore(options.kv_store).servers else ""
    )
    if find_kvstore(options.kv_store).servers and (role != "worker" or _missing()):
        raise SpecError(
            error_line(
                f"--kv-store {options.kv_store}",
                expected=(
                    "a scheduler and servers in the environment (DMLC_ROLE=worker, "
                    f"{', '.join(_NEEDED)})"
                ),
                got="none",
                fix="Start the whole job by 'fab bench.sweep'",
            )
        )
    if role != "worker":
        raise SpecError(
            error_line(
                "DMLC_ROLE",
                expected="it unset or 'worker'",
                got=f"{role!r}",
                fix="Run 'unset DMLC_ROLE'",
            )
        )
    alone = not comm.spans and not options.test_io
    if options.expect_workers > 1 and alone:
        raise SpecError(
            error_line(
                "--expect-workers",
                expected=f"1 with --kv-store {options.kv_store}",
                got=options.expect_workers,
            )
        )


def _say_done(summary: "TrainingSummary") -> None:
    """Send the last event of a worker that completed its work."""
    values = {
        "ended": summary.ended,
        "notes": [as_json(note) for note in summary.notes],
        "weight_hash": summary.weight_hash,
        **summary.device_memory,
        **({"own_seconds": list(summary.own_seconds)} if summary.own_seconds else {}),
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        **software(),
    }
    events.say("done", values, rank=summary.rank)


def _fail(error: Exception, code: int) -> NoReturn:
    """Report the error and exit at once.

    A normal exit would wait for the other workers in the kvstore's destructor.
    """
    # MXNet prints its own stack before the message.
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    line = lines[-1] if lines else type(error).__name__
    events.say("failed", {"message": line, "error": type(error).__name__})
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _explain(error: Exception, options: Options | None) -> NoReturn:
    if options and is_out_of_memory(error):
        whole, mirror = options.global_batch or options.batch_size, options.engine == "mxnet"
        error = MemoryError(advice(whole, options.devices, mirror=mirror))
    if isinstance(error, MemoryError | FloatingPointError):
        echo_error(error)
    elif events.STREAM_VARIABLE in os.environ:
        traceback.print_exception(error)  # in the worker's log
    else:
        echo(f"error: {unexpected(error)}", err=True)
    _fail(error, 1)


def parse(argv: Sequence[str]) -> Options:
    """Parse the options.

    Network and input that are not given are those of the checkpoint to continue. Without one,
    classes and image shape are those of the shards.
    """
    made = parser()
    typed = given(made, argv)
    continues = typed["load_epoch"] and typed["model_prefix"]
    settled = _fill_from_checkpoint(typed, argv) if continues else []
    network, _ = named(typed["network"])
    usual = NETWORKS[network].image_shape
    notes = shard_checks.fill_from_shards(typed, [*argv, *settled], usual)
    if continues and not settled:
        _check_assumed(typed, argv)
    options = used(made, argv, typed)
    shard_checks.check_image_shape(options)
    notes.append(shard_checks.check_validation(options))
    echo(*filter(None, notes), err=True)
    if continues:
        _check_continued_classes(options)
    return options


def _check_continued_classes(options: Options) -> None:
    """Raise SpecError if the shards have other classes than the checkpoint."""
    prefix = options.model_prefix
    if not options.benchmark:
        fix = (
            f"For other classes, run 'python -m bench.fine_tune --pretrained-model {prefix}' with "
            "another --model-prefix"
        )
        shard_checks.check_checkpoint_classes("--data-train", options.data_train, prefix, fix)


def _fill_from_checkpoint(typed: dict[str, Any], argv: Sequence[str]) -> list[str]:
    """Set the network and its input to those of the checkpoint to continue.

    Returns the options that it settles. Raises SpecError if a given one differs.
    """
    prefix = typed["model_prefix"]
    if input_format.is_fine_tuned(prefix):
        problem = "was fine-tuned"
        fix = "Continue with 'python -m bench.fine_tune' and the same options, without --network"
        raise SpecError(error_line(prefix, problem=problem, fix=fix))
    found = input_format.read(prefix)
    if found and found.network:
        if _NETWORK & input_format.given_options(argv):
            _check_network(typed, found.network)
        else:
            typed["network"] = found.network
    return input_format.fill_from_checkpoint(typed, argv, prefix)


def _check_network(typed: dict[str, Any], before: str) -> None:
    """Raise SpecError if the given network is not that of the checkpoint to continue."""
    (family, depth), (wanted, layers) = named(typed["network"]), named(before)
    depth = typed["num_layers"] or depth
    if family == wanted and (depth == layers or before == wanted):
        return  # earlier versions wrote no depth
    path = input_format.path_of(typed["model_prefix"])
    expected, got = f"{before}, as in {path}", describe(family, depth)
    raise SpecError(error_line("--network", expected=expected, got=got, fix="Leave it out"))


def _check_assumed(typed: dict[str, Any], argv: Sequence[str]) -> None:
    """Note the input that a checkpoint without a description leaves open.

    SpecError if the network cannot have it.
    """
    network, layers = named(typed["network"])
    if typed["image_shape"] is None:
        typed["image_shape"] = ",".join(map(str, NETWORKS[network].image_shape))
    if note := input_format.assumption_note(typed, argv, typed["model_prefix"]):
        echo(note, err=True)
    if "--image-shape" in input_format.given_options(argv):
        return
    shape = tuple(map(int, typed["image_shape"].split(",")))
    try:
        check_images(network, typed["num_layers"] or layers, shape)
    except SpecError as error:
        missing = input_format.path_of(typed["model_prefix"])
        expected, problem = "that of the training", f"{missing} is missing"
        line = error_line(
            "--image-shape", expected=expected, got="none", problem=problem, fix="Give it"
        )
        raise SpecError(line) from error


def _continuation(options: Options) -> str:
    """Return how to continue after the newest epoch of this training; '' without one."""
    epoch = input_format.newest_epoch(options.model_prefix) if options.model_prefix else 0
    if epoch <= options.load_epoch:
        return ""
    starts = options.pretrained and options.pretrained != options.model_prefix
    without = " and without --pretrained-model" if starts else ""
    return f"; continue with the same command, --load-epoch {epoch}{without}"


def main(read: Callable[[Sequence[str]], Options] = parse) -> None:
    """Run the worker; exit 2 for wrong options or data, 1 if training fails."""
    install_filter()
    options: Options | None = None
    try:
        options = read(sys.argv[1:])
        if os.environ.get("DMLC_ROLE") in {"server", "scheduler"} and not _missing():
            # Launchers that start one program for all roles expect this.
            server.main(profiled=bool(options.profile_server_suffix))
        options = read(sized(options, sys.argv[1:])) if options.auto_batch else options
        _check_role(options)
        summary = _run(options)
        _say_done(summary)
    except KeyboardInterrupt:
        echo(f"interrupted{_continuation(options) if options else ''}", err=True)
        _fail(RuntimeError("interrupted"), 130)
    except SpecError as error:
        echo_error(error)
        _fail(error, 2)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        _fail(RuntimeError(f"sys.exit({error.code!r})"), code)
    except Exception as error:  # noqa: BLE001 - the outermost door
        _explain(error, options)
    echo(*summary_text(options, summary).splitlines())


if __name__ == "__main__":
    main()
