"""Causes that keep a probe from its work: each is reported at once."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from launch.hosts import ROOT
from launch.practice.cluster import Cluster, inside
from launch.preflight.findings import HostReport, Requirements
from launch.remote import limits
from tests.support.hosts.clusters import listed, looked_at, processes

pytestmark = pytest.mark.cluster

NOW = 12.0


@contextmanager
def start_up(cluster: Cluster, text: str, *more: str) -> Iterator[None]:
    """Give the first host's user this ~/.bashrc; `more` commands run there."""
    first = cluster.nodes[0].name
    put = ["sh", "-c", 'printf "%s\\n" "$0" > ~/.bashrc', text]
    assert inside(cluster, first, put).returncode == 0
    for command in more:
        assert inside(cluster, first, ["sh", "-c", command]).returncode == 0
    try:
        yield
    finally:
        inside(cluster, first, ["sh", "-c", "rm -rf ~/.bashrc ~/evil"])
        for line in processes(cluster, first):  # a shell held by its start-up file is not the job's
            inside(cluster, first, ["kill", "-9", line.partition(" ")[0]])


def first_of(cluster: Cluster) -> tuple[HostReport, float]:
    began = time.monotonic()
    found = looked_at(cluster, hosts=listed(cluster)[:1])
    return found[cluster.nodes[0].name], time.monotonic() - began


def test_a_bad_pythonhome_of_a_start_up_file_is_no_missing_python(practice: Cluster) -> None:
    with start_up(practice, "export PYTHONHOME=/nowhere"):
        found, _ = first_of(practice)
        asked = looked_at(practice, Requirements(), listed(practice)[:1])[practice.nodes[0].name]
    assert found.problems == ()  # our own programs do not use it
    assert ". Remove PYTHONHOME from the start-up file (~/.bashrc for" in asked.problems[0]
    assert "hosts.install" not in asked.problems[0]
    assert "PYTHONHOME=/nowhere is set, perhaps by a start-up file" in found.facts["python_problem"]
    assert "encodings" in found.facts["python_problem"]


def test_a_greeting_that_is_no_utf8_leaves_a_host_fit(practice: Cluster) -> None:
    with start_up(practice, r"printf 'Gr\374\337e\n'; printf '\377\n' >&2"):
        found, _ = first_of(practice)
    assert found.problems == ()


def test_a_module_on_pythonpath_does_not_replace_ours(practice: Cluster) -> None:
    first_of(practice)  # the host remembers what its libraries are
    evil = "mkdir ~/evil; echo 'raise SystemExit(\"evil json\")' > ~/evil/json.py"
    with start_up(practice, "export PYTHONPATH=$HOME/evil", evil):
        found, _ = first_of(practice)
    assert found.problems == ()
    assert "PYTHONPATH=/home/bench/evil is set" in found.facts["python_problem"]


