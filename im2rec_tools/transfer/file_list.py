"""Lists of files: files.tsv, checksum files, and the files that URLs stand for."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from im2rec_tools.errors import DataError, error_line, quoted
from im2rec_tools.files import tsv_line, write_text
from im2rec_tools.formats.lists import even_runs
from im2rec_tools.formats.tree import numbers_last
from im2rec_tools.transfer.sources import MissingFileError, Sources, read_text
from im2rec_tools.transfer.urls import Url, is_url, parse_url, safe_name

# The list of a folder's files, which stands in the folder.
LISTING = "files.tsv"
_HEADER = "# name\tbytes\tcrc32c"
# By the number of hex digits.
_ALGORITHMS = {8: "crc32c", 32: "md5", 40: "sha1", 64: "sha256", 128: "sha512"}
# As sha256sum and the like print: the digest, a space, a space or '*', and the name.
_SUM = re.compile(r"([0-9A-Fa-f]{8,128}) [ *](.+)")
_WITH_SHARD = (".rec", ".idx", ".json")
_FORM = "Write it with 'sha256sum FILES'"
_ONCE = "Name each file once"
_NUMBER = re.compile(r"[0-9]{1,18}")


class TooFewError(DataError):
    """There are fewer files than shares."""


@dataclass(frozen=True, kw_only=True)
class ListedFile:
    """A file of a list: name, size in bytes if known, and digests by algorithm."""

    name: str
    size: int | None = None
    digests: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class WantedFile:
    """A file to fetch.

    optional: whether the source may lack it, as a shard its index.
    """

    url: Url
    listed: ListedFile
    optional: bool = False

    @property
    def name(self) -> str:
        """Its path below the folder."""
        return self.listed.name


def parse_listing(text: str, where: str) -> list[ListedFile]:
    """Parse files.tsv, or lines of a digest and a name as sha256sum prints them.

    where: file or URL of the list, for errors. Raises DataError for any other line.
    """
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        at = f"{where}:{number}"
        sums, cells = _SUM.fullmatch(line), line.split("\t")
        if sums and len(sums[1]) in _ALGORITHMS:
            name = safe_name(sums[2].removeprefix("./"), at)
            found.append(
                ListedFile(name=name, digests={_ALGORITHMS[len(sums[1])]: sums[1].lower()})
            )
        elif len(cells) >= 3 and _NUMBER.fullmatch(cells[1]) and _is_crc(cells[2]):
            digests = {"crc32c": cells[2].lower()}
            found.append(
                ListedFile(name=safe_name(cells[0], at), size=int(cells[1]), digests=digests)
            )
        else:
            expected = "NAME, BYTES and CRC32C with tabs, or 'DIGEST  NAME'"
            raise DataError(error_line(at, expected=expected, got=quoted(line), fix=_FORM))
    _check_distinct([one.name for one in found], where)
    return found


def _is_crc(text: str) -> bool:
    return re.fullmatch("[0-9A-Fa-f]{8}", text) is not None


def _check_distinct(names: Iterable[str], where: str) -> None:
    seen: set[str] = set()
    folders: set[str] = set()
    for name in names:
        if name in seen:
            raise DataError(
                error_line(where, expected="distinct names", got=f"{name} twice", fix=_ONCE)
            )
        seen.add(name)
        folders |= {str(above) for above in PurePosixPath(name).parents}
    if both := sorted(seen & folders):
        problem = f"{both[0]} is both a file and a folder"
        raise DataError(error_line(where, problem=problem, fix="Fetch them to two folders"))


def write_listing(folder: Path, files: Sequence[ListedFile]) -> Path:
    """Write files.tsv of a folder; `parse_listing` is the inverse."""
    lines = [
        tsv_line(one.name, one.size, one.digests["crc32c"])
        for one in sorted(files, key=lambda one: one.name)
    ]
    path = folder / LISTING
    write_text(path, "".join([f"{_HEADER}\n", *lines]))
    return path


def read_checksums(place: str, sources: Sources) -> dict[str, ListedFile]:
    """Return the files of a list of checksums, a path or a URL, by name.

    Raises DataError.
    """
    if is_url(place):
        url = parse_url("--checksums", place)
        found = parse_listing(read_text(sources, url), str(url))
    else:
        try:
            found = parse_listing(Path(place).read_text(encoding="utf-8"), place)
        except OSError as error:
            problem = f"cannot be read ({error.strerror})"
            raise DataError(error_line(place, problem=problem)) from error
        except UnicodeDecodeError:
            raise DataError(
                error_line(place, expected="a text in UTF-8", got="others", fix=_FORM)
            ) from None
    return {one.name: one for one in found}


def wanted_files(
    urls: Sequence[Url], checksums: Mapping[str, ListedFile] | None, sources: Sources
) -> list[WantedFile]:
    """Return the files that URLs stand for.

    A folder stands for the files of its files.tsv, or for all below it in an object store; a
    shard also for its index and manifest. With `checksums`, every file needs one. Raises DataError.
    """
    found: list[WantedFile] = []
    for url in urls:
        found += _of_folder(url, sources) if url.is_folder else _of_file(url)
    names = {one.name for one in found if not one.optional}
    # A shard's index can be both named and implied.
    found = [one for one in found if not (one.optional and one.name in names)]
    _check_distinct((one.name for one in found), "URL")
    if checksums is None:
        return found
    for one in found:
        if one.name not in checksums and not one.optional:
            expected = f"a checksum of {one.name}"
            fix = "Add it, or omit --checksums"
            raise DataError(error_line("--checksums", expected=expected, got="none", fix=fix))
    return [
        WantedFile(url=one.url, listed=checksums.get(one.name, one.listed), optional=one.optional)
        for one in found
    ]


def _of_folder(url: Url, sources: Sources) -> list[WantedFile]:
    try:
        text = read_text(sources, url.sibling(LISTING))
    except MissingFileError:
        names = sources.of(url).names(url)
        listed = [ListedFile(name=safe_name(name, str(url))) for name in names]
    else:
        listed = parse_listing(text, str(url.sibling(LISTING)))
    if not listed:
        raise DataError(error_line(url, expected="files in it", got="none", fix="Check the URL"))
    return [WantedFile(url=url.sibling(one.name), listed=one) for one in listed]


def _of_file(url: Url) -> list[WantedFile]:
    name = url.name
    found = [WantedFile(url=url, listed=ListedFile(name=name))]
    if name.endswith(".rec") and "?" not in url.text:  # a signature covers one file
        for end in (".idx", ".json"):
            beside = name.removesuffix(".rec") + end
            listed = ListedFile(name=beside)
            found.append(WantedFile(url=url.sibling(beside), listed=listed, optional=True))
    return found


def share(files: Sequence[WantedFile], index: int, count: int) -> list[WantedFile]:
    """Return share `index` (from 1) of `count` of the files, by name.

    A shard stays with its index and manifest. Raises TooFewError if there are fewer than `count`.
    """
    units: dict[str, list[WantedFile]] = {}
    for one in sorted(files, key=lambda one: numbers_last(Path(one.name))):
        stem, dot, end = one.name.rpartition(".")
        units.setdefault(stem if dot + end in _WITH_SHARD else one.name, []).append(one)
    if len(units) < count:
        expected, fix = f"at least {count} files or shards", "Give --part a smaller number"
        raise TooFewError(error_line("--part", expected=expected, got=f"{len(units)}", fix=fix))
    keys = list(units)
    return [one for at in even_runs(len(keys), count)[index - 1] for one in units[keys[at]]]
