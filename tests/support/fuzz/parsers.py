"""Parsers of foreign bytes for the fuzzer, with samples made by this project."""

import gzip
import io
import itertools
import json
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock
from urllib.parse import quote

from paramiko import RSAKey

from bench import sweep
from bench.data import partition, shards
from bench.engines import event_decoder
from bench.engines.command.program import PRINTED
from bench.errors import SpecError
from bench.logs.windows import PrintedJob, WindowReader
from im2rec_tools.commands.shards import info
from im2rec_tools.errors import DamagedTarError, DataError
from im2rec_tools.formats import annotations, recordio, tfrecord, webdataset
from im2rec_tools.formats import images as codec
from im2rec_tools.formats import lists as listing
from im2rec_tools.formats.tars import Member, members
from im2rec_tools.packing import manifest
from im2rec_tools.packing.verify import verify
from im2rec_tools.transfer.file_list import parse_listing
from im2rec_tools.transfer.urls import parse_urls
from launch import ec2, hostfile
from launch.remote.errors import LaunchError
from launch.remote.files import entries
from launch.transport import host_keys, protocol, ssh_config
from results import worker_log
from results.cost import prices
from results.errors import StoreError
from results.imports.point import LogDescription
from results.imports.record import import_logs
from results.imports.writer import add_to_run
from results.integrity import digest
from results.integrity.archive import unpack
from results.integrity.catalog import list_runs, run_entry
from results.prediction.calibration import load_predictions
from results.reader import read_summaries, record_headers
from results.run import known_identities, load, read_environment
from results.run_folder import CATALOG, PREDICTIONS, REPORT
from results.store import read_records
from results.worker_log import parse_worker_log, rank_of
from tests.support.data.trees import encoded, jpeg, pixels
from tests.support.paths import LOGS, TESTS
from tests.support.runs.records import record
from tests.support.runs.stores import stored

_ANNOTATION = b"""<annotation><size><width>90</width><height>70</height></size><object><name>cat
</name><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>30</xmax><ymax>4e1</ymax></bndbox></object>
</annotation>"""
Read = Callable[[bytes, Path], object]


@dataclass(frozen=True, kw_only=True)
class Parser:
    """A parser with its samples, its call and its number of calls per turn."""

    name: str
    samples: tuple[bytes, ...]
    read: Read
    at_once: int = 20


def _check(error: Exception) -> None:
    """Raise AssertionError if a line is too long."""
    assert len(str(error)) < 3000, str(error)[:80]


def parsers() -> list[Parser]:
    """Return all parsers."""
    return [*_data(), *_logs(), *_settings(), *_runs(), *_hosts()]


def _in_file(name: str, read: Callable[[Path], object]) -> Read:
    """Read a file of this name in an emptied folder."""

    def from_file(data: bytes, folder: Path) -> object:
        path = folder / name
        path.write_bytes(data)
        try:
            return read(path)
        finally:
            path.unlink(missing_ok=True)

    return from_file


def _image_record(number: int, *labels: float) -> bytes:
    image = recordio.ImageRecord(index=number, labels=labels or (1.0,), image=jpeg(8, 8, number))
    return recordio.frame(recordio.pack(image))


def _recs() -> tuple[bytes, ...]:
    marked = recordio.frame(b"a" * 24 + recordio.MAGIC_BYTES * 3 + b"tail")
    return b"".join(map(_image_record, range(4))), _image_record(0, *map(float, range(50))), marked


def _read_rec(path: Path) -> None:
    """Read a shard with all readers, which accept and reject the same framing."""
    for each in (lambda: verify(path), lambda: info(path), lambda: shards.places((path,))):
        try:
            each()
        except (DataError, SpecError):
            continue


def _with_beside(name: str) -> Read:
    def read(data: bytes, folder: Path) -> None:
        with tempfile.TemporaryDirectory(dir=folder) as own:
            (Path(own) / "x.rec").write_bytes(_recs()[0])
            (Path(own) / name).write_bytes(data)
            _read_rec(Path(own) / "x.rec")

    return read


