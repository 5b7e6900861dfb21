"""Hash over the code that affects results, and the modules of a program."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tokenize
from io import BytesIO
from pathlib import Path

import pytest

from launch.remote.code_hash import PROGRAMS, closure, code_hash
from tests.support.paths import ROOT
from tests.support.programs.pythons import pythons
from tests.support.sources import imports

pytestmark = pytest.mark.pythons

REMOTE = sorted((ROOT / "launch" / "remote").glob("*.py"))
MODULES = closure(ROOT, PROGRAMS)
HASH = code_hash(ROOT)
PATHS = {module.path for module in MODULES.values()}
OLDEST = (3, 8)  # of the Pythons of hosts
PRINTED = "import runpy, sys; print(runpy.run_path(sys.argv[1])['code_hash'](sys.argv[2]))"


def changed(folder: Path, path: str, pattern: str, new: str) -> str:
    """Return the hash of the code with another text in a file."""
    for name in {*PATHS, path, "requirements.lock"}:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    text, count = re.subn(pattern, new, (folder / path).read_text(), count=1)
    assert count == 1, f"{path} has no {pattern}"
    (folder / path).write_text(text)
    return code_hash(folder)


def test_the_hash_covers_the_worker_the_engines_and_the_agent() -> None:
    assert set(PROGRAMS) <= set(MODULES)
    assert {
        "bench/__init__.py",
        "bench/data/transforms.py",
        "bench/data/augmentation.py",
        "bench/networks/resnet.py",
        "bench/statistics/steady_state.py",
        "bench/statistics/stopping_rule.py",
        "bench/training/loop.py",
        "im2rec_tools/formats/recordio.py",
        "launch/remote/processes.py",
        "launch/remote/telemetry.py",
    } < PATHS
    of_the_launcher = (
        "launch/job/",
        "launch/transport/",
        "launch/preflight/",
        "results/",
        "plots/",
    )
    assert [path for path in PATHS if path.startswith(of_the_launcher)] == []


def test_every_python_finds_the_same_hash() -> None:
    source = ROOT / "launch" / "remote" / "code_hash.py"
    for python in pythons(OLDEST[1]):
        command = [python, "-I", "-S", "-B", "-c", PRINTED, str(source), str(ROOT)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == (f"{HASH}\n", ""), python


@pytest.mark.parametrize("path", sorted(PATHS | {str(p.relative_to(ROOT)) for p in REMOTE}))
def test_what_hosts_read_is_of_the_grammar_of_their_oldest_python(path: str) -> None:
    ast.parse((ROOT / path).read_text(), feature_version=OLDEST)


@pytest.mark.parametrize("path", REMOTE, ids=lambda path: path.stem)
def test_what_is_sent_to_hosts_needs_the_standard_library_only(path: Path) -> None:
    names = {name for name in imports(path.read_text()) if not name.startswith("launch.remote")}
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


def test_a_program_is_sent_with_all_that_it_imports_in_this_order() -> None:
    stop = closure(ROOT, ("launch.remote.stop",))
    names = ("launch", "launch.remote", *(f"launch.remote.{name}" for name in STOP))
    assert tuple(stop) == names


STOP = ("errors", "commands", "limits", "lease", "processes", "stop")
TEXTS = {
    "a docstring of a module": ("bench/events.py", r'\A"""', '"""Another first sentence. '),
    "a docstring of a function": ("bench/events.py", r'(def say\(.*\n    """)', r"\1Really. "),
    "a comment": ("bench/networks/alexnet.py", r"\Z", "# another comment\n"),
    "a comment at the end of a line": (
        "bench/statistics/stopping_rule.py",
        r"(?<=[a-z\d])\n",
        "  # 1\n",
    ),
    "an empty line": ("im2rec_tools/formats/recordio.py", r"\n\ndef ", "\n\n\ndef "),
    "a table column": ("plots/tables/scaling.py", r"\Z", "COLUMN = 1\n"),
    "the sentence of a note": ("bench/notes.toml", "to and from swap", "into and out of swap"),
    "a module of the launcher": ("launch/job/monitor.py", r"\Z", "LIMIT = 1\n"),
    "a module that is sent for other programs": ("launch/remote/receiver.py", r"\Z", "SIZE = 1\n"),
}
CODE = {
    "a stopping rule": ("bench/statistics/stopping_rule.py", r"\Z", "LIMIT = 1\n"),
    "the RecordIO reader": ("im2rec_tools/formats/recordio.py", r"\Z", "SIZE = 1\n"),
    "a kind of note": ("bench/notes.py", '"swapped"', '"paged"'),
    "the agent": ("launch/remote/agent.py", r"\Z", "SIZE = 1\n"),
    "a network": ("bench/networks/resnet.py", r"\Z", "SIZE = 1\n"),
    "a package": ("bench/training/__init__.py", r"\Z", "SIZE = 1\n"),
    "the lock": ("requirements.lock", r"\Z", "# another\n"),
}


