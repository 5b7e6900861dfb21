"""Puts this checkout and its environment on hosts."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from launch.hosts import ROOT, Host, lease_owner, this_machine
from launch.preflight.findings import no_code, taken
from launch.push import Pushing, contents, in_tree, push
from launch.remote import limits
from launch.remote.code_hash import code_hash
from launch.remote.errors import LaunchError
from launch.transport.client import RemoteProgram, catch_errors, map_hosts
from launch.transport.line import Starter


@cache
def own_code() -> str:
    """The hash of this checkout's code."""
    return code_hash(ROOT)


@cache
def own_versions() -> dict[str, str]:
    """The Python of this process and its MXNet."""
    try:
        mxnet = version("mxnet")
    except PackageNotFoundError:
        mxnet = "none"
    return {"python": f"{sys.version_info.major}.{sys.version_info.minor}", "mxnet": mxnet}


# An environment's size: with MXNet for CPUs, and for GPUs with the CUDA libraries.
_CPU_BYTES, _GPU_BYTES = 3 << 29, 8 << 30
_WHEELS = ".wheels"
_MOST_NAMED = 6
_LEFT_OUT = {".git", ".venv", "data", "runs", "__pycache__", ".mypy_cache", ".ruff_cache"}


def install(
    hosts: Sequence[Host],
    start: Starter,
    say: Callable[[str], None],
    tree: str = "",
    wheelhouse: Path | None = None,
) -> int:
    """Installs side by side, does nothing where all is up to date; how many hosts failed.

    `tree` is the folder on each host, ~/mxscale if empty; `wheelhouse` a folder here of wheels for
    hosts without a package index. All hosts are connected first, so that one that cannot be reached
    is reported and delays no other.
    """
    wheels = _wheels(wheelhouse)
    names = code_files(ROOT)
    if left := untracked(ROOT):
        say(left)
    hosts = [replace(host, tree=tree or "~/mxscale") for host in hosts]

    def report(host: Host, result: str | LaunchError) -> None:
        say(f"{host.name}: {str(result).removeprefix(f'{host.name}: ')}")

    def examine(host: Host) -> dict[str, Any] | LaunchError:
        facts = catch_errors(partial(_facts, start))(host)
        if isinstance(facts, LaunchError):
            report(host, facts)
        return facts

    def install_one(found: tuple[Host, dict[str, Any]]) -> bool:
        result = catch_errors(partial(_installed, start, names, wheels))(found)
        report(found[0], result)
        return not isinstance(result, LaunchError)

    found = map_hosts(examine, hosts, len(hosts))
    pairs = zip(hosts, found, strict=True)
    ready = [(host, facts) for host, facts in pairs if not isinstance(facts, LaunchError)]
    return len(hosts) - sum(map_hosts(install_one, ready))


def code_files(root: Path) -> list[str]:
    """What a checkout is made of: files that git tracks, or without git all but what was made.

    LaunchError for a link that leads out of the checkout, whose content would be sent.
    """
    names = _listed(root, "-c")
    if names is None:
        found = (path.relative_to(root) for path in root.rglob("*"))
        names = [str(one) for one in found if not _LEFT_OUT & set(one.parts)]
        names = [name for name in names if not Path(name).name.startswith(".env")]
    inside = root.resolve()
    for name in names:
        if not (root / name).resolve().is_relative_to(inside):
            raise LaunchError(
                f"{root / name}: expected a link within the checkout, and it leads out of it; "
                f"remove it, or replace it by the file"
            )
    return [name for name in sorted(set(names)) if (root / name).is_file()]


def untracked(root: Path) -> str:
    """A line that names files of a checkout that are not sent; '' if there are none."""
    names = sorted(_listed(root, "-o") or [])
    if not names:
        return ""
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"left out, for git does not track them: {', '.join(names[:_MOST_NAMED])}{more}"


def _listed(root: Path, which: str) -> list[str] | None:
    """Files that git tracks (-c), or neither tracks nor ignores (-o); None without git."""
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", which, "--exclude-standard"],
        capture_output=True,
        check=False,
    )
    if listed.returncode:
        return None
    return [os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]


def _wheels(folder: Path | None) -> list[Path]:
    if folder is None:
        return []
    found = sorted(folder.glob("*.whl"))
    if not found:
        raise LaunchError(
            f"--wheelhouse {folder}: expected wheels, found none; fill it on a machine with a "
            f"package index, a Python like the hosts' and the same processor: python -m pip "
            f"download --no-deps --only-binary :all: -d {folder} -r requirements.lock"
        )
    return found


