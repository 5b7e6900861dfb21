"""Modules and imports follow docs/explanation/architecture.md."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.sources import PACKAGES, dotted, imported, modules, nodes

AT_USE_ONLY = {"mxnet", "matplotlib", "fabric", "pandas", "skimage", "mlflow", "tensorboard"}
_CONSOLE = "im2rec_tools.*"  # terminal, files, errors, progress
_LAUNCH = (
    *(f"bench.{name}" for name in ("auto_batch", "engines", "environment", "errors", "events")),
    *(f"bench.{name}" for name in ("notes", "settings.secrets", "settings.point_names")),
    *("bench.sweep", "bench.trial"),
    *(f"bench.data.{name}" for name in ("page_cache", "partition", "shards")),
    *("results.errors", "results.progress", "results.record", "results.run_folder"),
    *("results.store", "results.worker_log", "results.host_facts"),
    *("im2rec_tools.formats", _CONSOLE),
)
_RESULTS = (
    *(f"bench.{name}" for name in ("errors", "events", "kvstores", "networks")),
    *(f"bench.engines.{name}" for name in ("catalog", "engine", "event_decoder")),
    *(f"bench.{name}" for name in ("notes", "settings", "statistics", "trial")),
    _CONSOLE,
)
_PLOTS = (
    *(f"bench.{name}" for name in ("errors", "events", "kvstores", "networks", "notes")),
    *("bench.engines.catalog", "bench.settings.point_names", "bench.settings.secrets"),
    *("bench.trial", "results", _CONSOLE),
)
# What the modules of a folder, and of those below it that have no line, may import besides each
# other. "a.b": this module or folder with all below it; "a.*": the modules directly in a.
SEAMS = {
    "im2rec_tools.formats": (_CONSOLE,),
    "im2rec_tools.packing": (_CONSOLE, "im2rec_tools.formats"),
    "im2rec_tools": ("im2rec_tools",),
    "bench.statistics": (),
    "bench.networks": ("bench.errors", "bench.training.mxnet_shim"),
    "bench.networks.torch": ("bench.networks.*",),
    "bench": ("bench", "im2rec_tools.formats", "im2rec_tools.packing.manifest", _CONSOLE),
    "results.comparison": ("results.*", *_RESULTS),
    "results.cost": ("results.*", *_RESULTS),
    "results.exports": ("results.*", *_RESULTS),
    # How an imported job was started is read as a worker's options are.
    "results.imports": ("results.*", "bench.logs", "bench.training.options", *_RESULTS),
    "results.prediction": ("results.*", "results.explain.ceilings", *_RESULTS),
    "results.explain": ("results.*", *_RESULTS),
    "results.integrity": ("results.*", "results.cost.prices", *_RESULTS),  # the digest covers them
    # A row has its verdict, as it has its quality.
    "results": ("results.explain.measurements", "results.explain.verdict", *_RESULTS),
    "launch.remote": (),
    "launch.transport": ("launch.remote", "launch.hosts", "bench.errors"),
    "launch.job": ("launch.transport", "launch.remote", "launch.hosts", *_LAUNCH),
    "launch.preflight": (
        *("launch.transport", "launch.remote", "launch.hosts", "launch.install"),
        "bench.training.startup",  # a CPU's instruction set decides before the workers do
        *_LAUNCH,
    ),
    "launch.practice": ("launch.remote", "launch.hosts", *_LAUNCH),
    "launch": (
        *("launch", "bench.data.shard_checks"),
        "bench.training.options",  # auto_batch begins with them
        "bench.training.startup",  # as above
        *("im2rec_tools.packing.manifest", "im2rec_tools.transfer", *_LAUNCH),
    ),
    "plots.figures": ("plots.*", *_PLOTS),
    "plots.tables": ("plots.*", "plots.figures", *_PLOTS),
    "plots.page": ("plots.*", "plots.figures", "plots.tables", *_PLOTS),
    "plots": ("plots", *_PLOTS),
    "tasks": ("tasks", "bench", "im2rec_tools", "launch", "plots", "results"),
}
# Modules of one package that share a name, because they are about the same thing.
SAME = {
    ("bench", "backend"): "what the training loop asks of a framework, and MXNet's answers",
    ("bench", "catalog"): "what there is, by name",
    ("bench", "checkpoint"): "files of weights, for each framework",
    ("bench", "inception_bn"): "the networks, for each framework",
    ("bench", "inception_v3"): "the networks, for each framework",
    ("bench", "inception_v4"): "the networks, for each framework",
    ("bench", "layers"): "what networks consist of, for each framework",
    ("bench", "mobilenet"): "the networks, for each framework",
    ("bench", "options"): "what an engine can be asked for: in a trial, on a worker's command line",
    ("bench", "worker"): "one process of a job, for each framework",
    ("im2rec_tools", "tfrecord"): "the file format, and the commands that convert to and from it",
    ("im2rec_tools", "webdataset"): "the file format, and the commands that convert to and from it",
    ("launch", "stop"): "ending what runs on hosts: the controller's part and the host's",
    ("plots", "panels"): "the panels of the scaling figure: drawn, and as data of the page",
    ("plots", "scaling"): "the scaling of a run: figure and table",
    ("results", "point"): "one point, as exporters and importers see it",
    ("results", "record"): "one repeat, as it is stored and as it is imported",
}
FILES = (3, 14)  # of code in a folder, without __init__.py
UPSTREAM = {"tools/im2rec.py", "tools/launch.py"}  # files of MXNet
MOST_LINES = 600
CODECS = {"cv2", "simplejpeg"}
HOSTS = re.compile(r"https?://|--index-url|--find-links|--extra-index-url")


def is_of(name: str, allowed: str) -> bool:
    """Return whether a module matches "a.b" (it or below) or "a.*" (directly in a)."""
    if allowed.endswith(".*"):
        return name == allowed[:-2] or name.rpartition(".")[0] == allowed[:-2]
    return name == allowed or name.startswith(f"{allowed}.")


def breaks(name: str, imports: set[str], folders: set[str]) -> list[str]:
    """Return the imports of a module that its seam does not allow."""
    folder = name if name in folders else name.rpartition(".")[0]
    seam = next(key for key in sorted(SEAMS, key=len, reverse=True) if is_of(folder, key))
    allowed = (f"{folder}.*", *SEAMS[seam])
    return sorted(one for one in imports if not any(is_of(one, each) for each in allowed))


def test_imports_keep_to_the_seams() -> None:
    known = {dotted(path) for path in modules()}
    folders = {dotted(path) for path in modules() if path.name == "__init__.py"}
    broken = {dotted(p): breaks(dotted(p), imported(p, known), folders) for p in modules()}
    assert {name: found for name, found in broken.items() if found} == {}
    assert breaks("launch.remote.agent", {"launch.remote.lease", "bench.trial"}, set()) == [
        "bench.trial"
    ]
    assert breaks("results.run", {"results.cost.cost", "results.store"}, set()) == [
        "results.cost.cost"
    ]


def test_a_module_name_has_one_meaning_in_its_package() -> None:
    places: dict[tuple[str, str], int] = {}
    for path in modules():
        if path.name != "__init__.py":
            key = (path.relative_to(ROOT).parts[0], path.stem)
            places[key] = places.get(key, 0) + 1
    assert {key for key, count in places.items() if count > 1} == set(SAME)


# Participles, adverbs and prepositions, by the last word of a name.
NO_NOUN = re.compile(
    r".+(ed|ing|ly)|(apart|heard|known|said|seen|told|unlike|when|where|written)|"
    r"(at|by|from|in|inside|of|on|out|outside|to|with|without)"
)
NOUNS = {"ceiling", "profiling", "reading", "scaling", "setting", "speed", "training"}
OF_COMMANDS = {"from_tfrecord", "to_tfrecord"}  # modules of `python -m im2rec_tools NAME`


def names_a_thing(name: str) -> bool:
    """Return whether the last word of a name is a noun: OpenFile, open_file."""
    last = str(re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+", name)[-1]).lower()
    return last in NOUNS or not NO_NOUN.fullmatch(last)


def test_modules_and_classes_are_named_by_nouns() -> None:
    names = {path.stem for path in modules() if path.name[:2] != "__"} - OF_COMMANDS
    for path in modules():
        found = nodes(path.read_text(encoding="utf-8"))
        names |= {node.name for node in found if isinstance(node, ast.ClassDef)}
    assert {name for name in names if not names_a_thing(name)} == set()
    assert not any(map(names_a_thing, ("launch_outside", "_FileRead_heard", "Rederived", "where")))


def test_planning_a_sweep_loads_nothing_heavy() -> None:
    code = (
        "import sys; from bench.sweep import load_sweep; "
        "import launch.job.plan, im2rec_tools.formats.recordio;"
        f"load_sweep('seed'); print(sorted({AT_USE_ONLY | CODECS!r} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


# What `fab --list` loads of this project: declarations, errors and constants.
DECLARING = {
    *("bench.data", "bench.engines", "bench.engines.faults", "bench.errors"),
    *("im2rec_tools.cli", "im2rec_tools.commands", "im2rec_tools.commands.arguments"),
    *("im2rec_tools.declarations", "im2rec_tools.errors", "im2rec_tools.options"),
    *("im2rec_tools.formats", "im2rec_tools.formats.tree", "im2rec_tools.progress"),
    *("im2rec_tools.terminal", "im2rec_tools.transfer", "im2rec_tools.transfer.urls"),
    *("launch.hosts", "launch.remote", "launch.remote.errors"),
    *("results.errors", "results.exports", "results.run_folder"),
}
# Prints what `fab --list` loads besides Fabric, and whether it keeps compiled modules.
LIST = """
import sys, json, fabric.main
before = set(sys.modules)
fabric.main.program.run(["fab", "--list"], exit=False)
print(json.dumps([sorted(set(sys.modules) - before), sys.dont_write_bytecode]))
"""


def test_the_list_of_tasks_loads_declarations_only() -> None:
    """Every command waits for it: the body of a task imports what it needs."""
    variables = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    command = [sys.executable, "-c", LIST]
    done = subprocess.run(
        command, cwd=ROOT, env=variables, capture_output=True, text=True, check=True
    )
    loaded, compiles_again = json.loads(done.stdout.splitlines()[-1])
    tops = {name.partition(".")[0] for name in loaded}
    assert "fabfile" in tops
    assert tops - set(sys.stdlib_module_names) <= {"fabfile", *PACKAGES}
    own = {name for name in loaded if name.partition(".")[0] in set(PACKAGES) - {"tasks"}}
    assert own - set(PACKAGES) <= DECLARING
    assert compiles_again is False


def test_no_module_loads_what_most_reports_do_not_need() -> None:
    """They took half of the time of a small report."""
    late = {"pandas", "scipy", *(f"scipy.{name}" for name in ("optimize", "special", "stats"))}
    assert {dotted(path) for path in modules() if imported(path, late, at_once=True)} == set()


def everything() -> list[Path]:
    rest = [path for folder in ("tests", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    return [ROOT / "fabfile.py", *modules(), *sorted((ROOT / "plots").rglob("*.js")), *rest]


def test_folders_and_files_keep_to_their_limits() -> None:
    """Print the tree (pytest -s): code files per folder, and the largest file."""
    folders: dict[str, int] = {}
    for path in everything():
        name = str(path.parent.relative_to(ROOT))
        if path.name != "__init__.py" and name != "." and not name.startswith("tests"):
            folders[name] = folders.get(name, 0) + 1
    lengths = {str(path): len(path.read_text().splitlines()) for path in everything()}
    largest = max(lengths, key=lambda path: lengths[path])
    for name, count in sorted(folders.items()):
        print(f"{name:28} {count:2} files")
    print(f"{largest}: {lengths[largest]} lines")
    assert {name: count for name, count in lengths.items() if count > MOST_LINES} == {}
    few, most = FILES
    assert {name: count for name, count in folders.items() if not few <= count <= most} == {}


def circles(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    """Return the sets of modules that reach each other."""

    def reached(start: str) -> set[str]:
        found: set[str] = set()
        ahead = [start]
        while ahead:
            new = graph.get(ahead.pop(), set()) - found
            found |= new
            ahead += new
        return found

    below = {name: reached(name) for name in graph}
    return {
        frozenset(other for other in below[name] if name in below.get(other, ()))
        for name in graph
        if name in below[name]
    }


def test_no_modules_import_each_other_in_a_circle() -> None:
    known = {dotted(path) for path in modules()}
    graph = {dotted(path): imported(path, known, at_once=True) for path in modules()}
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == {frozenset("abc")}
    assert circles(graph) == set()


def named_files(text: str) -> set[str]:
    """Return this project's files and modules that a text names."""
    folders = "|".join((*PACKAGES, "benchmarks", "docs", "tests", "tools"))
    paths = re.findall(rf"(?<![\w./-])(?:{folders})/[\w/.-]*\w\.(?:py|js|toml|md|sh)\b", text)
    programs = re.findall(rf'-m"?,? "?(im2rec_tools|(?:{folders})(?:\.\w+)+)\b', text)
    return {*paths, *programs}