def _tar(inner: bytes = b"") -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in ("cat.tar", "dog.tar") if inner else ("a/1.jpg", "\u732b" * 60, "b.jpg"):
            one = tarfile.TarInfo(name)
            one.size = len(inner) if inner else 9
            one.pax_headers = {"comment": "x" * 40}
            tar.addfile(one, io.BytesIO(inner or b"some jpeg"))
    return made.getvalue()


def _read_tar(path: Path) -> None:
    for one in members(path):
        if isinstance(one, Member) and one.is_class:
            try:
                list(members(path, one))
            except DamagedTarError:
                continue


def _example() -> bytes:
    example = tfrecord.Example(
        image=jpeg(8, 8), label=3, synset="cat", filename="1.jpg", height=8, width=8, channels=3
    )
    return tfrecord.frame(tfrecord.emit(example)) * 2


def _sample() -> bytes:
    found = (recordio.ImageRecord(index=n, labels=(1.0,) * n, image=jpeg(8, 8)) for n in (1, 7))
    return b"".join(webdataset.emit(one, "here") for one in found) + webdataset.END


def _read_samples(path: Path) -> None:
    list(webdataset.images(path, 0))


def _read_tfrecord(path: Path) -> None:
    for data in tfrecord.records(path):
        tfrecord.parse(data, "here")
        tfrecord.parse_boxes(data, "here", 1)


def _manifest() -> bytes:
    made = manifest.Manifest(
        schema=manifest.SCHEMA,
        list_sha256="0" * 64,
        recipe={"short_edge": 8},
        versions={"simplejpeg": "1"},
        images=4,
        bad=0,
        bytes=len(_recs()[0]),
        crc32c="0" * 8,
        records_crc32c="0" * 32,
    )
    return manifest.text(made).encode()


_FILES = (b"# name\nc.tar\t3\t0a1b2c3d\nn1/b.tar\t99\t00000000\t7\n", b"%064d  a.bin\n" % 7)


def _read_files(data: bytes) -> None:
    for one in parse_listing(data.decode(errors="replace"), "files.tsv"):
        assert not {"..", ".", ""} & set(one.name.split("/"))
        parse_urls("URL", f"file:///{quote(one.name)}")


def _data() -> list[Parser]:
    share = partition.HostPartition(index=0, images=({"a.rec": 3}, {"b.rec": 4}))
    picture = pixels(jpeg(24, 32))
    images = tuple(encoded(ending, picture) for ending in (".jpg", ".png", ".bmp"))
    lists = b"0\t1.000000\tcat/1.jpg\n1\t0.5\t2\tdog/2.jpg\n"
    return [
        Parser(name="rec", samples=_recs(), read=_in_file("x.rec", _read_rec), at_once=5),
        Parser(name="idx", samples=(b"0\t0\n1\t700\n2\t1400\n",), read=_with_beside("x.idx")),
        Parser(name="manifest", samples=(_manifest(),), read=_with_beside("x.json")),
        Parser(name="lst", samples=(lists,), read=_in_file("x.lst", listing.check)),
        Parser(
            name="labels",
            samples=(b"0\tcat\n1\tdog\n",),
            read=_in_file("labels.txt", listing.read_labels),
        ),
        Parser(name="tfrecord", samples=(_example(),), read=_in_file("x-0", _read_tfrecord)),
        Parser(
            name="annotation",
            samples=(_ANNOTATION,),
            read=lambda data, _: annotations.parse(data),
        ),
        Parser(name="webdataset", samples=(_sample(),), read=_in_file("x.tar", _read_samples)),
        Parser(name="tar", samples=(_tar(), _tar(_tar())), read=_in_file("x.tar", _read_tar)),
        Parser(name="files", samples=_FILES, read=lambda data, _: _read_files(data)),
        Parser(name="image", samples=images, read=lambda data, _: codec.check(data)),
        Parser(
            name="share",
            samples=(partition.text(share).encode(),),
            read=_in_file("share.json", lambda path: partition.read(path.parent)),
        ),
    ]  # fmt: skip