@pytest.mark.parametrize("what", TEXTS)
def test_what_decides_no_number_keeps_the_hash(tmp_path: Path, what: str) -> None:
    assert changed(tmp_path, *TEXTS[what]) == HASH


@pytest.mark.parametrize("what", CODE)
def test_what_decides_a_number_changes_the_hash(tmp_path: Path, what: str) -> None:
    assert changed(tmp_path, *CODE[what]) != HASH


def test_imports_for_type_checkers_do_not_count_and_imports_in_functions_do(tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    for name in ("__init__", "types", "inner", "built", "other"):
        (tmp_path / "bench" / f"{name}.py").touch()
    (tmp_path / "bench" / "train_imagenet.py").write_text(
        "if TYPE_CHECKING:\n    from bench.types import A\n"
        "def main():\n    try:\n        import bench.inner\n    finally:\n        pass\n"
        'BUILDER = "bench.built:network"  # bench.other\n'
    )
    found = closure(tmp_path, ("bench.train_imagenet",))
    assert set(found) == {"bench", "bench.inner", "bench.built", "bench.train_imagenet"}


def tokens(text: bytes) -> list[str]:
    """Return the tokens of a text without comments and docstrings."""
    left_out = {tokenize.ENCODING, tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT}
    found = [t for t in tokenize.tokenize(BytesIO(text).readline) if t.type not in left_out]
    ends = [True, *(token.type == tokenize.NEWLINE for token in found)]
    return [
        token.string
        for token, first, last in zip(found, ends, ends[2:], strict=False)
        if not (
            token.type == tokenize.NEWLINE or (token.type == tokenize.STRING and first and last)
        )
    ]


def test_all_code_and_no_docstring_is_hashed() -> None:
    for name, module in MODULES.items():
        assert tokens(module.code + b"\n") == tokens(module.text), name


def test_every_module_that_the_programs_load_is_hashed() -> None:
    asked = f"import sys, {', '.join(PROGRAMS)}; print(*sys.modules)"
    command = [sys.executable, "-c", asked]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    ours = re.compile(r"(bench|launch|im2rec_tools|results|plots|tasks)\b")
    assert {name for name in done.stdout.split() if ours.match(name)} <= set(MODULES)


def test_a_string_in_brackets_or_after_a_backslash_is_code(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        'A = {\n    1:\n    """b"""  # c\n\n}\nD = \\\n"""e"""\n"""f"""\n'
    )
    code = closure(tmp_path, ("a",))["a"].code.decode()
    assert code == 'A = {\n    1:\n    """b"""\n}\nD = \\\n"""e"""'


def test_strings_keep_what_looks_like_comments_and_empty_lines(tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "__init__.py").touch()
    path = tmp_path / "bench" / "train_imagenet.py"
    path.write_text(
        '#!/usr/bin/env python3\n"""Docs."""\n\nA = """\n# no comment\n\n"""  # é\n\n\n'
        'class B:  # a class\n    """\u00e9 \u4e2d\n    text\n    """\n\n    c = \'#\\\'#\' # d\n'
        'def f(): "one line"\n'
    )
    code = closure(tmp_path, ("bench.train_imagenet",))["bench.train_imagenet"].code.decode()
    assert code == 'A = """\n# no comment\n\n"""\nclass B:\n    c = \'#\\\'#\'\ndef f(): "one line"'


def test_a_pipe_in_a_checkout_is_an_error_and_no_wait(tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "__init__.py").touch()
    os.mkfifo(tmp_path / "bench" / "train_imagenet.py")
    with pytest.raises(OSError, match="not a regular file") as caught:
        code_hash(tmp_path)
    assert caught.value.filename == str(tmp_path / "bench" / "train_imagenet.py")
