"""Logs in the formats of public tools, with figures made for tests."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

BEGIN = datetime(2019, 6, 18, 18, 15, 30, tzinfo=UTC)


def clock(seconds: float) -> str:
    """Return a time as Python's logging prints it."""
    return f"{BEGIN + timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S},000"


def namespace(**values: object) -> str:
    """Return a script's arguments as argparse prints them, with unused ones."""
    given = {"disp_batches": 20, "lr": 0.1, "lr_step_epochs": "30,60", "wd": 0.0001} | values
    return f"Namespace({', '.join(f'{name}={value!r}' for name, value in sorted(given.items()))})"


def upstream(**values: object) -> str:
    """Return the first line of upstream's train_imagenet.py."""
    given = {"benchmark": 0, "dtype": "float32", "kv_store": "device", "gpus": "0"}
    given |= {"network": "resnet", "num_layers": 50, "batch_size": 64, "num_examples": 1281167}
    return f"INFO:root:start with arguments {namespace(**given | values)}"


def speedometer(
    speeds: Sequence[float], prefix: str = "INFO:root:", metrics: Sequence[str] = ("accuracy",)
) -> str:
    """Return lines of Speedometer since 2017, with all metrics in one line."""
    told = "".join(f"\t{metric}=0.1" for metric in metrics)
    return "\n".join(
        f"{prefix}Epoch[0] Batch [{20 * n}]\tSpeed: {speed:.2f} samples/sec{told}"
        for n, speed in enumerate(speeds, 1)
    )


def old_speedometer(speeds: Sequence[float], metrics: Sequence[str], prefix: str = "") -> str:
    """Return lines of Speedometer before 2017, one per metric (tornadomeet/ResNet)."""
    return "\n".join(
        f"{prefix}Epoch[0] Batch [{50 * n}]\tSpeed: {speed:.2f} samples/sec\tTrain-{metric}=0.0{n}"
        for n, speed in enumerate(speeds, 1)
        for metric in metrics
    )


def timed_speedometer(speeds: Sequence[float], images: int, node: int = 0) -> str:
    """Return lines of Speedometer with times; 20 steps count `images`."""
    lines, at = [], 0.0
    for n, speed in enumerate(speeds):
        at += 20 * images / speed
        place = f"Epoch[0] Batch [{20 * n}-{20 * n + 20}]"
        lines.append(f"{clock(at)} Node[{node}] {place}\tSpeed: {speed:.2f} samples/sec\tacc=0.1")
    return "\n".join(lines)


def horovod_job(ranks: Iterable[int], **values: object) -> str:
    """Return rank arguments of NVIDIA's MLPerf v0.6 and v0.7 jobs, one GPU per rank."""
    given = {"kv_store": "horovod", "dtype": "float16", "batch_size": 208, "num_layers": 50}
    given |= {"network": "resnet-v1b-normconv-fl", "num_examples": 1281167} | values
    return "\n".join(
        f"{clock(0)} Node[{rank}] start with arguments "
        f"{namespace(**given, gpus=str(rank % 8), seed=100 + rank)}"
        for rank in ranks
    )


def mll(seconds: float, key: str, value: object = None, **metadata: object) -> str:
    """Return a line of MLPerf v0.6."""
    value = "null" if value is None else f'"{value}"' if isinstance(value, str) else value
    more = "".join(f', "{name}": {one}' for name, one in metadata.items())
    return (
        f':::MLL {1560881700 + seconds:.3f} {key}: {{"value": {value}, '
        f'"metadata": {{"lineno": 1, "file": "fit.py"{more}}}}}'
    )


def mllog(seconds: float, key: str, value: object = None, **metadata: object) -> str:
    """Return a line of MLPerf since v0.7."""
    value = "null" if value is None else f'"{value}"' if isinstance(value, str) else value
    more = "".join(f', "{name}": {one}' for name, one in metadata.items())
    return (
        f':::MLLOG {{"namespace": "main", "time_ms": {1593154604000 + round(1000 * seconds)}, '
        f'"key": "{key}", "value": {value}, "metadata": {{"lineno": 9, "file": "a.py"{more}}}}}'
    )


def tf_cnn(
    *,
    batches: str = "Batch size:  256 global\n             64 per device",
    devices: Sequence[str] = ("/gpu:0", "/gpu:1", "/gpu:2", "/gpu:3"),
    variables: str = "replicated",
    mode: str = "training",
    model: str = "resnet50",
) -> str:
    """Return the head of tf_cnn_benchmarks' output."""
    return "\n".join(
        (
            "TensorFlow:  1.13",
            f"Model:       {model}",
            "Dataset:     imagenet (synthetic)",
            f"Mode:        {mode}",
            "SingleSess:  False",
            batches,
            "Num batches: 100",
            f"Devices:     {list(devices)!r}",
            "Data format: NCHW",
            f"Variables:   {variables}",
            "==========",
            "Generating model",
            "Running warm up",
            "Step\tImg/sec\ttotal_loss",
        )
    )


def steps(speeds: Sequence[float], total: float = 0.0, prefix: str = "") -> str:
    """Return tf_cnn_benchmarks' running means at steps 1, 10, 20 and so on."""
    places = [1, *range(10, 10 * len(speeds), 10)]
    lines = [
        f"{prefix}{step}\timages/sec: {speed:.1f} +/- 0.1 (jitter = 0.4)\t7.{step:03}"
        for step, speed in zip(places, speeds, strict=True)
    ]
    if total:
        lines += [f"{prefix}{'-' * 64}", f"{prefix}total images/sec: {total:.2f}"]
    return "\n".join(lines)


def tf_steps(
    rate: float, seconds: float, step_seconds: float, prefix: str = "", count: int = 12
) -> str:
    """Return lines of TensorFlow's CIFAR-10 and Inception scripts, every tenth step."""
    return "\n".join(_tf_steps(rate, seconds, step_seconds, prefix, count))


def _tf_steps(
    rate: float, seconds: float, step_seconds: float, prefix: str, count: int
) -> Iterator[str]:
    for n in range(count):
        at = BEGIN + timedelta(seconds=10 * n * step_seconds)
        # Varying throughput at a constant batch, as in real logs.
        part = 1 + 0.01 * (n % 3 - 1)
        yield (
            f"{prefix}{at:%Y-%m-%d %H:%M:%S.%f}: step {10 * n}, loss = 4.{n:02} "
            f"({rate * part:.1f} examples/sec; {seconds / part:.3f} sec/batch)"
        )
