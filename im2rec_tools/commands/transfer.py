"""Commands `fetch` and `upload`: files from and to servers and object stores."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from im2rec_tools.cli import Command, Option, integer, path
from im2rec_tools.commands.arguments import PART
from im2rec_tools.errors import DataError, error_line, quoted
from im2rec_tools.progress import Plan
from im2rec_tools.transfer.urls import Url, parse_url, parse_urls


def _fetch_plan(
    urls: tuple[Url, ...], dir: Path, *, part: tuple[int, int], checksums: str, jobs: int
) -> Plan:
    from im2rec_tools.transfer.fetch_job import FetchJob, fetch, wanted  # noqa: PLC0415 - for --list
    from im2rec_tools.transfer.sources import Sources  # noqa: PLC0415

    job = FetchJob(urls=urls, folder=dir, part=part, checksums=checksums, jobs=jobs)

    def says() -> Iterator[str]:
        with Sources() as sources:
            for one in wanted(job, sources):
                if_any = ", if there is one" if one.optional else ""
                yield f"would fetch {one.url} to {dir / one.name}{if_any}"

    return Plan(says=says(), work=lambda: fetch(job))


def _folder_url(called: str, text: str) -> Url:
    """Parse the URL of a folder that files can be written to."""
    url = parse_url(called, text if text.endswith("/") else f"{text}/")
    if url.scheme in {"http", "https"}:
        expected = "a URL of s3://, gs:// or file://"
        fix = "Copy the files to the server with its own tools, such as rsync"
        raise DataError(error_line(called, expected=expected, got=quoted(str(url)), fix=fix))
    return url


def _upload_plan(dir: Path, url: Url, *, jobs: int) -> Plan:
    from im2rec_tools.transfer.upload_job import upload, visible_files  # noqa: PLC0415

    names = visible_files(dir)
    return Plan(
        says=(f"would upload {dir / name} to {url.sibling(name)}" for name in names),
        work=lambda: upload(dir, names, url, jobs),
    )


JOBS = Option(
    "jobs",
    "N",
    "Number of connections at the same time",
    default="8",
    parse=integer(1, 64),
)
FETCH = Command(
    name="fetch",
    help="Fetch files from web servers or object stores.",
    details=(
        "Checks what it fetches, and resumes after an interruption. URLs begin with http://, "
        "https://, s3://, gs:// or file://; {0..7} stands for these numbers, and a URL that ends "
        "in / for a folder."
    ),
    example="'https://example.org/shards/train_{0..7}.rec' data/mine_rec",
    options=(
        Option("urls", "URL...", "Files or folders to fetch", parse=parse_urls, many=True),
        Option("dir", "DIR", "Folder to write the files to", parse=path),
        replace(PART, text="Fetch the I-th of N shares of the files, one per host"),
        Option(
            "checksums",
            "LIST",
            "File or URL with a checksum of every file, as sha256sum prints them",
            default="",
            empty="files.tsv of a folder, and the manifests of shards",
        ),
        JOBS,
    ),
    plan=_fetch_plan,
)
UPLOAD = Command(
    name="upload",
    help="Upload the files of a folder to an object store.",
    details=(
        "Uploads files.tsv, a list with their checksums, last. data.fetch reads it. Skips files "
        "that an earlier upload has listed."
    ),
    example="data/mine_rec s3://bucket/mine_rec/",
    options=(
        Option("dir", "DIR", "Folder of the files; hidden ones are skipped", parse=path),
        Option("url", "URL", "Folder to write to: s3://, gs:// or file://", parse=_folder_url),
        JOBS,
    ),
    plan=_upload_plan,
)
