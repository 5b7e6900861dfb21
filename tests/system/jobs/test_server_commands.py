"""A job's servers run no command of other programs; its end names the cause."""

import hashlib
import hmac
import os
import pickle
import signal
import threading
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bench.engines.server_commands import SECRET_VARIABLE, RefusedError, optimizer_of, signed
from bench.notes import NoteKind
from bench.training.optimizer import OPTIMIZERS, Epochs, Schedule
from launch.hosts import ROOT
from launch.job.monitor import Deadlines
from launch.remote import limits
from results.record import Record
from tests.support.hosts.intruders import (
    OPTIMIZER,
    PROFILER,
    Payload,
    command,
    foreign_worker,
    listening,
    pickled,
    send,
)
from tests.support.programs.jobs import (
    MARK,
    disturbed,
    left_over,
    pid_of,
    running,
    tiny,
    trial,
    until,
)
from tests.support.repeats import slow

pytestmark = [pytest.mark.mxnet, pytest.mark.program]
KEY = b"secret"


@pytest.fixture(autouse=True)
def as_workers_have_it() -> None:
    """Load MXNet with this NumPy, whichever test runs first."""
    import bench.training.mxnet_shim  # noqa: F401, PLC0415


def environment(pid: int) -> dict[str, str]:
    entries = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def sealed(thing: object, key: bytes, protocol: int = 4) -> bytes:
    """Return what a worker of the job would send for any object."""
    text = b64encode(pickle.dumps(thing, protocol))
    return hmac.new(key, text, hashlib.sha256).hexdigest().encode() + text


def attacked(folder: Path, attack: Callable[[], object], **fields: Any) -> Record:
    """Return the record of a real job whose worker is suspended during the attack."""

    def act() -> None:
        worker = pid_of("worker")
        os.kill(worker, signal.SIGSTOP)
        attack()
        os.kill(worker, signal.SIGCONT)

    job = tiny(kvstore="dist_sync", devices=1, windows=40, steps_per_window=10, **fields)
    with running(folder, job, deadlines=Deadlines()) as updates:
        return disturbed(updates, act)[0]


@dataclass(frozen=True, kw_only=True)
class Attack:
    """Record of a job whose server receives commands that it must reject."""

    record: Record
    secret: str
    commands: tuple[bytes, ...]
    folder: Path
    files: set[Path]


@pytest.fixture(scope="module")
def attack(tmp_path_factory: pytest.TempPathFactory) -> Attack:
    """Send a server code to run, then names of files to write."""
    folder = tmp_path_factory.mktemp("attacked")
    secrets: list[str] = []
    commands: list[bytes] = []

    def act() -> None:
        server = pid_of("server")
        secrets.append(environment(server)[SECRET_VARIABLE])
        commands.extend(Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left_over())
        body = pickled(folder / "made")
        bodies = [b"", body, b"0" * 64 + body, sealed(Payload(folder / "made"), b"")]
        # The last is of a host of the job.
        bodies += [sealed(Payload(folder / "made"), secrets[0].encode())]
        send(listening(server), *(command(OPTIMIZER, one) for one in bodies))
        begin, end = (command(PROFILER, one) for one in (b"11", b"13"))
        name = command(PROFILER, b"filename:asked.json,profile_all:10")
        send(listening(server), begin, end, name, begin, end)

    before = set(ROOT.iterdir())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MARK, "attacked")
        record = attacked(folder / "run", act)
    return Attack(
        record=record,
        secret=secrets[0],
        commands=tuple(commands),
        folder=folder,
        files={path for path in set(ROOT.iterdir()) - before if path.suffix == ".json"},
    )


def test_a_server_runs_nothing_that_other_programs_send(attack: Attack) -> None:
    assert attack.record.status == "ok", attack.record.message
    assert not (attack.folder / "made").exists()
    notes = {note.kind: note.figures for note in attack.record.notes}
    assert notes[NoteKind.REFUSED_COMMANDS] == {"count": 5}
    assert len(attack.secret) == 64
    assert not [one for one in attack.commands if attack.secret.encode() in one]
    files = [path for path in (attack.folder / "run").rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if attack.secret.encode() in path.read_bytes()]


def test_a_server_writes_no_file_that_other_programs_ask_for(attack: Attack) -> None:
    assert attack.record.status == "ok", attack.record.message
    for path in attack.files:
        path.unlink()
    assert not attack.files


@pytest.mark.parametrize("role", ["server", *slow("scheduler")])
def test_malformed_bytes_end_the_point_with_their_likely_cause(role: str, tmp_path: Path) -> None:
    record = attacked(tmp_path, lambda: send(listening(pid_of(role)), b"\xff\xff\xff\xff"))
    assert record.status == "failed"
    cause = f"{role} 0 on "
    assert record.message.startswith(cause)
    assert " was killed by SIGABRT (a malformed message from another program?)" in record.message