def exists(name: str) -> bool:
    """Return whether a file or module exists; tests are named from tests/ on."""
    if name in UPSTREAM:
        return True
    if "/" in name:
        return (ROOT / name).exists() or (ROOT / "tests" / name).exists()
    path = ROOT / name.replace(".", "/")
    return path.with_suffix(".py").exists() or (path / "__main__.py").exists()


def test_texts_name_files_and_programs_that_exist() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("*/*.md")]
    texts = [*pages, ROOT / "Makefile", *everything()]
    texts = [path for path in texts if path.name not in {"CHANGELOG.md", Path(__file__).name}]
    lost = {
        path.name: {name for name in named_files(path.read_text()) if not exists(name)}
        for path in texts
    }
    assert {name: found for name, found in lost.items() if found} == {}
    sample = "see launch/heard.py, `python -m bench.serve` and docs/explanation/architecture.md"
    assert named_files(sample) == {
        "launch/heard.py",
        "bench.serve",
        "docs/explanation/architecture.md",
    }
    assert [
        exists(name)
        for name in ("launch/heard.py", "bench.serve", "docs/explanation/architecture.md")
    ] == [
        False,
        False,
        True,
    ]


def pins(lock: str) -> list[str]:
    return re.findall(r"^([a-z0-9-]+)==", (ROOT / lock).read_text(), re.MULTILINE)


