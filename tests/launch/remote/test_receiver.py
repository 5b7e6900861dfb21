"""A push writes only below its folder, and into none that others can change."""

import grp
import json
import os
import pwd
import random
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import launch.remote.files
from launch.push import contents, in_tree, push
from launch.remote import commands
from launch.remote.errors import LaunchError, ProtocolError
from launch.remote.files import entries
from launch.remote.receiver import SHAPES, MasterLine, Receiver, reason
from launch.transport.line import FLAGS, LOADER, Starter, sources, start_local
from tests.support.hosts.liar import line, mutated, spoiled, start_with
from tests.support.hosts.pushes import host, pushed, tree_of, written

pytestmark = [pytest.mark.pythons, pytest.mark.program]
NOBODY = pwd.getpwnam("nobody").pw_uid
two_users = pytest.mark.skipif(os.getuid() != 0, reason="needs root for a second user")


def noted(path: Path, name: str) -> str:
    found = path.stat()
    return json.dumps([name, found.st_size, found.st_mtime_ns, 0, 0, True]) + "\n"


def test_a_name_of_the_state_file_outside_the_folder_is_dropped(tmp_path: Path) -> None:
    written(tmp_path / "src" / "a", b"A")
    precious = written(tmp_path / "thesis" / "final.txt", b"precious")
    (tmp_path / "x").mkdir()
    names = ("../thesis/final.txt", str(precious), "b/../../thesis/final.txt", "./../thesis/a\0")
    state = "".join(noted(precious, name) for name in names)
    (tmp_path / "x" / ".mxscale-pushed").write_text(state)
    pushed(tree_of(tmp_path / "src"), tmp_path, exact=True)
    assert precious.read_bytes() == b"precious"
    assert (tmp_path / "x" / "a").read_bytes() == b"A"


def test_a_name_of_the_state_file_behind_a_link_that_leads_out_is_left(tmp_path: Path) -> None:
    written(tmp_path / "src" / "a", b"A")
    precious = written(tmp_path / "thesis" / "final.txt", b"precious")
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "out").symlink_to("../thesis")
    (tmp_path / "x" / ".mxscale-pushed").write_text(noted(precious, "out/final.txt"))
    pushed(tree_of(tmp_path / "src"), tmp_path, exact=True)
    assert precious.read_bytes() == b"precious"


def test_links_that_lead_out_through_one_another_are_removed(tmp_path: Path) -> None:
    piece = contents(written(tmp_path / "src", b"1"), "a")
    links = [replace(piece, name="esc", link="p/q/.."), replace(piece, name="p/q", link="..")]
    for both in (links, links[::-1]):
        with pytest.raises(LaunchError, match="'esc': leads out of the folder through other"):
            pushed(both, tmp_path)
        assert not (tmp_path / "x" / "esc").is_symlink()


def test_no_file_is_written_through_a_link_that_leads_out(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "x" / "esc").symlink_to("../outside")
    piece = replace(contents(written(tmp_path / "src", b"1"), "a"), name="esc/evil")
    with pytest.raises(LaunchError, match=r"a link on the path leads out of .*/x\. Remove it, or"):
        pushed([piece], tmp_path)
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_link_that_leads_out_through_another_is_copied_as_a_file(tmp_path: Path) -> None:
    written(tmp_path / "src" / "sub" / "a", b"1")
    written(tmp_path / "secret", b"2")
    (tmp_path / "src" / "up").symlink_to("..")
    (tmp_path / "src" / "file").symlink_to("up/secret")
    assert in_tree(tmp_path / "src", "file").link == ""


def part_of(folder: Path, name: str) -> Path:
    one = Receiver.__new__(Receiver)
    one.into, one.inside = os.fsencode(folder), set()
    return Path(os.fsdecode(one.part_path(name)))


@pytest.mark.parametrize("kind", ["link", "hard link", "pipe", "folder of a name"])
def test_what_stands_in_the_place_of_a_part_is_never_written_to(tmp_path: Path, kind: str) -> None:
    source = written(tmp_path / "src" / "a", b"new contents")
    keep = written(tmp_path / "keep", b"new")
    (tmp_path / "x").mkdir()
    part = part_of(tmp_path / "x", "a")
    if kind == "link":
        part.symlink_to(keep)
    elif kind == "hard link":
        part.hardlink_to(keep)
    elif kind == "pipe":
        os.mkfifo(part)
    else:
        part.mkdir()
    if kind in {"link", "pipe"}:
        pushed(tree_of(tmp_path / "src"), tmp_path)
        assert (tmp_path / "x" / "a").read_bytes() == source.read_bytes()
    else:
        with pytest.raises(LaunchError, match=r"Remove it|cannot be written"):
            pushed(tree_of(tmp_path / "src"), tmp_path)
    assert keep.read_bytes() == b"new"


