"""Generator of the field tables in docs/reference/sweep-file.md.

    python -m bench.settings.reference [FILE]

Rewrites the tables between the markers of the page. `python -m tasks.reference` also writes the
other generated pages.
"""

from dataclasses import MISSING
from pathlib import Path
from typing import get_args, get_origin

from bench.settings.declaration import Field
from bench.trial import FIELDS
from im2rec_tools.options import ProgramParser

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "sweep-file.md"
BEGIN, END = "<!-- settings -->\n", "<!-- end of settings -->\n"

_HEADINGS = {
    "": "Engine and mode",
    "model": "Network",
    "layout": "Devices and processes",
    "training": "Training",
    "measuring": "Measuring",
    "data": "Data",
    "mxnet": "MXNet engine",
    "torch": "PyTorch engine",
    "program": "Engine command",
    "fake": "Simulated engine",
}
_UNITS = {
    "num_layers": "layers",
    "image_shape": "channels, pixels, pixels",
    "devices": "devices",
    "devices_per_worker": "devices",
    "devices_per_host": "devices",
    "servers_per_host": "processes",
    "server_hosts": "hosts",
    "batch_per_device": "images",
    "global_batch_fixed": "images",
    "steps_per_window": "steps",
    "warmup_windows": "windows",
    "windows": "windows",
    "precision": "fraction",
    "budget_seconds": "s",
    "num_epochs": "epochs",
    "num_examples": "images",
    "stop_accuracy": "fraction",
    "data_nthreads": "threads",
    "prefetch_buffer": "batches",
    "printers": "processes",
    "rgb_mean": "pixel values",
    "rgb_std": "pixel values",
    "fake_seconds": "s",
    "fake_noise": "fraction",
    "fake_correlation": "fraction",
    "fake_spread": "fraction",
}
EXAMPLES = {
    "engine": '"fake"',
    "mode": '"real"',
    "network": '"resnet"',
    "num_layers": "50",
    "image_shape": "[3, 224, 224]",
    "num_classes": "10",
    "kvstore": '"dist_sync"',
    "device": '"gpu"',
    "devices": "4",
    "devices_per_worker": "2",
    "devices_per_host": "8",
    "servers_per_host": "2",
    "server_hosts": "1",
    "emulate": "true",
    "env": '["OMP_NUM_THREADS=2"]',
    "batch_per_device": "32",
    "global_batch_fixed": "512",
    "dtype": '"bfloat16"',
    "lr": "0.1",
    "momentum": "0.9",
    "weight_decay": "0.0001",
    "seed": "1",
    "gc_type": '"2bit"',
    "gc_threshold": "0.1",
    "steps_per_window": "20",
    "warmup_windows": "2",
    "windows": "100",
    "precision": "0.01",
    "budget_seconds": "600",
    "num_epochs": "20",
    "num_examples": "50000",
    "stop_accuracy": "0.9",
    "data_train": '"data/mine_rec/train"',
    "data_val": '"data/mine_rec/val"',
    "data_nthreads": "8",
    "prefetch_buffer": "4",
    "rgb_mean": "[0, 0, 0]",
    "rgb_std": "[58.393, 57.12, 57.375]",
    "python": '".venv-python3.12/bin/python"',
    "options": '["--optimizer=nag"]',
    "cold": "true",
    "costs": '"upstream"',
    "channels_last": "true",
    "compile": "true",
    "command": '["python3", "train.py", "--batch-size={batch}"]',
    "format": '"tf-cnn"',
    "printers": "2",
    "fake_seconds": "[2.0, 1.0]",
    "fake_faults": '["worker-1:kill@3"]',
    "fake_noise": "0.01",
    "fake_correlation": "0.3",
    "fake_spread": "0.015",
}


def table() -> str:
    """All settings by stored name: a heading and a table for each part."""
    parts: dict[str, list[Field]] = {}
    for field in FIELDS.values():
        parts.setdefault(field.part, []).append(field)
    return "".join(map(_section, parts, parts.values()))


def _section(part: str, fields: list[Field]) -> str:
    columns = "field | meaning | type | default | unit | limits | example | worker option | role"
    head = f"\n### {_HEADINGS.get(part, part)}\n\n| {columns} |\n{'|---' * 9}|\n"
    return head + "".join(map(_row, fields))


def _row(field: Field) -> str:
    known = field.setting
    example = EXAMPLES.get(field.name)
    cells = (
        f"`{field.name}`",
        known.help.replace("|", "\\|"),
        _type(field.type),
        _default(field),
        _UNITS.get(field.name, ""),
        _limits(field),
        f"`{example}`" if example else "",
        f"`{known.flag}`" if known.flag else "",
        known.role.value,
    )
    return f"| {' | '.join(cells)} |\n"


def _type(kind: type) -> str:
    """The type in TOML's words: 'integer', 'list of strings'."""
    names = {bool: "boolean", int: "integer", float: "number", str: "string"}
    if get_origin(kind) is tuple:
        return f"list of {names[get_args(kind)[0]]}s"
    return names[get_args(kind)[0] if get_args(kind) else kind]


def _default(field: Field) -> str:
    if field.default is MISSING:
        return "see above"
    value = field.default
    text = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return f"`{text.lower() if isinstance(value, bool) else text}`" if text else "none"


def _limits(field: Field) -> str:
    known = field.setting
    limits = [
        f"{sign} {limit:,}"
        for sign, limit in (("≥", known.least), ("<", known.below), ("≤", known.most))
        if limit is not None
    ]
    return ", ".join(limits) or " ".join(f"`{one}`" for one in known.choices)


def renewed(page: str) -> str:
    """The page with the tables as they are now."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + table() + "\n" + END + rest.partition(END)[2]


def parser() -> ProgramParser:
    """Return the parser of `python -m bench.settings.reference`."""
    made = ProgramParser(
        prog="python -m bench.settings.reference",
        usage="%(prog)s [FILE]",
        description="Rewrite the tables of sweep fields in a page.",
    )
    text = "Page to rewrite [docs/reference/sweep-file.md]"
    made.add_argument("file", metavar="FILE", nargs="?", default=str(PAGE), help=text)
    return made


if __name__ == "__main__":
    path = Path(parser().parse_args().file)
    path.write_text(renewed(path.read_text(encoding="utf-8")), encoding="utf-8")
