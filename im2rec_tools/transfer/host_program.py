"""Program of a host: fetches the files of a request.

    to it    {"folder", "files": [{"url", "name", "size", "digests", "optional"}], "others"}
    from it  {"step", "done", "total"} ... and then lines of text, the result or the errors

The request is JSON until the end of standard input; `others` are names of files of other shares;
`done` and `total` are bytes, 0 if the step has none. The exit code is 0, 2 for an error, or 128 + n
for signal n.
"""

import json
import sys
import time
from pathlib import Path

from im2rec_tools.cli import run_program
from im2rec_tools.progress import Progress
from im2rec_tools.transfer.fetch_job import FetchJob, fetch_files
from im2rec_tools.transfer.file_list import ListedFile, WantedFile
from im2rec_tools.transfer.sources import Sources
from im2rec_tools.transfer.urls import Url

_MB = 10**6
_EVERY_SECONDS = 1.0


def main() -> None:
    """Fetch the files and print progress and result."""
    asked = json.load(sys.stdin)
    files = [_wanted(**one) for one in asked["files"]]
    job = FetchJob(urls=(), folder=Path(asked["folder"]), others=tuple(asked["others"]))
    shown = 0.0
    with Sources() as sources:
        for update in fetch_files(files, sources, job):
            if isinstance(update, str):
                print(update)
            elif time.monotonic() - shown >= _EVERY_SECONDS:
                shown = time.monotonic()
                print(json.dumps(_values(update)), flush=True)


def _wanted(
    url: str, name: str, size: int | None, digests: dict[str, str], *, optional: bool
) -> WantedFile:
    listed = ListedFile(name=name, size=size, digests=digests)
    return WantedFile(url=Url(text=url), listed=listed, optional=optional)


def _values(progress: Progress) -> dict[str, str | int]:
    unit = _MB if progress.unit == "MB" else 0
    return {"step": progress.step, "done": progress.done * unit, "total": progress.total * unit}


if __name__ == "__main__":
    sys.exit(run_program(main))
