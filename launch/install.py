"""Installation of this checkout and its Python environment on hosts."""

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

from bench.engines.catalog import ENGINES
from bench.engines.engine import Engine
from bench.engines.mxnet import MXNET
from launch.hosts import ROOT, Host, lease_owner, this_machine
from launch.preflight.findings import taken
from launch.push import Pushing, contents, in_tree, push
from launch.remote import limits
from launch.remote.code_hash import code_hash
from launch.remote.errors import LaunchError, error_line
from launch.transport.client import RemoteProgram, catch_errors, map_hosts
from launch.transport.line import Starter


@cache
def own_code() -> str:
    """Return the hash of this checkout's code."""
    return code_hash(ROOT)


@cache
def own_versions() -> dict[str, str]:
    """Return the versions of this process's Python and its engines' packages."""
    found = {"python": f"{sys.version_info.major}.{sys.version_info.minor}"}
    for package in sorted({one.package for one in ENGINES.values() if one.package}):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "none"
    return found


# Size of an environment: with MXNet for CPUs, and for GPUs with the CUDA libraries.
_CPU_BYTES, _GPU_BYTES = 3 << 29, 8 << 30
# GB that a package other than MXNet may download, in its variable of tools/environment.sh.
_MOST_GB = "4"
_WHEELS = ".wheels"
_MOST_NAMED = 6
_LEFT_OUT = {".git", ".venv", "data", "runs", "__pycache__", ".mypy_cache", ".ruff_cache"}


def install(
    hosts: Sequence[Host],
    start: Starter,
    say: Callable[[str], None],
    wheelhouse: Path | None = None,
    engines: Sequence[Engine] = (),
) -> int:
    """Install on all hosts in parallel; skip those up to date.

    Return the number of failures.

    A host without a tree gets ~/mxscale. `wheelhouse` is a local folder of wheels for hosts without
    a package index. `engines` are those to install, MXNet if none is given; a host keeps those that
    it has. All hosts are connected first, so that an unreachable one is reported and delays no
    other.
    """
    wheels = _wheels(wheelhouse)
    names = code_files(ROOT)
    if left := untracked(ROOT):
        say(left)
    hosts = [replace(host, tree=host.tree or "~/mxscale") for host in hosts]

    def report(host: Host, result: str | LaunchError) -> None:
        say(f"{host.name}: {str(result).removeprefix(f'{host.name}: ')}")

    def examine(host: Host) -> dict[str, Any] | LaunchError:
        facts = catch_errors(partial(_facts, start))(host)
        if isinstance(facts, LaunchError):
            report(host, facts)
        return facts

    def install_one(found: tuple[Host, dict[str, Any]]) -> bool:
        result = catch_errors(partial(_installed, start, names, wheels, engines))(found)
        report(found[0], result)
        return not isinstance(result, LaunchError)

    found = map_hosts(examine, hosts, len(hosts))
    pairs = zip(hosts, found, strict=True)
    ready = [(host, facts) for host, facts in pairs if not isinstance(facts, LaunchError)]
    return len(hosts) - sum(map_hosts(install_one, ready))


