"""Commands `fetch` and `upload`: files from and to servers and object stores."""

from collections.abc import Iterator
from pathlib import Path

from im2rec_tools.progress import Plan
from im2rec_tools.transfer.fetch_job import FetchJob, fetch, wanted
from im2rec_tools.transfer.sources import Sources
from im2rec_tools.transfer.upload_job import upload, visible_files
from im2rec_tools.transfer.urls import Url


def plan_fetch(
    urls: tuple[Url, ...], dir: Path, *, part: tuple[int, int], checksums: str, jobs: int
) -> Plan:
    """Plan to fetch a share of the files into a folder."""
    job = FetchJob(urls=urls, folder=dir, part=part, checksums=checksums, jobs=jobs)

    def says() -> Iterator[str]:
        with Sources() as sources:
            for one in wanted(job, sources):
                if_any = ", if there is one" if one.optional else ""
                yield f"would fetch {one.url} to {dir / one.name}{if_any}"

    return Plan(says=says(), work=lambda: fetch(job))


def plan_upload(dir: Path, url: Url, *, jobs: int) -> Plan:
    """Plan to upload the visible files of a folder."""
    names = visible_files(dir)
    return Plan(
        says=(f"would upload {dir / name} to {url.sibling(name)}" for name in names),
        work=lambda: upload(dir, names, url, jobs),
    )
