"""The page cache: its content before data are read, and how it is emptied."""

import os
from pathlib import Path

import pytest

from bench.data import page_cache
from bench.errors import SpecError
from bench.notes import texts


@pytest.fixture
def written(tmp_path: Path) -> list[Path]:
    """Make two files in memory, the second with an incomplete last page."""
    paths = [tmp_path / "a", tmp_path / "b"]
    for path, size in zip(paths, (1 << 20, (1 << 20) + 1), strict=True):
        path.write_bytes(os.urandom(size))
    return paths


def test_the_share_in_memory_is_counted_page_by_page(
    written: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    size = (2 << 20) + 1
    assert page_cache.residency(written) == page_cache.Residency(size=size, cached=size)
    monkeypatch.setattr(page_cache, "MAPPED_BYTES", 1 << 18)
    assert page_cache.residency(written) == page_cache.Residency(size=size, cached=size)
    page_cache.drop(written[:1])
    found = page_cache.residency(written)
    assert found is not None
    if found.cached == size:
        pytest.skip("needs files on a disk, not in memory")
    assert found.cached == size - (1 << 20)


def test_what_stays_in_memory_is_refused(
    written: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_cache, "drop", lambda paths: None)
    with pytest.raises(SpecError, match=r"--cold: 100 % of x stay in memory"):
        page_cache.drop_and_check("x", written)


def test_files_of_others_are_not_known(
    written: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert page_cache.residency(written) is None
    with pytest.raises(SpecError, match="another user owns"):
        page_cache.drop_and_check("x", written)


def test_the_state_of_the_cache_is_a_few_words() -> None:
    def facts(*parts: int) -> list[dict[str, int | None]]:
        return [
            page_cache.describe(page_cache.Residency(size=44_000_000, cached=part))
            for part in parts
        ]

    def said(workers: list[dict[str, int | None]]) -> str:
        return "; ".join(texts(page_cache.notes(workers)))

    assert said(facts(44_000_000)) == "warm page cache (100 % of 44 MB cached)"
    assert said(facts(0, 0)) == "cold page cache (0 % of 44 MB cached)"
    assert said(facts(0, 22_000_000)) == "partly warm page cache (0 to 50 % of 44 MB cached)"
    assert (
        said([*facts(0), page_cache.describe(None)])
        == "page cache state not available: another user owns the data"
    )