def code_files(root: Path) -> list[str]:
    """Return the files that git tracks, or without git all source files.

    LaunchError for a link that leads out of the checkout, because its content would be sent.
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
                error_line(
                    root / name,
                    expected="a link within the checkout",
                    problem="the link leads out of it",
                    fix="Remove the link, or replace it by the file",
                )
            )
    return [name for name in sorted(set(names)) if (root / name).is_file()]


def untracked(root: Path) -> str:
    """Return a line with the files of a checkout that are not sent.

    '' if there are none.
    """
    names = sorted(_listed(root, "-o") or [])
    if not names:
        return ""
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"skipped files that git does not track: {', '.join(names[:_MOST_NAMED])}{more}"


def _listed(root: Path, which: str) -> list[str] | None:
    """List files that git tracks (-c), or neither tracks nor ignores (-o).

    None without git.
    """
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
            error_line(
                f"--wheelhouse {folder}",
                expected="wheels",
                got="none",
                fix=(
                    "Fill it on a machine with a package index and the hosts' Python version and "
                    f"processor: python -m pip download --no-deps --only-binary :all: -d {folder} "
                    "-r requirements.lock"
                ),
            )
        )
    return found


def _installed(
    start: Starter,
    names: list[str],
    wheels: list[Path],
    engines: Sequence[Engine],
    found: tuple[Host, dict[str, Any]],
) -> str:
    """Install on a host with these facts and return a report.

    `names` are files of code.
    """
    host, facts = found
    asked = requests(facts, engines)
    moved = _pushed(push([in_tree(ROOT, name) for name in names], host, start, "", exact=True))
    code = "code is up to date" if not moved else f"copied {moved} files of code"
    done = _environment(host, start, asked, wheels=bool(wheels))
    if wheels and (done["say"] == "lacking" or done["code"]):
        _pushed(push([contents(path, path.name) for path in wheels], host, start, _WHEELS))
        done = _environment(host, start, asked, wheels=True, pushed=True)
    return f"{code}; {_made(done, wheels=bool(wheels))}"


def _pushed(moves: Pushing) -> int:
    """Return how many files were copied."""
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
        raise LaunchError(error_line(host.name, problem=taken(facts["holder"])))
    needed = _GPU_BYTES if facts["gpus"] else _CPU_BYTES
    if facts["disk_problem"]:
        raise LaunchError(
            error_line(
                host.name,
                problem=f"{facts['disk']} cannot be written ({facts['disk_problem']})",
                fix=(
                    "Choose another folder with --tree '~/NAME' (quoted, so that your shell does "
                    "not expand it)"
                ),
            )
        )
    if not facts["mxnet"] and facts["free_bytes"] < needed:
        raise LaunchError(
            error_line(
                host.name,
                expected=f"{needed / 1e9:.2f} GB of free disk space at {facts['disk']}",
                got=f"{facts['free_bytes'] / 1e9:.2f} GB",
                fix="Free disk space, or choose another folder with --tree DIR",
            )
        )
    if facts["architecture"] != "x86_64":
        raise LaunchError(
            error_line(
                host.name,
                expected="an x86_64 processor (for MXNet 1.9.1's wheels)",
                got=facts["architecture"],
                fix="Use other hosts",
            )
        )
    return facts


def requests(facts: dict[str, Any], engines: Sequence[Engine]) -> dict[str, str]:
    """Return variables that request a host's engines from tools/environment.sh.

    It always installs MXNet for CPUs. LaunchError if a GPU of the host has no code for an engine
    that `engines` name. If they name none, another engine that the host has must support it.
    """
    chosen = engines or (MXNET,)
    fit = []
    for engine in chosen:
        why = next(filter(None, (engine.no_code(gpu, facts) for gpu in facts["gpus"])), "")
        if why and (engines or not _other_computes(facts, engine)):
            raise LaunchError(why)
        fit += [] if why else [engine]
    found = {f"MXSCALE_{one.package.upper()}": _MOST_GB for one in fit if one.package}
    found.pop(f"MXSCALE_{MXNET.package.upper()}", None)
    return found | ({"MXSCALE_GPU": "1"} if MXNET in fit and facts["gpus"] else {})


def _other_computes(facts: dict[str, Any], engine: Engine) -> bool:
    """Return whether a host has the package of another engine with code for its GPUs."""
    others = [one for one in ENGINES.values() if facts.get(one.package) and one is not engine]
    return any(not one.no_code(gpu, facts) for one in others for gpu in facts["gpus"])


def _environment(
    host: Host, start: Starter, requested: dict[str, str], *, wheels: bool, pushed: bool = False
) -> dict[str, Any]:
    """Make the environment.

    Return the host's answer: done, or that it lacks the wheels.
    """
    env = dict(requested)
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
    """Return the last line of the environment's script; LaunchError if it failed."""
    last = done["lines"][-1] if done["lines"] else ""
    if done["code"]:
        lines = [line.strip() for line in done["lines"][:-1]]
        errors = [line for line in lines if line.startswith("ERROR")] or lines[-1:]
        hint = "" if wheels else "A host without a package index needs --wheelhouse DIR"
        problem = " | ".join([*errors, last])
        raise LaunchError(error_line("the environment script failed", problem=problem, fix=hint))
    return last or "environment is up to date"
