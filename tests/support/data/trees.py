"""Small labelled trees of images for tests, and shards made of them."""

from pathlib import Path
from typing import Any

import cv2
import numpy as np

from im2rec_tools.commands.prepare import PrepareOptions, prepare
from im2rec_tools.commands.trees import SplitOptions
from im2rec_tools.formats.recipe import Recipe
from im2rec_tools.packing.verify import ShardContents
from im2rec_tools.progress import Plan


def wanted(
    val: int = 2, train_shards: int = 2, short_edge: int = 64, max_bad: float = 0
) -> PrepareOptions:
    return PrepareOptions(
        split=SplitOptions(images=val),
        train_shards=train_shards,
        recipe=Recipe(short_edge=short_edge),
        max_bad=max_bad,
    )


def jpeg(height: int, width: int, seed: int = 0) -> bytes:
    noise = np.random.default_rng(seed).integers(0, 255, (8, 8, 3), dtype=np.uint8)
    return cv2.imencode(".jpg", cv2.resize(noise, (width, height)))[1].tobytes()


def pixels(image: bytes, flag: int = cv2.IMREAD_COLOR) -> Any:
    found = cv2.imdecode(np.frombuffer(image, np.uint8), flag)
    assert found is not None
    return found


def encoded(ending: str, picture: Any) -> bytes:
    return cv2.imencode(ending, picture)[1].tobytes()


def tree(root: Path, counts: dict[str, int]) -> Path:
    for name, count in counts.items():
        (root / name).mkdir(parents=True)
        for number in range(count):
            (root / name / f"{number}.jpg").write_bytes(jpeg(70 + number, 90, number))
    return root


def made(root: Path, asked: PrepareOptions | None = None) -> list[ShardContents]:
    """Return the shards verified at the end, training shards first."""
    updates = prepare(root, asked or wanted())
    found = [update for update in updates if isinstance(update, ShardContents)]
    return sorted(found, key=lambda contents: str(contents.path))


def lines(plan: Plan) -> list[str]:
    """Return the messages of a plan while it runs."""
    return [update for update in plan.work() if isinstance(update, str)]


def snapshot(root: Path) -> dict[str, int]:
    return {str(path.relative_to(root)): path.lstat().st_ino for path in root.rglob("*")}
