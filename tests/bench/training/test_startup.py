"""The CPU instructions that a worker uses."""

import pytest

from bench.errors import SpecError
from bench.training import startup

OLD = frozenset({"sse4_1", "avx", "avx2"})
AVX512 = OLD | {"avx512f", "avx512bw", "avx512vl", "avx512dq"}
BF16 = AVX512 | {"avx512_vnni", "avx512_bf16"}
AMX = BF16 | {"amx_tile", "amx_int8", "amx_bf16"}


@pytest.mark.parametrize(
    ("has", "dtype", "tiles", "said"),
    [
        (OLD, "float32", True, "avx2"),
        (AMX, "float32", True, "avx512_core"),
        (AVX512, "bfloat16", True, "avx512_core"),
        (BF16, "bfloat16", True, "avx512_core_bf16"),
        (AMX, "bfloat16", True, "avx512_core_amx"),
        (AMX, "bfloat16", False, "avx512_core_bf16"),
        (frozenset(), "float32", True, ""),
    ],
)
def test_a_worker_uses_the_newest_instructions_it_may(
    monkeypatch: pytest.MonkeyPatch, has: frozenset[str], dtype: str, tiles: bool, said: str
) -> None:
    monkeypatch.setenv(startup.INSTRUCTION_SET_VARIABLE, "ALL")
    monkeypatch.setattr(startup, "cpu_flags", lambda: has)
    monkeypatch.setattr(startup, "ask_for_tiles", lambda: tiles)
    assert startup.prepare_arithmetic(dtype) == said


def test_no_newer_instructions_are_used_than_the_environment_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(startup, "cpu_flags", lambda: AMX)
    monkeypatch.setenv(startup.INSTRUCTION_SET_VARIABLE, "avx512_core")
    assert startup.prepare_arithmetic("bfloat16") == "avx512_core"
    monkeypatch.setenv(startup.INSTRUCTION_SET_VARIABLE, "AVX2")
    assert startup.prepare_arithmetic("float32") == "avx2"
    with pytest.raises(SpecError, match="expected a CPU with AVX-512 for bfloat16, got AVX2"):
        startup.prepare_arithmetic("bfloat16")


def test_this_processor_is_known() -> None:
    assert startup.newest_instruction_set(startup.cpu_flags()) in {"", *startup.INSTRUCTION_SETS}
