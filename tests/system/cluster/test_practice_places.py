"""A local test cluster in unusual places: checkout, interpreter, session."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from launch.hosts import ROOT
from launch.practice.cluster import down
from launch.practice.mounts import links_to

pytestmark = pytest.mark.cluster
FAB = Path(sys.executable).parent / "fab"
UP = """
import pathlib, sys
from launch.remote.errors import LaunchError
from launch.practice.cluster import inside, up
try:
    cluster = up(pathlib.Path(".practice"), hosts=1)
    print(inside(cluster, "node01", [sys.executable, "-c", "import sys; print(sys.prefix)"]).stdout)
except LaunchError as error:
    print(error)
"""


def fab(*words: str) -> subprocess.CompletedProcess[str]:
    """Run fab in a session of its own, which ends with no other process."""
    return subprocess.run(
        [FAB, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        start_new_session=True,
    )


def copy_checkout(to: Path) -> None:
    """Copy the part of the checkout that starts a cluster."""
    for name in ("bench", "im2rec_tools", "launch"):
        shutil.copytree(ROOT / name, to / name)
    (to / "fabfile.py").touch()


def said(*argv: str | Path) -> str:
    """Return the output of a program that must succeed."""
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("place", ["/home", "/srv", "/tmp"])
def test_a_checkout_and_an_environment_may_lie_below_a_closed_folder(
    place: str, tmp_path: Path, able: None
) -> None:
    closed = tmp_path / "user"
    closed.mkdir(mode=0o700)
    copy_checkout(closed / "checkout")
    made = closed / "environments" / "mine"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", made], check=True)
    (closed / "link").symlink_to("environments")
    # Only this process, and the cluster that it starts, see the folder in that place.
    go = 'mount --bind "$0" "$1" && cd "$1/user/checkout" && exec ../link/mine/bin/python -c "$2"'
    found = said("unshare", "--mount", "sh", "-c", go, tmp_path, place, UP)
    assert found == f"{place}/user/link/mine"


def test_a_checkout_that_is_itself_closed_is_refused_in_one_line(
    tmp_path: Path, able: None
) -> None:
    checkout = tmp_path / "checkout"
    checkout.mkdir(mode=0o700)
    copy_checkout(checkout)
    assert said("env", "-C", checkout, sys.executable, "-c", UP) == (
        f"{checkout}: expected a folder that the hosts' user can read, got mode 700. Run: "
        f"chmod o+rx {checkout}"
    )


def test_links_are_followed_one_by_one(tmp_path: Path) -> None:
    real = tmp_path / "versions" / "3.11.7" / "bin"
    real.mkdir(parents=True)
    (real / "python3").touch()
    (tmp_path / "versions" / "3.11").symlink_to("3.11.7")
    (tmp_path / "python").symlink_to("versions/3.11/bin/python3")
    found = links_to(tmp_path / "python")
    assert {str(link.relative_to(tmp_path)): says for link, says in found.items()} == {
        "python": "versions/3.11/bin/python3",
        "versions/3.11": "3.11.7",
    }


def test_a_person_starts_looks_at_and_ends_a_cluster(tmp_path: Path, able: None) -> None:
    at = ("--dir", str(tmp_path / "c"))
    try:
        said = fab("practice.up", "--hosts", "2", *at).stdout
        assert "fab practice.down --dir" in said
        assert f"fab bench.sweep smoke --hostfile {tmp_path}/c/hostfile --ssh-config " in said
        again = fab("practice.up", *at)
        assert (again.returncode, len(again.stderr.splitlines())) == (2, 1)
        assert fab("practice.cut", "node02", *at).returncode == 0
        assert fab("practice.rate", "200mbit", *at).returncode == 0
        shown = fab("practice.show", *at).stdout.splitlines()
        assert "up, 200 Mbit/s" in shown[0]
        assert "cut, 200 Mbit/s" in shown[1]
        assert fab("practice.down", *at).returncode == 0
        assert fab("practice.show", *at).stderr.endswith("or name another folder with --dir\n")
    finally:
        down(tmp_path / "c")


def test_a_cluster_belongs_to_the_terminal_that_sudo_was_typed_in(tmp_path: Path) -> None:
    sudo = tmp_path / "sudo"
    shutil.copy("/bin/bash", sudo)
    code = "from launch.practice.start import owner_of_terminal; print(owner_of_terminal())"
    typed = f'echo $$; setsid --wait {sudo} -c \'{sys.executable} -c "$0"; true\' "$1"'
    done = subprocess.run(
        ["bash", "-c", typed, "bash", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        start_new_session=True,
    )
    shell, owner = done.stdout.split()
    assert owner == shell
