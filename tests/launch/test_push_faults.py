"""A push that is cut off, rejected or fails prints one line; the next one resumes."""

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from launch.hosts import ROOT
from launch.push import push, side_by_side
from launch.remote import limits
from launch.remote.errors import LaunchError
from launch.transport.line import start_local
from tests.support.hosts.pushes import MB, host, on_a_disk_of_its_own, pushed, tree_of, written
from tests.support.programs.jobs import agents

pytestmark = pytest.mark.program


def test_a_push_that_is_killed_in_mid_file_goes_on_at_that_byte(tmp_path: Path) -> None:
    data = os.urandom(64 * MB)
    written(tmp_path / "src" / "a.rec", data)
    pieces = tree_of(tmp_path / "src")
    pushing = push(pieces, host(tmp_path), start_local, "x")
    while next(pushing).done < 24 * MB:
        pass
    os.kill(agents()[0], signal.SIGKILL)
    with pytest.raises(LaunchError, match=r"node01: .*Run the same command again to resume"):
        list(pushing)
    (part,) = (tmp_path / "x").glob(".*.part")
    kept = part.stat().st_size
    assert 8 * MB < kept < len(data)
    assert not (tmp_path / "x" / "a.rec").exists()
    assert pushed(pieces, tmp_path).total == len(data) - kept
    assert (tmp_path / "x" / "a.rec").read_bytes() == data
    assert not part.exists()


def test_a_master_that_leaves_in_mid_file_loses_nothing(tmp_path: Path) -> None:
    written(tmp_path / "src" / "a", os.urandom(16 * MB))
    pieces = tree_of(tmp_path / "src")
    pushing = push(pieces, host(tmp_path), start_local, "x")
    while next(pushing).done < 12 * MB:
        pass
    pushing.close()
    assert agents() == []
    last = pushed(pieces, tmp_path)
    assert last.total < 16 * MB
    assert (tmp_path / "x" / "a").read_bytes() == (tmp_path / "src" / "a").read_bytes()


def test_what_was_begun_of_another_file_is_not_gone_on_with(tmp_path: Path) -> None:
    written(tmp_path / "src" / "a", b"first" * MB)
    pieces = tree_of(tmp_path / "src")
    pushing = push(pieces, host(tmp_path), start_local, "x")
    while next(pushing).done < 3 * MB:
        pass
    pushing.close()
    written(tmp_path / "src" / "a", b"other" * MB)
    assert pushed(tree_of(tmp_path / "src"), tmp_path).total == 5 * MB
    assert (tmp_path / "x" / "a").read_bytes() == b"other" * MB


def test_a_file_that_changes_while_it_is_copied_is_not_kept(tmp_path: Path) -> None:
    source = written(tmp_path / "src" / "a", b"1" * MB)
    pieces = tree_of(tmp_path / "src")
    written(source, b"2" * (2 * MB))
    with pytest.raises(LaunchError, match=r"a: changed during the copy\. Push again"):
        pushed(pieces, tmp_path)
    assert not (tmp_path / "x" / "a").exists()


def test_a_pipe_that_takes_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    source = written(tmp_path / "src" / "a", b"1" * MB)
    pieces = tree_of(tmp_path / "src")
    source.unlink()
    os.mkfifo(source)
    with pytest.raises(LaunchError, match=r"a: changed during the copy\. Push again"):
        pushed(pieces, tmp_path)


def test_a_host_that_is_held_is_given_up_and_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "STREAM_SILENCE_SECONDS", 2.5)
    monkeypatch.setattr(limits, "CLOSE_SECONDS", 0.5)
    written(tmp_path / "src" / "a", bytes(64 * MB))
    pushing = push(tree_of(tmp_path / "src"), host(tmp_path), start_local, "x")
    while next(pushing).done < 8 * MB:
        pass
    os.kill(agents()[0], signal.SIGSTOP)
    began = time.monotonic()
    with pytest.raises(LaunchError, match=r"node01: no message for 2 s\. Run the same"):
        list(pushing)
    assert time.monotonic() - began < 8
    assert agents() == []


def test_a_receiver_whose_master_falls_silent_ends_itself() -> None:
    code = (
        "from launch.remote import limits, receiver; "
        "limits.STREAM_SILENCE_SECONDS = 0.5; receiver.main()"
    )
    began = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    ) as program:
        said = [text for text in program.stdout or () if b"failed" in text]
        why = b"no message from the controller for 0 s. Run the same command again to resume"
        assert said == [b'{"say": "failed", "why": "%s"}\n' % why]
        assert time.monotonic() - began < 5


