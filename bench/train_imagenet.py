"""One worker process, with upstream train_imagenet.py's option names.

    python -m bench.train_imagenet --network alexnet --batch-size 8 --benchmark 1 --windows 10

Under a master it says events; typed by hand it prints its own summary at the end.
"""

import math
import os
import resource
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

if not __package__:
    print("run `python -m bench.train_imagenet ...` in this checkout", file=sys.stderr)
    raise SystemExit(2)

from bench import events
from bench.auto_batch import advice, is_out_of_memory, sized
from bench.engines import server
from bench.environment import computing, software
from bench.errors import SpecError
from bench.kvstores import is_distributed
from bench.notes import as_json
from bench.statistics.stopping_rule import per_image_seconds, relative_half_width
from bench.training.options import Options, parse
from bench.training.startup import announce_rendezvous, prepare_arithmetic
from im2rec_tools.terminal import echo, echo_error, install_filter

if TYPE_CHECKING:
    from bench.training.loop import TrainingSummary


# What tells a process where its job's scheduler is and who else is in it.
_NEEDED = ("DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT", "DMLC_NUM_WORKER", "DMLC_NUM_SERVER")


def summary_text(options: Options, summary: "TrainingSummary") -> str:
    """The last lines of a worker typed by hand."""
    steady = summary.windows[options.warmup_windows :] or summary.windows
    images = sum(window["images"] for window in steady)
    rate = images / sum(window["seconds"] for window in steady)
    alone = summary.num_workers == 1
    by, of = ("", "") if alone else (f" by rank {summary.rank}", f" of rank {summary.rank}")
    if options.bandwidth:  # whose images are bytes
        return f"{rate / 1e6:.0f} MB/s each way{by}, in {len(steady)} windows"
    what = "read" if options.test_io else "trained"
    known = relative_half_width(per_image_seconds(summary.windows), options.warmup_windows)
    batch = steady[-1]["images"] // steady[-1]["steps"]  # ranks may have different ones
    percent = f"{float(f'{100 * known:.2g}'):g}"  # two digits, and 110 rather than 1.1e+02
    lines = [
        f"{rate:.2f} images/s {what}{by}: {images} images in {len(steady)} windows, after "
        f"{len(summary.windows) - len(steady)} of warm-up; worker batch {batch}"
        + (f"; known to {percent} % (95 %, this process)" if math.isfinite(known) else "")
    ]
    if summary.accuracy is not None:
        lines.append(f"validation accuracy {summary.accuracy:.3f}{of}")
    return "\n".join(lines)


def _run(options: Options) -> "TrainingSummary":
    announce_rendezvous()
    # MXNet is loaded here, after the options are known to be right.
    if options.test_io:
        from bench.training.input_rate import time_input  # noqa: PLC0415

        return time_input(options)
    if options.bandwidth:
        from bench.training.bandwidth import time_transfers  # noqa: PLC0415

        return time_transfers(options)
    instructions = prepare_arithmetic(options.dtype)
    from bench.training.loop import train  # noqa: PLC0415

    return train(options, {"instructions": instructions, "variables": computing()})


def _missing() -> list[str]:
    return [name for name in _NEEDED if name not in os.environ]


def _check_role(options: Options) -> None:
    """SpecError where DMLC_ROLE is not a worker's: MXNet would become a server while it loads."""
    role = os.environ.get("DMLC_ROLE", "worker" if not is_distributed(options.kv_store) else "")
    if is_distributed(options.kv_store) and (role != "worker" or _missing()):
        raise SpecError(
            f"--kv-store {options.kv_store} needs a scheduler and servers, and the environment "
            f"names none (DMLC_ROLE is not 'worker' or {', '.join(_NEEDED)} are not set); "
            f"'fab bench.sweep' starts all of them"
        )
    if role != "worker":
        raise SpecError(f"DMLC_ROLE is {role!r} in the environment; a worker needs it unset")
    if options.expect_workers > 1 and not is_distributed(options.kv_store):
        raise SpecError(f"--expect-workers: --kv-store {options.kv_store} has one worker")


def _say_done(summary: "TrainingSummary") -> None:
    """The last event of a worker that has done all it was asked for."""
    values = {
        "ended": summary.ended,
        "notes": [as_json(note) for note in summary.notes],
        "weight_hash": summary.weight_hash,
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        **software(),
    }
    events.say("done", values, rank=summary.rank)


def _fail(error: Exception, code: int) -> NoReturn:
    """Leaves at once: left to itself, a worker waits for the others in its store's destructor."""
    # MXNet puts a stack of its own before what it has to say.
    said = [line.strip() for line in str(error).splitlines() if line.strip()]
    line = said[-1] if said else type(error).__name__
    events.say("failed", {"message": line, "error": type(error).__name__})
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _explain(error: Exception, options: Options) -> NoReturn:
    if is_out_of_memory(error):
        error = MemoryError(advice(options.global_batch or options.batch_size, options.devices))
    if isinstance(error, MemoryError | FloatingPointError):
        echo_error(error)
    else:
        traceback.print_exception(error)
    _fail(error, 1)


def main(read: Callable[[Sequence[str]], Options] = parse) -> None:
    """Runs the worker; exits 2 where the options or the data are wrong, 1 where training fails."""
    install_filter()
    try:
        options = read(sys.argv[1:])
        if os.environ.get("DMLC_ROLE") in {"server", "scheduler"} and not _missing():
            # As a launcher that starts one program everywhere means it.
            server.main(profiled=bool(options.profile_server_suffix))
        options = read(sized(options, sys.argv[1:])) if options.auto_batch else options
        _check_role(options)
        summary = _run(options)
        _say_done(summary)
    except KeyboardInterrupt:
        echo("interrupted", err=True)
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