@pytest.mark.parametrize("stays", [False, *slow(True)])
def test_a_foreign_worker_ends_the_point_in_one_line(
    stays: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PLACE_SECONDS", 1.0)
    over = threading.Event()

    def join() -> None:
        worker = held("worker")
        assert until(lambda: can(lambda: listening(pid_of("scheduler"))), 60)
        with foreign_worker(listening(pid_of("scheduler")), stays=stays):
            os.kill(worker, signal.SIGCONT)
            over.wait(60)

    thread = threading.Thread(target=join)
    thread.start()
    with running(
        tmp_path, tiny(kvstore="dist_sync", devices=1, windows=3), deadlines=Deadlines()
    ) as updates:
        (record,) = [one for one in updates if isinstance(one, Record)]
    over.set()
    thread.join()
    assert record.status == "failed"
    assert record.elapsed_seconds < Deadlines().rendezvous
    assert record.message.startswith("worker 0 on ")
    assert "expected a rank from the scheduler at 127.0.0.1:" in record.message
    assert "another program joined the job" in record.message
    assert "\n" not in record.message


def can(do: Callable[[], object]) -> bool:
    try:
        do()
    except (AssertionError, IndexError, OSError):
        return False
    return True


def held(role: str) -> int:
    """Suspend the process of this role as soon as it exists; return its pid."""
    assert until(lambda: can(lambda: pid_of(role)), 60)
    os.kill(pid_of(role), signal.SIGSTOP)
    return pid_of(role)


def test_servers_and_schedulers_do_not_inherit_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "hf_token", "MY_PASSWORD"):
        monkeypatch.setenv(name, "planted")
    found: dict[str, bool] = {}

    def look() -> None:
        for role in ("scheduler", "server", "worker"):
            found[role] = "planted" in environment(pid_of(role)).values()

    with running(tmp_path, trial("worker-1:hang@3")) as updates:
        disturbed(updates, look)
    assert found == {"scheduler": False, "server": False, "worker": True}


def optimizer(name: str, **settings: Any) -> Any:
    from bench.training.mxnet_shim import mx  # noqa: PLC0415

    return mx.optimizer.create(name, param_idx2name={0: "a_weight", 1: "a_bias"}, **settings)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_signed_optimizer_arrives_as_it_was(name: str) -> None:
    rate = Schedule(base_lr=0.3, epochs=Epochs(steps=(2, 3)), updates=7, last=5)
    sent = optimizer(name, learning_rate=0.3, wd=0.1 + 0.2, lr_scheduler=rate)
    found = optimizer_of(signed(sent, KEY).encode(), KEY)
    assert type(found) is type(sent)
    assert vars(found) == vars(sent)


def test_an_optimizer_that_servers_would_refuse_is_not_sent() -> None:
    sent = optimizer("sgd", lr_scheduler=None)
    sent.lr_scheduler = Path()
    with pytest.raises(RefusedError, match=r"Path is not an optimizer"):
        signed(sent, KEY)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("os", "system"),
        ("builtins", "eval"),
        ("builtins", "object"),
        ("copyreg", "_reconstructor"),
        ("mxnet.optimizer.optimizer", "os.system"),
        ("mxnet.optimizer.optimizer", "Optimizer.create_optimizer"),
        ("mxnet.optimizer.optimizer", "pickle"),
        ("mxnet.ndarray.ndarray", "NDArray"),
        ("numpy.core.multiarray", "scalar"),
        ("bench.engines.server_commands", "_classes"),
    ],
)
def test_a_signed_command_holds_nothing_but_optimizers(module: str, name: str) -> None:
    for text in (
        f"c{module}\n{name}\n.",
        f"\x80\x04\x8c{chr(len(module))}{module}\x8c{chr(len(name))}{name}\x93.",
    ):
        body = b64encode(text.encode("latin-1"))
        seal = hmac.new(KEY, body, hashlib.sha256).hexdigest().encode()
        with pytest.raises(RefusedError, match="is not an optimizer"):
            optimizer_of(seal + body, KEY)


@pytest.mark.parametrize("thing", [None, {"lr": 0.1}, Epochs(), Epochs, Schedule])
def test_a_signed_command_that_is_no_optimizer_is_refused(thing: object) -> None:
    with pytest.raises(RefusedError, match="expected an optimizer"):
        optimizer_of(sealed(thing, KEY), KEY)


def test_a_changed_or_unsigned_command_is_refused_unread() -> None:
    whole = signed(optimizer("sgd"), KEY).encode()
    for body in (
        b"",
        whole[64:],
        whole[:-1],
        whole[1:],
        whole + b"=",
        b"0" + whole[1:],
        b"\xff" * 99,
    ):
        with pytest.raises(RefusedError, match="missing or wrong signature"):
            optimizer_of(body, KEY)
    with pytest.raises(RefusedError, match="missing or wrong signature"):
        optimizer_of(whole, b"another job's")
    for text in (b"", b"!!!!", b"gARLAS4", b64encode(b"\x80\x04" + b"(" * 100_000)):
        seal = hmac.new(KEY, text, hashlib.sha256).hexdigest().encode()
        with pytest.raises(RefusedError, match="not a pickle"):
            optimizer_of(seal + text, KEY)
