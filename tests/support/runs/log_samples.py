"""Logs in the shapes that public tools print them in, with figures of our own."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

BEGIN = datetime(2019, 6, 18, 18, 15, 30, tzinfo=UTC)


def clock(seconds: float) -> str:
    """A time as Python's logging prints it."""
    return f"{BEGIN + timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S},000"


def namespace(**values: object) -> str:
    """The arguments of a script as argparse prints them, among others that nothing is made of."""
    given = {"disp_batches": 20, "lr": 0.1, "lr_step_epochs": "30,60", "wd": 0.0001} | values
    return f"Namespace({', '.join(f'{name}={value!r}' for name, value in sorted(given.items()))})"


def upstream(**values: object) -> str:
    """The first line of upstream's train_imagenet.py."""
    given = {"benchmark": 0, "dtype": "float32", "kv_store": "device", "gpus": "0"}
    given |= {"network": "resnet", "num_layers": 50, "batch_size": 64, "num_examples": 1281167}
    return f"INFO:root:start with arguments {namespace(**given | values)}"


def speedometer(
    speeds: Sequence[float], prefix: str = "INFO:root:", metrics: Sequence[str] = ("accuracy",)
) -> str:
    """Lines of Speedometer since 2017, which has all metrics in one."""
    told = "".join(f"\t{metric}=0.1" for metric in metrics)
    return "\n".join(
        f"{prefix}Epoch[0] Batch [{20 * n}]\tSpeed: {speed:.2f} samples/sec{told}"
        for n, speed in enumerate(speeds, 1)
    )


def old_speedometer(speeds: Sequence[float], metrics: Sequence[str], prefix: str = "") -> str:
    """Lines of Speedometer before 2017, a line per metric (as in tornadomeet/ResNet's logs)."""
    return "\n".join(
        f"{prefix}Epoch[0] Batch [{50 * n}]\tSpeed: {speed:.2f} samples/sec\tTrain-{metric}=0.0{n}"
        for n, speed in enumerate(speeds, 1)
        for metric in metrics
    )


def timed_speedometer(speeds: Sequence[float], images: int, node: int = 0) -> str:
    """Lines of Speedometer with times: `images` are what 20 steps count."""
    lines, at = [], 0.0
    for n, speed in enumerate(speeds):
        at += 20 * images / speed
        place = f"Epoch[0] Batch [{20 * n}-{20 * n + 20}]"
        lines.append(f"{clock(at)} Node[{node}] {place}\tSpeed: {speed:.2f} samples/sec\tacc=0.1")
    return "\n".join(lines)


def horovod_job(ranks: Iterable[int], **values: object) -> str:
    """Arguments of the ranks of NVIDIA's MLPerf v0.6 and v0.7 jobs: each has a GPU of its own."""
    given = {"kv_store": "horovod", "dtype": "float16", "batch_size": 208, "num_layers": 50}
    given |= {"network": "resnet-v1b-normconv-fl", "num_examples": 1281167} | values
    return "\n".join(
        f"{clock(0)} Node[{rank}] start with arguments "
        f"{namespace(**given, gpus=str(rank % 8), seed=100 + rank)}"
        for rank in ranks
    )


def mll(seconds: float, key: str, value: object = None, **metadata: object) -> str:
    """A line of MLPerf v0.6."""
    value = "null" if value is None else f'"{value}"' if isinstance(value, str) else value
    more = "".join(f', "{name}": {one}' for name, one in metadata.items())
    return (
        f':::MLL {1560881700 + seconds:.3f} {key}: {{"value": {value}, '
        f'"metadata": {{"lineno": 1, "file": "fit.py"{more}}}}}'
    )


def mllog(seconds: float, key: str, value: object = None, **metadata: object) -> str:
    """A line of MLPerf since v0.7."""
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
    """The head of tf_cnn_benchmarks' output."""
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
    """tf_cnn_benchmarks' means since the first step, at steps 1, 10, 20 and so on."""
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
    """Lines of TensorFlow's CIFAR-10 and Inception scripts, of every tenth step."""
    return "\n".join(_tf_steps(rate, seconds, step_seconds, prefix, count))


def _tf_steps(
    rate: float, seconds: float, step_seconds: float, prefix: str, count: int
) -> Iterator[str]:
    for n in range(count):
        at = BEGIN + timedelta(seconds=10 * n * step_seconds)
        # A speed that wavers, as real ones do, at a batch that stays.
        part = 1 + 0.01 * (n % 3 - 1)
        yield (
            f"{prefix}{at:%Y-%m-%d %H:%M:%S.%f}: step {10 * n}, loss = 4.{n:02} "
            f"({rate * part:.1f} examples/sec; {seconds / part:.3f} sec/batch)"
        )