def test_a_file_that_outgrows_what_may_be_written_is_one_line(tmp_path: Path) -> None:
    written(tmp_path / "src" / "a", bytes(4 * MB))
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * MB, hard))
    try:
        with pytest.raises(LaunchError) as caught:
            pushed(tree_of(tmp_path / "src"), tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert str(caught.value) == (
        f"node01: {tmp_path}/x: cannot be written or read (File too large)"
    )
    assert pushed(tree_of(tmp_path / "src"), tmp_path).total <= 2 * MB + 8192


PUSH = """
import sys, launch.remote.receiver
from launch.remote import limits
from launch.remote.errors import LaunchError
from launch.transport.line import start_local
from pathlib import Path
from launch.push import push
from tests.support.hosts.pushes import host, pushed, tree_of
try:
    print(pushed(tree_of(Path(sys.argv[1])), Path(sys.argv[2])).total)
except LaunchError as error:
    print(error)
"""


def test_a_disk_without_room_is_said_before_anything_is_copied(tmp_path: Path) -> None:
    written(tmp_path / "src" / "a", bytes(100_000))
    disk, script = tmp_path / "disk", written(tmp_path / "push.py", PUSH.encode())
    push = f"PYTHONPATH=. {sys.executable} {script} {tmp_path}/src {disk}"
    said = on_a_disk_of_its_own(
        f"{push}; ls {disk}/x; mount -o remount,size=1m {disk}; {push}", disk
    )
    assert said == [
        f"node01: {disk}/x: expected 0.1 MB of free disk space, got 0.0 MB. Free disk space, or "
        f"choose another folder with --into",
        "100000",
    ]


def test_a_disk_that_fills_up_in_mid_file_is_one_line_and_the_push_goes_on(tmp_path: Path) -> None:
    written(tmp_path / "src" / "a", bytes(3 * MB))
    disk, script = tmp_path / "disk", written(tmp_path / "push.py", PUSH.encode())
    push = f"PYTHONPATH=. {sys.executable} {script} {tmp_path}/src {disk}"
    # Files without contents take no room of this file system until they have some.
    filling = PUSH.replace(
        "    print(pushed(tree_of(Path(sys.argv[1])), Path(sys.argv[2])).total)",
        "    for moved in push(tree_of(Path(sys.argv[1])), host(Path(sys.argv[2])), "
        "start_local, 'x'):\n"
        "        if moved.step == 'copying' and not moved.done:\n"
        "            Path(sys.argv[2], 'other').write_bytes(bytes(2 << 20))",
    )
    full = written(tmp_path / "full.py", filling.encode())
    said = on_a_disk_of_its_own(
        f"mount -o remount,size=4m {disk}; {push.replace(str(script), str(full))};"
        f"rm {disk}/other; {push}",
        disk,
    )
    assert said[0] == (
        f"node01: {disk}/x: No space left on device. Free disk space there, then push again"
    )
    assert 0 < int(said[1]) < 3 * MB


def test_two_pushes_do_not_work_in_one_folder(tmp_path: Path) -> None:
    written(tmp_path / "src" / "a", b"1" * MB)
    first = push(tree_of(tmp_path / "src"), host(tmp_path), start_local, "x")
    next(first)
    with pytest.raises(
        LaunchError, match=r"node01: .*/x: another push is writing to this folder\. Wait"
    ):
        pushed(tree_of(tmp_path / "src"), tmp_path)
    list(first)
    assert (tmp_path / "x" / "a").read_bytes() == b"1" * MB


def test_one_host_that_fails_does_not_keep_the_others(tmp_path: Path) -> None:
    written(tmp_path / "src" / "a", b"1" * MB)
    written(tmp_path / "1" / "x", b"a file where the folder would be")
    pieces = tree_of(tmp_path / "src")
    pushes = [
        push(pieces, host(tmp_path / str(n), f"node{n:02}"), start_local, "x") for n in range(12)
    ]
    with pytest.raises(LaunchError) as caught:
        list(side_by_side(pushes))
    assert str(caught.value) == f"node01: {tmp_path}/1/x: cannot be written or read (File exists)"
    arrived = [n for n in range(12) if (tmp_path / str(n) / "x" / "a").is_file()]
    assert arrived == [n for n in range(12) if n != 1]
    assert agents() == []


def test_an_interrupt_ends_every_push(tmp_path: Path) -> None:
    written(tmp_path / "src" / "a", bytes(64 * MB))
    pieces = tree_of(tmp_path / "src")
    pushes = [
        push(pieces, host(tmp_path / str(n), f"node{n:02}"), start_local, "x") for n in range(3)
    ]
    updates = side_by_side(pushes)
    while next(updates).done < 8 * MB:
        pass
    began = time.monotonic()
    updates.close()  # type: ignore[attr-defined] # what an exception in its reader does
    assert time.monotonic() - began < 8
    assert agents() == []
