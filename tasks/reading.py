"""bench.io: how fast the input pipeline reads."""

import os

from bench.errors import parse_int
from bench.sweep import Sweep, within
from bench.training.options import DATA
from bench.trial import make
from tasks.bench import measure_here
from tasks.door import door, task
from tasks.report import stamped


@task(
    help={
        "data": DATA,
        "nthreads": "decoding threads, a row each: 1,2,4; default: 1, 2, 4 ... all processors",
        "cold": "read from the disk: the files are dropped from memory before each epoch",
        "options": "of training, such as '--random-crop=1 --random-mirror=1'",
    }
)
@door
def bench_io(  # type: ignore[no-untyped-def]
    c, data, batch="32", nthreads="", image_shape="3,224,224", windows="10", cold=False, options=""
):
    """Measure how fast the input pipeline reads, with nothing to feed."""
    fields = {
        "mode": "test-io",
        "data_train": data,
        "batch_per_device": parse_int("--batch", batch),
        "image_shape": [parse_int("--image-shape", part) for part in image_shape.split(",")],
        "windows": parse_int("--windows", windows),
        "device": "cpu",
        "cold": cold,
        "options": options.split(),
    }
    counts = [parse_int("--nthreads", part) for part in nthreads.split(",")] if nthreads else None
    counts = list(dict.fromkeys(counts or within(len(os.sched_getaffinity(0)))))
    trials = tuple(make(fields | {"data_nthreads": count}) for count in counts)
    description = f"reading {data} in {' / '.join(map(str, counts))} threads"
    what = Sweep(name="io", description=description, repeats=1, trials=trials, text="")
    measure_here(what, stamped("io"))