LOCKS = {
    "requirements.lock": 30,
    "requirements-exports.lock": 30,
    "requirements-docs.lock": 10,
    "requirements-remote.lock": 10,
    "requirements-slow.lock": 10,
    "requirements-torch.lock": 4,
    "requirements-torch-cuda.lock": 15,
    "requirements-spark.lock": 1,
}


@pytest.mark.parametrize("lock", LOCKS)
def test_the_lock_pins_with_hashes_and_names_no_host(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert len(pins(lock)) > LOCKS[lock]
    assert not HOSTS.search(text)
    for block in re.split(r"^(?=[a-z0-9-]+==)", text, flags=re.MULTILINE)[1:]:
        assert "--hash=sha256:" in block


@pytest.mark.parametrize("lock", sorted(LOCKS.keys() - {"requirements.lock"}))
def test_what_extras_need_changes_nothing_of_what_the_harness_runs_with(lock: str) -> None:
    text = (ROOT / "requirements.lock").read_text()
    elsewhere = set(re.findall(r"^([a-z0-9-]+)==\S+ ; sys_platform == 'win32'", text, re.MULTILINE))
    assert set(pins(lock)) & (set(pins("requirements.lock")) - elsewhere) == set()


def setup(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run tools/environment.sh in a copy, with only these interpreters."""
    (folder / "tools").mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "tools" / "environment.sh", folder / "tools")
    shutil.copy(ROOT / "requirements.lock", folder)
    return subprocess.run(
        [folder / "tools" / "environment.sh"],
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def stand_in(path: Path, body: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_an_unusable_python_gets_one_clear_line(tmp_path: Path) -> None:
    broken = stand_in(
        tmp_path / "bin" / "python3.12", "echo 'shim: command not found' >&2; exit 127"
    )
    done = setup(tmp_path / "a", PYTHON=broken)
    assert done.returncode == 2
    assert done.stderr == (
        f"PYTHON={broken}: expected a Python interpreter that runs, got 'shim: command not found'. "
        "Choose another, as in 'PYTHON=python3.12 make demo'\n"
    )
    missing = setup(tmp_path / "b", PYTHON="python3.99")
    assert missing.returncode == 2
    assert missing.stderr.startswith("PYTHON=python3.99: expected a Python interpreter, ")
    assert len(missing.stderr.splitlines()) == 1


def test_an_unsupported_python_gets_one_clear_line(tmp_path: Path) -> None:
    old = stand_in(
        tmp_path / "bin" / "python3.9",
        f"""exec {sys.executable} -c 'import sys; sys.version_info = (3, 9, 1)
exec(sys.argv[2])' "$@" """,
    )
    done = setup(tmp_path / "a", PYTHON=old)
    assert done.returncode == 2
    assert ": expected Python 3.11, 3.12 or 3.13, got 3.9. Choose another" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_every_python_that_does_not_run_is_skipped_with_its_reason(tmp_path: Path) -> None:
    shims = tmp_path / "bin"
    broken = stand_in(shims / "python3.12", "echo 'shim: command not found' >&2; exit 127")
    for name in ("dirname", "sed", "sh"):  # and no Python
        (shims / name).symlink_to(str(shutil.which(name)))
    done = subprocess.run(
        [ROOT / "tools" / "test-pythons.sh"],
        env={"PATH": str(shims), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert (
        done.stdout.split()
        == (
            f"Python 3.11: skipped, none that runs\n"
            f"{broken}: skipped, does not run: shim: command not found\n"
            f"Python 3.12: skipped, none that runs\n"
            f"Python 3.13: skipped, none that runs\n"
        ).split()
    )
    assert "Name one: PYTHONS=" in done.stderr