@pytest.mark.parametrize("kind", ["link", "dangling link", "hard link", "pipe", "folder"])
def test_what_stands_in_the_place_of_the_state_file_is_refused(tmp_path: Path, kind: str) -> None:
    written(tmp_path / "src" / "a", b"A")
    keep = written(tmp_path / "keep", b"keep")
    (tmp_path / "x").mkdir()
    state = tmp_path / "x" / ".mxscale-pushed"
    match kind:
        case "link":
            state.symlink_to(keep)
        case "dangling link":
            state.symlink_to(tmp_path / "new")
        case "hard link":
            state.hardlink_to(keep)
        case "pipe":
            os.mkfifo(state)
        case _:
            state.mkdir()
    with pytest.raises(LaunchError, match=r"\.mxscale-pushed: "):
        pushed(tree_of(tmp_path / "src"), tmp_path)
    assert keep.read_bytes() == b"keep"
    assert not (tmp_path / "new").exists()


def test_a_state_file_of_any_bytes_is_read(tmp_path: Path) -> None:
    chance = random.Random(18)
    good = json.dumps(["a/b", 1, 2, 3, 4, True]).encode()
    for _ in range(3000):
        text = json.dumps(mutated(chance, ["a/b", 1, 2, 3, 4, True])).encode()
        found = entries(b"\n".join([good, spoiled(chance, text), text, b"[" * 100_000, b"\xff"]))
        assert all(launch.remote.files.is_below(name) for name in found)
        assert all(type(one.size) is int and type(one.put) is bool for one in found.values())


def place(folder: Path, mode: int, owner: int = 0, group: int = 0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    os.chown(folder, owner, group)
    folder.chmod(mode)
    return folder


@two_users
@pytest.mark.parametrize(
    ("mode", "owner", "group", "why"),
    [
        (0o755, NOBODY, 0, "expected owner root or root, got nobody"),
        (0o777, 0, 0, "other users may write there"),
        (0o1777, 0, 0, "other users may write there"),
        (0o775, 0, 12345, "other users may write there"),
        (0o775, 0, 0, ""),
        (0o755, 0, 0, ""),
        (0o700, 0, 12345, ""),
    ],
)
def test_a_folder_that_other_users_can_change_is_refused(
    tmp_path: Path, mode: int, owner: int, group: int, why: str
) -> None:
    written(tmp_path / "src" / "a", b"A")
    place(tmp_path / "x", mode, owner, group)
    if not why:
        pushed(tree_of(tmp_path / "src"), tmp_path)
        return
    with pytest.raises(LaunchError, match=f"{tmp_path}/x: {why}.*folder of your own") as caught:
        pushed(tree_of(tmp_path / "src"), tmp_path)
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "x").iterdir()) == []


@two_users
@pytest.mark.parametrize(
    ("mode", "owner", "taken"),
    [(0o755, NOBODY, False), (0o777, 0, False), (0o1777, 0, True), (0o755, 0, True)],
)
def test_a_new_folder_is_refused_where_other_users_can_replace_it(
    tmp_path: Path, mode: int, owner: int, *, taken: bool
) -> None:
    written(tmp_path / "src" / "a", b"A")
    above = place(tmp_path / "above", mode, owner)
    if taken:
        pushed(tree_of(tmp_path / "src"), above / "job")
    else:
        with pytest.raises(LaunchError, match=r"/above: (expected owner|other users may write)"):
            pushed(tree_of(tmp_path / "src"), above / "job")
        assert list(above.iterdir()) == []


