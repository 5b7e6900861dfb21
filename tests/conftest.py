"""What every test has: processes that it starts can be found. What some share: photographs."""

import uuid
from pathlib import Path

import pytest

from im2rec_tools.codec import Recipe
from im2rec_tools.prepare import Shard, Wanted, prepare
from im2rec_tools.sample import sample
from tests.jobs import MARK


@pytest.fixture(autouse=True)
def marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every process that a test starts inherits a variable by which it can be found."""
    monkeypatch.setenv(MARK, uuid.uuid4().hex)


@pytest.fixture(scope="session")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards of the sample: 24 photographs of each class to train on, 6 to validate."""
    root = tmp_path_factory.mktemp("photographs") / "s"
    list(sample(root, images_per_class=30))
    wanted = Wanted(val_per_class=6, train_shards=2, recipe=Recipe(short_edge=256))
    assert all(update.images for update in prepare(root, wanted) if isinstance(update, Shard))
    return root.with_name("s_rec")
