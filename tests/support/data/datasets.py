"""Lists, tars and shards made of small trees of images."""

import io
import tarfile
from pathlib import Path

from im2rec_tools.commands.pack import pack_lists
from im2rec_tools.declarations import UNTAR
from im2rec_tools.formats import lists
from im2rec_tools.formats.lists import Entry
from im2rec_tools.formats.recipe import Recipe
from im2rec_tools.formats.tree import classes
from im2rec_tools.packing.packer import PackJob
from tests.support.data.trees import lines


def listed(folder: Path, entries: list[Entry], name: str = "x") -> Path:
    path = folder / f"{name}.lst"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{lists.emit(entry)}\n" for entry in entries), encoding="utf-8")
    return path


def pack(lst: Path, root: Path, out: Path, max_bad: float = 1, **recipe: object) -> Path:
    work = PackJob(lists=[lst], source=root, folder=out, recipe=Recipe(**recipe), processes=2)  # type: ignore[arg-type]
    list(pack_lists(work, max_bad))
    return out / f"{lst.stem}.rec"


def entries_of(root: Path) -> list[Entry]:
    files = sorted(path for path in root.rglob("*") if path.suffix and not path.is_dir())
    return [
        Entry(index=n, labels=(float(n % 3),), path=str(path.relative_to(root)))
        for n, path in enumerate(files)
    ]


def inner(files: dict[str, bytes], form: int = tarfile.GNU_FORMAT) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form) as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return file.getvalue()


def tar_of_tars(path: Path, root: Path, form: int = tarfile.GNU_FORMAT) -> Path:
    """Return the tree in ImageNet's layout: one tar per class, in a tar."""
    found = {
        f"{name}.tar": inner({file: (root / name / file).read_bytes() for file in files}, form)
        for name, files in reversed(classes(root).items())
    }
    path.write_bytes(inner(found, form))
    return path


def untar(tar: Path, root: Path, **given: str) -> list[str]:
    return lines(UNTAR.planned({"tar": str(tar), "root": str(root), **given}))


def validation(folder: Path, count: int) -> Path:
    folder.mkdir()
    for number in range(1, count + 1):
        (folder / f"ILSVRC2012_val_{number:08}.JPEG").write_text(f"image {number}")
    return folder


def annotation(
    path: Path, size: tuple[float, float], *boxes: tuple[str, float, float, float, float]
) -> Path:
    """Write ILSVRC's XML: size (width, height), class and edges of each box."""
    objects = "".join(
        f"<object><name>{name}</name><pose>Unspecified</pose><bndbox><xmin>{xmin}</xmin>"
        f"<ymin>{ymin}</ymin><xmax>{xmax}</xmax><ymax>{ymax}</ymax></bndbox></object>"
        for name, xmin, ymin, xmax, ymax in boxes
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"<annotation>\n<folder>val</folder><filename>{path.stem}</filename><size><width>"
        f"{size[0]}</width><height>{size[1]}</height><depth>3</depth></size>{objects}</annotation>"
    )
    return path