def _import(path: Path) -> None:
    asked = LogDescription(network="resnet-50", devices=4, batch_per_device=32)
    found = import_logs([path], asked)
    with tempfile.TemporaryDirectory(dir=path.parent) as own:
        add_to_run(Path(own) / "run", found)
        load(Path(own) / "run")


def _output(data: bytes, _: Path) -> None:
    """Read the output of a program in each format, as engine `command` does."""
    lines = data.decode("utf-8", "replace").splitlines()
    for form, printers in itertools.product(PRINTED.values(), (1, 2)):
        job = PrintedJob(printers=printers, devices=4, batch=32, global_batch=128, steps=20)
        reader = WindowReader(form, job)
        try:
            found = [one for at, text in enumerate(lines) for one in reader.take(text, float(at))]
        except SpecError as error:
            _check(error)
        else:
            assert all(min(one) > 0 for one in found)
        for text in reader.contradictions():
            assert "\n" not in text
        reader.notes()


def _logs() -> list[Parser]:
    samples = tuple(path.read_bytes()[:20_000] for path in sorted(LOGS.glob("*.log")))
    packed = tuple(map(gzip.compress, samples[:3]))
    return [
        Parser(name="log", samples=samples, read=_in_file("x.log", _import), at_once=5),
        Parser(name="output", samples=samples, read=_output, at_once=5),
        Parser(name="log-gz", samples=packed, read=_in_file("x.log.gz", _import), at_once=5),
    ]


def _settings() -> list[Parser]:
    sweeps = tuple(path.read_bytes() for path in sorted(sweep.SHIPPED.glob("*.toml")))
    priced = (
        b'currency = "USD"\n[[price]]\nhost = "p3-*"\nper_hour = 3.5\n[[price]]\nper_hour = 1\n'
    )
    hosts = b"node01 slots=4 max_slots=8\nnode02:4\nuser@10.0.0.1 slots=2\n[::1]:22\nn-[1-3,07]\n"
    ssh = b"Host node* !node9\n  Port 2222\n  Include none/*\nMatch host a,b user c\n  User d\n"
    key = RSAKey.generate(1024)
    known = f"a,b {key.get_name()} {key.get_base64()}\n|1|{'A' * 27}=|{'A' * 27}= ssh-rsa AAAA\n"

    def host_list(path: Path) -> None:
        for format in ("", *hostfile.FORMATS):
            for parse in (hostfile.parse, hostfile.inline):
                try:
                    parse(path.read_text("utf-8", "replace"), "here", format)
                    hostfile.nodelist(path.read_text("utf-8", "replace"))
                except LaunchError as error:
                    _check(error)

    return [
        Parser(
            name="sweep",
            samples=sweeps,
            read=_in_file("x.toml", lambda path: sweep.load_sweep(str(path), engine="fake")),
            at_once=5,
        ),
        Parser(name="prices", samples=(priced,), read=_in_file("p.toml", prices.load_prices)),
        Parser(name="hostfile", samples=(hosts,), read=_in_file("hosts", host_list)),
        Parser(
            name="ssh-config",
            samples=(ssh,),
            read=_in_file("config", lambda path: ssh_config.read(str(path)).lookup("node01")),
        ),
        Parser(
            name="known-hosts",
            samples=(known.encode(),),
            read=_in_file("known", lambda path: list(host_keys.KeyFile(path).of("a"))),
        ),
    ]


@dataclass(frozen=True, kw_only=True)
class _Sample:
    """Return the files of a run by name."""

    files: dict[str, bytes]

    def put(self, folder: Path, name: str, data: bytes) -> None:
        for one, content in (self.files | {name: data}).items():
            (folder / one).parent.mkdir(parents=True, exist_ok=True)
            (folder / one).write_bytes(content)