def test_a_users_own_group_may_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with umask 002, if each user has a group of their own."""

    def group(name: str, *members: str) -> None:
        found = grp.struct_group((name, "x", 1000, list(members)))
        monkeypatch.setattr(grp, "getgrgid", lambda _: found)

    monkeypatch.setattr(pwd, "getpwall", list)
    group("staff")
    assert launch.remote.files.is_private(1000, 1000)
    assert not launch.remote.files.is_private(1000, 0)
    group("root", "root")
    assert launch.remote.files.is_private(1000, 0)
    group("root", "root", "eve")
    assert not launch.remote.files.is_private(1000, 0)
    group("staff", "eve")
    assert not launch.remote.files.is_private(1000, 1000)
    group("staff")
    eve = pwd.struct_passwd(("eve", "x", 1001, 1000, "", "/", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwall", lambda: [eve])  # whose first group it is
    assert not launch.remote.files.is_private(1000, 1000)


def test_a_folder_that_a_list_of_access_lets_others_write_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = place(tmp_path / "x", 0o775, os.getuid(), os.getgid())
    monkeypatch.setattr(launch.remote.files, "is_private", lambda *_: True)
    launch.remote.files.check_folder(os.fsencode(folder))
    monkeypatch.setattr(os, "listxattr", lambda _: ["system.posix_acl_access"])
    with pytest.raises(LaunchError, match=f"{folder}: other users may write there"):
        launch.remote.files.check_folder(os.fsencode(folder))


@two_users
@pytest.mark.parametrize("name", ["x", "x/new/deep"])
@pytest.mark.parametrize("leads", ["../own", "again", "{}/own"])
def test_a_link_of_another_user_on_the_way_to_a_folder_is_refused(
    tmp_path: Path, name: str, leads: str
) -> None:
    """The link can lead elsewhere a moment later, such as to its owner's programs."""
    above = place(tmp_path / "above", 0o1777)
    place(tmp_path / "own", 0o755)
    (above / "again").symlink_to("../own")
    (above / "x").symlink_to(leads.format(tmp_path))
    launch.remote.files.check_folder(os.fsencode(above / name))
    os.lchown(above / ("again" if leads == "again" else "x"), NOBODY, NOBODY)
    with pytest.raises(
        LaunchError, match=r"above/(x|again): expected owner root or root, got nobody"
    ):
        launch.remote.files.check_folder(os.fsencode(above / name))
    os.lchown(above / "again", 0, 0)
    os.lchown(above / "x", 0, 0)
    above.chmod(0o777)
    with pytest.raises(LaunchError, match="above: other users may write there"):
        launch.remote.files.check_folder(os.fsencode(above / name))


def test_links_that_lead_to_themselves_are_no_folder(tmp_path: Path) -> None:
    (tmp_path / "x").symlink_to("x")
    with pytest.raises(LaunchError, match="x: too many symbolic links on the path"):
        launch.remote.files.check_folder(os.fsencode(tmp_path / "x"))


def test_a_new_folder_is_its_owners_alone_to_write_to(tmp_path: Path) -> None:
    written(tmp_path / "src" / "a", b"A")
    before = os.umask(0o002)
    try:
        pushed(tree_of(tmp_path / "src"), tmp_path / "deep" / "er")
    finally:
        os.umask(before)
    assert (tmp_path / "deep" / "er" / "x").stat().st_mode & 0o777 == 0o755


TAKE = {"do": "take", "into": "", "exact": True, "verify": False, "owner": None}
TAKE |= {"files": [["a", 1, 2, 0o644, ""], ["b", 0, 0, 0, "a"], ["c/d", 3, 2, 0o600, ""]]}
COMMANDS: list[dict[str, Any]] = [
    TAKE,
    {"do": "keep", "at": 0},
    {"do": "file", "at": 2, "from": 0},
    {"do": "data", "bytes": 3},
    {"do": "end", "crc": 1},
    {"do": "finish"},
    {"do": "beat"},
]


class Told(MasterLine):
    """Run the receiver on a line with only these messages."""

    def __init__(self, lines: list[bytes]) -> None:
        self._shapes = {"beat": {}, **SHAPES}
        self._held = bytearray(b"\n".join(lines) + b"\n")
        self.done = self.total = 0

    def say(self, **message: Any) -> None:
        json.dumps(message)

    def _read(self) -> bytes:
        raise LaunchError("heard nothing")


