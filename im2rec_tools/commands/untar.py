"""Command `untar`: unpacks a tar of class tars to class folders."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath

from im2rec_tools.commands.arguments import allowed_bad
from im2rec_tools.errors import DamagedTarError, DataError, error_line
from im2rec_tools.files import (
    check_space,
    create,
    format_size,
    lock,
    nearest_existing,
    remove,
    tsv_cells,
    tsv_line,
    write_text,
)
from im2rec_tools.formats.compression import is_gzip, uncompressed_name, with_plain_tar
from im2rec_tools.formats.tars import (
    DUPLICATE,
    Member,
    UnreadableMember,
    distinct,
    members,
    read_at,
)
from im2rec_tools.progress import Plan, Progress, Update

_UPDATE_EVERY = 200
# Of the class tars of a folder.
_ENDINGS = (".tar", ".tar.gz", ".tgz")


@dataclass(kw_only=True)
class _Totals:
    """Counts of an unpacking so far; rejected members with the reason."""

    tar: Path
    total: int
    files: int = 0
    bytes: int = 0
    classes: int = 0
    bad: dict[str, str] = field(default_factory=dict)
    damaged: int = 0

    @property
    def progress(self) -> Progress:
        """Number of files so far; the fraction is of the bytes."""
        far = min(1.0, self.bytes / max(1, self.total))
        return Progress(step="unpacking", done=self.files, bad=len(self.bad), fraction=far)


def bad_of(root: Path) -> Path:
    """Return the path of the list of rejected members."""
    return root.with_name(f"{root.name}.bad.tsv")


def untar(
    tar: Path, root: Path, *, scratch: Path, max_bad: float, also_in: tuple[Path, ...] = ()
) -> Plan:
    """Plan to unpack each class tar to ROOT/CLASS, and other files to ROOT.

    scratch  folder of a class until it is complete
    max_bad  fraction of rejected files, rounded up, above which the plan fails
    also_in  folders where a class may exist already

    Existing classes are skipped. Links, devices and names outside the folder are rejected and
    listed. A gzip-compressed tar is decompressed to scratch first. Raises DataError for a damaged
    tar or too little disk space.
    """
    if is_gzip(tar):

        def unpack(copy: Path) -> Iterator[Update]:
            plan = untar(copy, root, scratch=scratch, max_bad=max_bad, also_in=also_in)
            yield from plan.work()

        return Plan(
            says=[f"would decompress {tar} in {scratch}, and unpack it to {root}"],
            work=lambda: with_plain_tar(tar, scratch, unpack),
        )
    outer = list(members(tar))
    found, twice = distinct([one for one in outer if isinstance(one, Member)])
    places = (root, *also_in)
    left = [one for one in found if not any(_target(at, one).exists() for at in places)]
    needed = sum(one.size for one in left)

    def work() -> Iterator[Update]:
        fix = "Unpack to another disk, or pack directly from the tar (pack --from-tar)"
        check_space(root, needed, fix)
        if left and _device(scratch) != _device(root):
            check_space(scratch, max(one.size for one in left), "Set another --scratch")
        count = _Totals(
            tar=tar, total=tar.stat().st_size, bytes=sum(one.size for one in found) - needed
        )
        count.bad = _refused_before(root) | {
            one.name: one.why for one in outer if isinstance(one, UnreadableMember)
        }
        if len(left) < len(found):
            yield f"{len(found) - len(left)} of {len(found)} exist already"
        yield count.progress
        with lock(root):
            for member in left:
                yield from _unpack(member, root, scratch, count)
            count.bad |= twice
            yield from _total_lines(root, count, max_bad)

    return Plan(
        says=[
            f"would unpack {len(left)} of {len(found)} classes or files of {tar} to {root}: "
            f"{format_size(needed)}"
        ],
        work=work,
    )


def untar_folder(folder: Path, root: Path, *, scratch: Path, max_bad: float) -> Plan:
    """Plan to unpack each class tar of a folder to ROOT/CLASS; else as `untar`."""
    found = sorted(path for ending in _ENDINGS for path in folder.glob(f"*{ending}"))
    tars = {path: path.stat().st_size for path in found if path.is_file()}
    if not tars:
        fix = "Write them with 'fab data.partition'"
        raise DataError(error_line(folder, expected="class tars", got="none", fix=fix))
    left = [tar for tar in tars if not (root / uncompressed_name(tar).name).exists()]
    needed = sum(tars[tar] for tar in left)

    def work() -> Iterator[Update]:
        check_space(root, needed, "Unpack to another disk")
        total = sum(tars.values())
        count = _Totals(tar=folder, total=total, bytes=total - needed, bad=_refused_before(root))
        if len(left) < len(tars):
            yield f"{len(tars) - len(left)} of {len(tars)} exist already"
        yield count.progress
        with lock(root):
            for tar in left:
                name = f"{uncompressed_name(tar).name}.tar"
                try:
                    yield from with_plain_tar(tar, scratch, partial(unpack, count, name))
                except DamagedTarError as error:
                    count.damaged += 1
                    count.bad[name] = str(error)
            yield from _total_lines(root, count, max_bad)

    def unpack(count: _Totals, name: str, plain: Path) -> Iterator[Update]:
        count.tar = plain
        member = Member(name=name, offset=0, size=plain.stat().st_size)
        yield from _unpack(member, root, scratch, count)

    says = f"would unpack {len(left)} of {len(tars)} class tars of {folder} to {root}"
    return Plan(says=[f"{says}: {format_size(needed)}"], work=work)


def _device(folder: Path) -> int:
    return nearest_existing(folder).stat().st_dev


def _target(root: Path, member: Member) -> Path:
    return root / (member.class_name if member.is_class else member.name)


def _unpack(member: Member, root: Path, scratch: Path, count: _Totals) -> Iterator[Progress]:
    target = _target(root, member)
    work = scratch / f".{root.name}.part"
    try:
        remove(work)
        work.parent.mkdir(parents=True, exist_ok=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        before = len(count.bad)
        with count.tar.open("rb") as file:
            if member.is_class:
                work.mkdir()
                yield from _unpack_class(file.fileno(), member, work, count)
                count.classes += 1
            else:
                with create(work) as made:
                    made.write(read_at(file.fileno(), member.offset, member.size))
                count.files += 1
                count.bytes += member.size
        if len(count.bad) > before:
            _write_bad(root, count)
        _publish(work, target)
        count.bad.pop(member.name, None)  # an earlier run may have found it damaged
    except DamagedTarError as error:  # the other classes may be complete
        count.damaged += 1
        count.bad[member.name] = str(error)
    except OSError as error:
        raise DataError(
            error_line(target, problem=f"cannot be written ({error.strerror})")
        ) from error
    finally:
        remove(work)
    if count.files % _UPDATE_EVERY == 0 or member.is_class:
        yield count.progress


def _unpack_class(
    descriptor: int, outer: Member, folder: Path, count: _Totals
) -> Iterator[Progress]:
    for member in members(count.tar, outer):
        if isinstance(member, UnreadableMember):
            count.bad[f"{outer.name}/{member.name}"] = member.why
            continue
        file = folder / member.name
        above = [folder / part for part in PurePosixPath(member.name).parents]
        if file.exists() or any(part.is_file() for part in above):
            count.bad[f"{outer.name}/{member.name}"] = DUPLICATE
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(read_at(descriptor, member.offset, member.size))
        count.files += 1
        count.bytes += member.size
        if count.files % _UPDATE_EVERY == 0:
            yield count.progress


def _publish(work: Path, target: Path) -> None:
    """Rename a complete class; copy it first if scratch is on another disk."""
    if work.stat().st_dev == target.parent.stat().st_dev:
        work.rename(target)
        return
    near = target.with_name(f".{target.name}.part")
    remove(near)
    shutil.move(work, near)
    near.rename(target)


def _refused_before(root: Path) -> dict[str, str]:
    """Return the members that earlier runs rejected."""
    if not bad_of(root).is_file():
        return {}
    rows = map(tsv_cells, bad_of(root).read_text(encoding="utf-8").split("\n"))
    return {cells[0]: cells[1] for cells in rows if len(cells) == 2}


def _write_bad(root: Path, count: _Totals) -> None:
    write_text(bad_of(root), "".join(tsv_line(name, why) for name, why in count.bad.items()))


def _total_lines(root: Path, count: _Totals, max_bad: float) -> Iterator[str]:
    text = f"{count.files} files, {count.classes} classes unpacked to {root}"
    if not count.bad:
        bad_of(root).unlink(missing_ok=True)
        yield f"{text}, none rejected"
        return
    _write_bad(root, count)
    there = sum(len(files) for _, _, files in os.walk(root))
    text = f"{text}, {len(count.bad)} rejected so far, see {bad_of(root)}"
    if count.damaged:
        problem = f"{text}; {count.damaged} class tars are damaged"
        raise DataError(error_line("", problem=problem, fix="Get the tar again"))
    allowed = allowed_bad(there + len(count.bad), max_bad)
    if len(count.bad) > allowed:
        problem = f"{text}; --max-bad {max_bad * 100:g} % allows {allowed}"
        raise DataError(error_line("", problem=problem, fix="Run again with a higher --max-bad"))
    yield text


def plan_untar(tar: Path, root: Path, *, scratch: Path | None, max_bad: float) -> Plan:
    """Plan to unpack a tar of class tars, or a folder of them."""
    unpack = untar_folder if tar.is_dir() else untar
    return unpack(tar, root, scratch=scratch or root, max_bad=max_bad)
