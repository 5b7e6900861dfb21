"""results.import: other people's logs into a run of their own."""

from pathlib import Path

from bench.errors import SpecError, parse_int
from im2rec_tools.terminal import echo
from tasks.door import door, task
from tasks.report import run_folder


@task(
    name="import",
    iterable=["also"],
    help={
        "file": "a log, gzipped or not; several of one job by a pattern in quotes: 'worker-*.log'",
        "also": "another log of the same job; more than once for several",
        "run": "name below results/runs, or a path, where the point is added",
        "network": "resnet-50 and the like, or any other name",
        "devices": "of the whole job",
        "hosts": "of the whole job; default: 1",
        "devices_per_host": "of a full host; default: the devices shared among the hosts",
        "workers": "processes that each print their own speed; default: as many as are found",
        "batch_per_device": "images a step on one device",
        "kvstore": "how gradients went: dist_sync, horovod, nccl or any other name",
        "dtype": "float32, float16 or bfloat16",
        "data": "real or synthetic images",
        "device": "gpu, cpu or other",
        "speeds_of": "workers, one-worker, one-device or job; default: by the format",
        "warmup": "speeds at the front of each worker that do not count; default: by the format",
        "format": "auto, mxnet, tf-inception, horovod, tf-cnn, horovod-synthetic or mlperf",
        "description": "a line about the run, for its report",
    },
)
@door
def results_import(  # type: ignore[no-untyped-def]
    c,
    file,
    also=None,
    run="",
    network="",
    devices="",
    hosts="",
    devices_per_host="",
    workers="",
    batch_per_device="",
    kvstore="",
    dtype="",
    data="",
    device="",
    speeds_of="",
    warmup="",
    format="auto",
    description="",
):
    """Add a point that another tool measured to a run, from its logs (docs/import.md)."""
    from bench.notes import texts
    from plots.format import significant
    from results.imports.point import Asked
    from results.imports.record import imported
    from results.imports.windows import discarded
    from results.imports.writer import keep
    from results.rates import rate_of

    if not run:
        raise SpecError("--run: expected a name for the run that the point is added to")
    asked = Asked(
        network=network.strip(),
        devices=_count("--devices", devices),
        hosts=_count("--hosts", hosts),
        devices_per_host=_count("--devices-per-host", devices_per_host),
        workers=_count("--workers", workers),
        batch_per_device=_count("--batch-per-device", batch_per_device),
        kvstore=kvstore.strip(),
        dtype=dtype,
        mode=data,
        device=device,
        speeds_of=speeds_of,
        warmup=parse_int("--warmup", warmup, least=0) if warmup else None,
    )
    new = imported(
        [*files(file), *(one for name in also or () for one in files(name))], asked, format
    )
    record = keep(run_folder(run), new, description)
    repeat = record.identity.repeat + 1
    echo(f"{record.source}: {record.identity.name}, repeat {repeat} of this point in {run}")
    total = f"; the log's own total: {significant(new.total, 4)} images/s" if new.total else ""
    echo(f"{significant(rate_of(record), 4)} images/s{total}")
    if count := record.trial.warmup_windows:
        first = "the first window" if count == 1 else f"the first {count} windows"
        echo(f"  {first} of each worker {'does' if count == 1 else 'do'} not count (warm-up)")
    for text in (*texts(discarded(record)), *texts(record.notes)):
        echo(f"  {text}")
    echo(f"'fab report.build --run {run}' reports the run")


def files(name: str) -> list[Path]:
    """The files of a name or pattern, in the order of their names; SpecError where none is."""
    path = Path(name).expanduser()
    if path.is_dir():
        raise SpecError(f"{name}: expected a log, got a folder; '{name}/*.log' names its files")
    if path.is_file():
        return [path]
    root, pattern = (Path(path.anchor), str(path.relative_to(path.anchor)))
    found = sorted(one for one in root.glob(pattern) if one.is_file()) if pattern != "." else []
    if not found:
        raise SpecError(f"{name}: no such file")
    return found


def _count(option: str, text: str) -> int:
    return parse_int(option, text) if text else 0