def _installed(
    start: Starter, names: list[str], wheels: list[Path], found: tuple[Host, dict[str, Any]]
) -> str:
    """What was done on a host with these facts, in words; `names` are files of code."""
    host, facts = found
    moved = _pushed(push([in_tree(ROOT, name) for name in names], host, start, "", exact=True))
    code = "the code was up to date" if not moved else f"{moved} files of code brought"
    done = _environment(host, start, on_gpu=_wants_gpu(facts), wheels=bool(wheels))
    if wheels and (done["say"] == "lacking" or done["code"]):
        _pushed(push([contents(path, path.name) for path in wheels], host, start, _WHEELS))
        done = _environment(host, start, on_gpu=_wants_gpu(facts), wheels=True, pushed=True)
    return f"{code}; {_made(done, wheels=bool(wheels))}"


def _pushed(moves: Pushing) -> int:
    """How many files were copied."""
    copied = 0
    for move in moves:
        if move.step == "copying":
            copied = move.files
    return copied


def _facts(start: Starter, host: Host) -> dict[str, Any]:
    message = {"trees": [host.tree], "python": this_machine().python, "folder": host.tree}
    with closing(RemoteProgram(host, start, "probe")) as program:
        facts = program.request({"do": "facts", **message}, limits.FACTS_SECONDS, "facts")
    if facts["holder"]:
        raise LaunchError(taken(facts["holder"]))
    needed = _GPU_BYTES if facts["gpus"] else _CPU_BYTES
    if facts["disk_problem"]:
        raise LaunchError(
            f"cannot write to {facts['disk']} ({facts['disk_problem']}); name another place with "
            f"--tree (in quotes: --tree '~/NAME', or your shell puts your own home there)"
        )
    if not facts["mxnet"] and facts["free_bytes"] < needed:
        raise LaunchError(
            f"needs {needed / 1e9:.2f} GB at {facts['disk']} and has "
            f"{facts['free_bytes'] / 1e9:.2f} GB free; make room there, or name another place "
            f"with --tree"
        )
    if facts["architecture"] != "x86_64":
        raise LaunchError(f"is {facts['architecture']}; MXNet 1.9.1's wheels are for x86_64")
    return facts


def _wants_gpu(facts: dict[str, Any]) -> bool:
    """Whether the host gets MXNet for GPUs; LaunchError for a GPU that it has no code for."""
    for gpu in facts["gpus"]:
        if why := no_code(gpu):
            raise LaunchError(why)
    return bool(facts["gpus"])


def _environment(
    host: Host, start: Starter, *, on_gpu: bool, wheels: bool, pushed: bool = False
) -> dict[str, Any]:
    """What the host says of its environment; that wheels are lacking, if they are not `pushed`."""
    env = {"MXSCALE_GPU": "1"} if on_gpu else {}
    folder = this_machine().python.split("/")[0]
    if folder.startswith(".venv-"):
        env["PYTHON"] = folder.removeprefix(".venv-")
    locks = [path for path in sorted(ROOT.glob("requirements*.lock")) if path.is_file()]
    message = {
        "do": "environment",
        "tree": host.tree,
        "env": env,
        "owner": lease_owner(host),
        "folder": folder if folder.startswith(".venv") else ".venv",
        "lock": hashlib.sha256(b"".join(path.read_bytes() for path in locks)).hexdigest(),
        "wheels": _WHEELS if wheels else "",
        "pushed": pushed,
    }
    with closing(RemoteProgram(host, start, "environment")) as program:
        return program.request(message, limits.ENVIRONMENT_SECONDS, "done", "lacking")


def _made(done: dict[str, Any], *, wheels: bool) -> str:
    """The last line of what made an environment; LaunchError if it could not be made."""
    last = done["lines"][-1] if done["lines"] else ""
    if done["code"]:
        lines = [line.strip() for line in done["lines"][:-1]]
        errors = [line for line in lines if line.startswith("ERROR")] or lines[-1:]
        hint = "" if wheels else "; a host that reaches no package index needs --wheelhouse"
        raise LaunchError(f"its environment could not be made: {' | '.join([*errors, last])}{hint}")
    return last or "the environment was up to date"