def test_a_receiver_takes_any_bytes_of_a_controller_and_writes_below_its_folder_alone(
    tmp_path: Path,
) -> None:
    chance = random.Random(18)
    for number in range(600):
        into = tmp_path / "in" / str(number)
        sent = []
        for one in COMMANDS:
            message = one | ({"into": str(into)} if one is TAKE else {})
            message = mutated(chance, message) if chance.random() < 0.3 else message
            if isinstance(message, dict) and message.get("do") == "take":
                message["into"] = str(into)
            text = json.dumps(message).encode()
            sent.append(spoiled(chance, text) if chance.random() < 0.1 else text)
            if message == COMMANDS[3]:
                sent[-1] += b"\nabc"
        master = Told(sent)
        try:
            message = master.message()
            if str(message.get("into", "")) == str(into):
                receiver = Receiver(master, message)
                with closing(receiver.pushed):
                    receiver.run()
        except (OSError, LaunchError, ValueError, OverflowError) as error:
            assert reason(error, str(into))  # noqa: PT017
    assert {path.name for path in tmp_path.iterdir()} == {"in"}
    assert {path.name for path in (tmp_path / "in").iterdir()} <= set(map(str, range(600)))


def test_a_command_of_any_bytes_is_one_or_a_protocol_error() -> None:
    chance = random.Random(18)
    shapes = SHAPES
    for _ in range(5000):
        text = json.dumps(mutated(chance, chance.choice(COMMANDS))).encode()
        try:
            found = commands.parsed(
                spoiled(chance, text) if chance.random() < 0.5 else text, shapes
            )
        except ProtocolError as error:
            assert str(error).isprintable()  # noqa: PT017
        else:
            assert found["do"] in shapes


WRONG_HAS: tuple[Any, ...] = (
    *([], ["same", "same"], [{"part": 99, "crc": 1}], [{"crc": -1}], [{"part": 1}], "x", [1]),
    *(None, [{"part": -1, "crc": 1}], [["same"]]),
)


def _has(files: Any) -> Starter:
    def react(asks: dict[str, Any]) -> list[bytes]:
        return [line(say="has", files=files)] if asks["do"] == "take" else []

    return start_with(react, "node01")


@pytest.mark.parametrize("files", WRONG_HAS, ids=range(len(WRONG_HAS)))
def test_a_receiver_that_says_what_cannot_be_fails_its_push_alone(
    tmp_path: Path, files: Any
) -> None:
    piece = contents(written(tmp_path / "src", b"12345"), "a")
    with pytest.raises(LaunchError, match="node01: the receiver broke the protocol: has: "):
        list(push([piece], host(tmp_path), _has(files), "x"))


@pytest.mark.parametrize(
    "said",
    [
        b'{"say": "failed"}\n',
        b'{"say": "beat"}\n',
        b'{"say": "gossip"}\n',
        b'{"say": "finished"}\n',
    ],
)
def test_another_message_than_was_asked_for_fails_a_push(tmp_path: Path, said: bytes) -> None:
    piece = contents(written(tmp_path / "src", b"12345"), "a")
    with pytest.raises(LaunchError, match="node01: the receiver broke the protocol: "):
        list(push([piece], host(tmp_path), start_with(lambda _: [said], "node01"), "x"))


def test_a_push_goes_to_this_machine_as_it_did(tmp_path: Path) -> None:
    piece = contents(written(tmp_path / "src", b"12345", 0o640), "a")
    list(push([piece], host(tmp_path), start_local, "x"))
    assert (tmp_path / "x" / "a").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    "text",
    [
        *(b'{"do": "finish"}', b'{"do": "data", "bytes": 5}'),
        b'{"do": "take", "into": "/proc/none", "exact": false, "verify": false, "files": []}',
    ],
)
def test_a_receiver_that_is_asked_for_no_push_says_so(text: bytes) -> None:
    done = subprocess.run(
        [sys.executable, *FLAGS, "-c", LOADER],
        input=sources("receiver") + text + b"\n",
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert b'{"say": "failed", "why": "' in done.stdout
    assert done.stderr == b""


@pytest.mark.parametrize(
    ("text", "code"),
    [(b'{"do": "compare", "into": "/tmp", "files": [], "others": []}', 0), (b'{"do": "end"}', 1)],
)
def test_a_receiver_that_is_done_lives_until_its_connection_closes(text: bytes, code: int) -> None:
    with subprocess.Popen(
        [sys.executable, *FLAGS, "-c", LOADER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write(sources("receiver") + text + b"\n")
        program.stdin.flush()
        answers = (b'{"say": "compared"', b'{"say": "failed"')
        next(line for line in program.stdout if line.startswith(answers))
        with pytest.raises(subprocess.TimeoutExpired):
            program.wait(0.5)
        program.stdin.close()
        assert program.wait(10) == code
