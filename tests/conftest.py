"""Fixtures of all tests: process marks, photographs, a cluster, Chromium."""

import shutil
import uuid
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from im2rec_tools.commands.sample import sample
from launch.practice.cluster import down, missing, up
from launch.practice.state import Cluster
from tests.support.data.trees import made, wanted
from tests.support.hosts.namespaces import MISSING, connected
from tests.support.programs.jobs import MARK

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# The duration of an example depends on the machine.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


# Files with these marks run first, so that no test process begins a long one at the end.
LONGEST = ("cluster", "mxnet", "program", "browser")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first, each kind spread evenly.

    Tests of clusters mostly wait; beside others, they leave no core idle.
    """
    kinds: dict[Path, int] = {}
    for item in items:
        marks = (n for n, mark in enumerate(LONGEST) if item.get_closest_marker(mark))
        kinds[item.path] = min(next(marks, len(LONGEST)), kinds.get(item.path, len(LONGEST)))
    counts, turns = Counter(kinds.values()), Counter[int]()
    order = {}
    for path, kind in kinds.items():
        turns[kind] += 1
        order[path] = (kind == len(LONGEST), turns[kind] / counts[kind], kind)
    items.sort(key=lambda item: order[item.path])


@pytest.hookimpl(tryfirst=True)
def pytest_warning_recorded(warning_message: warnings.WarningMessage) -> None:
    """Name the class of a warning in its text.

    The first process rebuilds the warnings of the others; it fails if it cannot import a class.
    """
    category = warning_message.category
    if category.__module__ != "builtins":
        name = f"{category.__module__}.{category.__qualname__}"
        warning_message.message = UserWarning(f"{name}: {warning_message.message}")
        warning_message.category = UserWarning


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one line per reason of skipped tests: what is missing, and the fix."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count} skipped: {reason}")


@pytest.fixture(autouse=True)
def marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set a variable that identifies every process of a test."""
    monkeypatch.setenv(MARK, uuid.uuid4().hex)


@pytest.fixture(scope="session")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return shards of the sample: per class 24 photographs to train, 6 to validate."""
    root = tmp_path_factory.mktemp("photographs") / "s"
    list(sample(root, images_per_class=30))
    assert all(shard.images for shard in made(root, wanted(val=6, short_edge=256)))
    return root.with_name("s_rec")


@pytest.fixture(scope="session")
def able() -> None:
    """Skip the test if this machine or user cannot have a local test cluster."""
    if why := missing():
        pytest.skip(why)


@pytest.fixture(scope="session")
def practice(able: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Start a local test cluster of four hosts; tests undo what they change in it."""
    cluster = up(tmp_path_factory.mktemp("practice") / "cluster")
    yield cluster
    down(cluster.folder)


@pytest.fixture
def namespaces(tmp_path: Path) -> Iterator[Path]:
    """Return the folder of two hosts that are network namespaces."""
    if MISSING:
        pytest.skip(MISSING)
    with connected(tmp_path):
        yield tmp_path


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    """Start Chromium for one module; no other event loop can run in that time."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    # the headless shell takes a quarter less CPU time
    chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if chromium is None:
        pytest.skip("needs Chromium: apt-get install chromium-headless-shell")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a report of two networks for the browser."""
    from tests.support.pages.browser import reported  # noqa: PLC0415

    return reported(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def shown(browser: "Browser", report: Path) -> Iterator["Page"]:
    """Return its page in Chromium, shared by tests that keep its controls' state."""
    from tests.support.pages.browser import visit  # noqa: PLC0415

    with visit(browser, report / "index.html") as tab:
        yield tab


@pytest.fixture
def opened(browser: "Browser", report: Path) -> Iterator["Page"]:
    """Return its page in Chromium, for one test."""
    from tests.support.pages.browser import visit  # noqa: PLC0415

    with visit(browser, report / "index.html") as tab:
        yield tab