def test_a_module_in_the_home_does_not_replace_ours(practice: Cluster) -> None:
    with start_up(practice, ":", "echo 'raise SystemExit(\"evil\")' > ~/json.py"):
        found, _ = first_of(practice)
        inside(practice, practice.nodes[0].name, ["rm", "/home/bench/json.py"])
    assert (found.problems, found.facts["python_problem"]) == ((), "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sleep 600", "the login shell ran no command within 3 s; the likely cause is a start-up"),
        ("exit 7", "the login shell ended with exit code 7 before it ran a command; the likely"),
        (
            "echo 'no guests'; exit 1",
            "exit code 1 before it ran a command (it printed 'no guests')",
        ),
        ("exec cat", "the login shell ran no command within 3 s; the likely cause is a start-up"),
        ("kill -9 $$", "the login shell was killed, or its connection closed, before it ran a"),
        ("exec 1>&-", "before it ran a command (it printed 'its standard output is closed'); the"),
        ("PATH=/nonexistent", "correct the PATH that a start-up file sets (~/.bashrc for bash, ~"),
        ("read one_line", "Python received no program; the likely cause is a start-up file"),
    ],
)
def test_a_start_up_file_that_blocks_exits_or_reads_is_named(
    practice: Cluster, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    monkeypatch.setattr(limits, "PROGRAM_START_SECONDS", 3.0)
    with start_up(practice, text):
        found, seconds = first_of(practice)
    assert len(found.problems) == 1
    assert said in found.problems[0]
    assert "~/.bashrc" in found.problems[0]
    assert seconds < 3.0 + NOW


def test_messages_that_a_start_up_file_prints_are_not_taken_for_ours(practice: Cluster) -> None:
    noise = """echo '{"say": "facts"}'; (sleep 0.5; echo '{"say": "facts", "n": 7}') &"""
    with start_up(practice, noise):
        found, _ = first_of(practice)
    assert found.problems == ()
    assert found.facts["hostname"] == practice.nodes[0].name


def test_escape_sequences_of_a_login_shell_do_not_reach_the_terminal(practice: Cluster) -> None:
    noise = (
        r"printf '\033]0;title\007\033[2J\033[31m'; printf '\033[1mwarning\033[0m\n' >&2; exit 5"
    )
    with start_up(practice, noise):
        found, _ = first_of(practice)
    assert "warning" in found.problems[0]
    assert found.problems[0].isprintable()
    with start_up(practice, ":", r"""echo "printf '\033]0;title\007\033[31m'" > ~/.bash_profile"""):
        found, _ = first_of(practice)
        inside(practice, practice.nodes[0].name, ["rm", "/home/bench/.bash_profile"])
    assert found.facts["login_shell"].isprintable()
    assert not [note for note in found.notes if "in a login shell" in note]


def test_a_file_of_the_checkout_that_cannot_be_read_is_named_at_once(
    practice: Cluster, tmp_path: Path
) -> None:
    node = practice.nodes[0].name
    copy = f"cp -r {ROOT}/launch {ROOT}/bench ~/tree 2>/dev/null || (mkdir ~/tree && cp -r"
    copy += f" {ROOT}/launch {ROOT}/bench ~/tree)"
    for what, place in (("launch/remote/agent.py", ""), ("bench", "/__init__.py")):
        make = f"rm -rf ~/tree; {copy}; chmod 000 ~/tree/{what}"
        assert inside(practice, node, ["sh", "-c", make]).returncode == 0
        try:
            began = time.monotonic()
            found = looked_at(
                practice,
                wanted=Requirements(tree="~/tree", engines=()),
                hosts=listed(practice)[:1],
            )[node]
            seconds = time.monotonic() - began
        finally:
            inside(practice, node, ["sh", "-c", "chmod -R u+rwX ~/tree; rm -rf ~/tree"])
        path = f"/home/bench/tree/{what}{place}"
        assert found.problems == (
            f"the checkout cannot be read ({path}: Permission denied). Make it readable for user "
            f"bench",
        )
        assert seconds < NOW


def test_a_read_only_dev_shm_keeps_no_host_from_a_job(practice: Cluster) -> None:
    node = practice.nodes[0].name
    mount = ["mount", "-o", "remount,ro", "/dev/shm"]
    assert inside(practice, node, mount, user="root").returncode == 0
    try:
        found, seconds = first_of(practice)
    finally:
        inside(practice, node, ["mount", "-o", "remount,rw", "/dev/shm"], user="root")
    assert found.problems == ()
    assert seconds < NOW


@pytest.mark.parametrize(
    "make", ["touch {} && chmod 600 {}", "mkdir -m 700 {}", "mkfifo -m 600 {}"]
)
def test_what_another_user_left_in_dev_shm_blocks_no_host(practice: Cluster, make: str) -> None:
    node = practice.nodes[0].name
    path = f"/dev/shm/mxscale-{node}.lease"
    done = inside(practice, node, ["sh", "-c", make.replace("{}", path)], user="root")
    assert done.returncode == 0, done.stderr
    try:
        found, seconds = first_of(practice)
    finally:
        inside(practice, node, ["rm", "-rf", path], user="root")
    assert found.problems == ()
    assert seconds < NOW