_PREDICTION = {
    **{"schema": 1, "made": "2026-01-01T00:00:00Z", "series": "0", "network": "alexnet"},
    **{"kvstore": "local", "batch_per_device": 8, "known_devices": 1, "load": 0.2, "link": None},
    **{"servers": None, "devices": 2, "hosts": 1, "images_per_second": 9.0, "low_80": 8.0},
    **{"high_80": 10.0, "low_95": 7.0, "high_95": 11.0, "constant": 9.5, "efficiency": 0.9},
    **{"efficiency_low": 0.8, "efficiency_high": 1.0, "kind": "light", "ceiling": None},
}


def _run() -> _Sample:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "mine"
        found = [record([[1, 2.0, 2.1]]), record([[1, 1.2, 1.0], [1, 1.3, 1.1]], devices=2)]
        stored(folder, *found)
        logs = folder / "logs" / found[1].identity.key / "0"
        logs.mkdir(parents=True)
        windows = [
            {"event": "window", "rank": 0, "seconds": 1.0, "end": 1.0 * n, "images": 8, "loss": 1.0}
            for n in range(3)
        ]
        said = [{"event": "ready", "rank": 0}, *windows, {"event": "done", "rank": 0}]
        text = "".join(json.dumps(one) + "\n" for one in said)
        (logs / "worker-0.events.jsonl").write_text(text)
        (logs / "worker-1.events.jsonl.gz").write_bytes(gzip.compress(text.encode()))
        (logs / "hosts.json").write_text('{"worker-0": "node01", "worker-1": "node02"}')
        (logs / "recorded.json").write_text(json.dumps({"started": found[1].started}))
        (folder / "asked.json").write_text("[]")
        facts = {"node01": {"cores": [1], "gpus": [{"name": "x"}], "memory_mib": 5}}
        environment = {"date": "2026-01-01", "hosts": facts, "command": ["fab", "x"], "commit": "c"}
        (folder / "environment.json").write_text(json.dumps(environment))
        (folder / "report").mkdir()
        (folder / "report" / "results.csv").write_text("network,mode\nalexnet,real\n")
        each = (prices.Price(key="", pattern="*", per_hour=1.0),)
        digest.write(folder, "c", prices=prices.Prices(name="p", currency="USD", each=each))
        paths = (path for path in folder.rglob("*") if path.is_file() and path.name[0] != ".")
        lines = [_PREDICTION | {"devices": n} for n in (2, 4)]
        text = "".join(json.dumps(one) + "\n" for one in lines)
        (folder / REPORT / PREDICTIONS).write_text(text)
        return _Sample(
            files={path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
        )


def _read_run(folder: Path) -> None:
    for each in (
        lambda: load(folder),
        lambda: read_records(folder),
        lambda: known_identities(folder, read_records(folder)),
        lambda: read_environment(folder),
        lambda: digest.load(folder),
        lambda: digest.run_digests(folder),
        lambda: list(record_headers(folder)),
        lambda: list(read_summaries(folder)),
        lambda: list_runs(folder.parent, folder.parent / CATALOG),
        lambda: run_entry(folder),
        lambda: load_predictions(folder, load(folder).rows).fans,
    ):
        try:
            each()
        except StoreError as error:
            _check(error)
    from results.integrity.rederive import rederive_run  # noqa: PLC0415 - loads what draws

    rederive_run(folder)
    for logs in folder.glob("logs/*/*"):
        worker_log.process_hosts(logs)
        worker_log.recorded_start(logs)


def _of_run(sample: _Sample, name: str) -> Read:
    def read_run(data: bytes, folder: Path) -> None:
        with tempfile.TemporaryDirectory(dir=folder) as own:
            run = Path(own) / "mine"
            sample.put(run, name, data)
            _read_run(run)

    return read_run


def _checked_run(sample: _Sample) -> Read:
    """Return digests.json with a correct check, which anybody can compute."""

    def read_run(data: bytes, folder: Path) -> None:
        try:
            said = json.loads(data)
            text = json.dumps(said | {"check": digest.checksum(said)}).encode()
        except (ValueError, TypeError, AttributeError, RecursionError):
            text = data
        _of_run(sample, "report/digests.json")(text, folder)

    return read_run


def _zip(sample: _Sample) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in sample.files.items():
            packed.writestr(f"mine/{name}", data)
    return made.getvalue()


def _unpack(path: Path) -> None:
    into = path.parent / "runs"
    try:
        unpack(path, into)
    finally:
        shutil.rmtree(into, ignore_errors=True)
    assert {one.name for one in path.parent.iterdir()} <= {path.name, CATALOG}


def _index(data: bytes, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as own:
        runs = Path(own).resolve()
        (runs / "mine").mkdir()
        (runs / "mine" / "asked.json").write_text("[]")
        (runs / CATALOG).write_bytes(data.replace(b"@RUNS@", str(runs).encode()))
        assert [one.name for one in list_runs(runs, runs / CATALOG)] == ["mine"]


def _runs() -> list[Parser]:
    sample = _run()
    names = [name for name in sample.files if not name.endswith("digests.json")]
    each = {"stamp": [[], [2, 1], [], [], []], "entry": {"name": "mine", "folder": "@RUNS@/mine"}}
    index = json.dumps({"schema": 1, "runs": {"@RUNS@/mine": each}}).encode()
    return [
        *(
            Parser(
                name=f"run-{Path(name).name}",
                samples=(sample.files[name],),
                read=_of_run(sample, name),
                at_once=3,
            )
            for name in names
        ),
        Parser(
            name="run-digests.json",
            samples=(sample.files["report/digests.json"],),
            read=_checked_run(sample),
            at_once=3,
        ),
        Parser(name="index", samples=(index,), read=_index, at_once=5),
        Parser(name="zip", samples=(_zip(sample),), read=_in_file("x.zip", _unpack), at_once=5),
    ]


def _message(data: bytes, _: Path) -> None:
    """Parse a line as an agent's message and as a process's report."""
    messages = protocol.AgentMessages(0.0)
    messages.asked({"do": "start", "id": "worker-0"})
    for line in data.split(b"\n"):
        try:
            protocol.clean(protocol.parse_answer(line, 1))
            messages.read(line, 1.0)
        except LaunchError as error:  # ends that host
            _check(error)
    text = data.decode("utf-8", "replace").split("\n")
    for one_line in text:
        try:
            event_decoder.decoded(one_line)
        except ValueError as error:
            _check(error)
    one = parse_worker_log(text)
    if one.rank is not None:
        rank_of(one, "node01", "worker-0")


def _hosts() -> list[Parser]:
    said = (
        {"say": "output", "id": "worker-0", "lines": ["a", "b"]},
        {"say": "event", "id": "worker-0", "lines": ['{"event": "ready", "rank": 0}']},
        {"say": "beat", "use": {"worker-0": [1, 2]}, "machine": {"cores": 4}},
        {"event": "window", "rank": 0, "seconds": 1.0, "end": 2.0, "images": 3},
    )
    messages = "".join(json.dumps(one) + "\n" for one in said).encode()
    state = b'["a/b.rec", 5, 6, 7, 8, true]\n["c"]\n["d", 1, 2, 3, 4, false]\n'
    instances = (TESTS / "support/hosts/ec2-instances.json").read_bytes()
    lease = b'{"user": "u", "master": "m", "pid": 5, "command": ["a"]}'
    return [
        Parser(name="message", samples=(messages,), read=_message),
        Parser(name="pushed", samples=(state,), read=lambda data, _: entries(data)),
        Parser(name="lease", samples=(lease,), read=_lease),
        Parser(name="ec2", samples=(instances,), read=lambda data, _: ec2.parse(data, "here")),
    ]


def _lease(data: bytes, _: Path) -> None:
    from launch.remote import lease  # noqa: PLC0415 - its socket is not opened here

    asking = mock.Mock()
    asking.recv.side_effect = [data[at : at + 4096] for at in range(0, len(data), 4096)] + [b""]
    lease.described({**lease.read_answer(asking), "pid": 3, "user_there": "u"})
