"""bench.ab finds real differences, rarely others, and has a known power."""

import csv
import math
import random
import re
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from invoke.context import Context

import fabfile as _fabfile
from bench.engines.fake_process import Noise, factors
from bench.errors import SpecError
from bench.trial import changed
from results.comparison import ab
from results.comparison.ab import (
    Effect,
    block_log_ratios,
    blocks_needed,
    checkpoints,
    detectable_difference,
    effect,
    effect_sentence,
    is_hopeless,
    noise,
    run_name,
    run_order,
)
from tests.support.paths import ROOT
from tests.support.programs.commands import fab, refusal, sweep_file
from tests.support.programs.jobs import trial

fabfile: Any = _fabfile
BLOCKS = 8
# As processes on a quiet machine were seen to scatter, at their worst.
QUIET = Noise(within=0.01, correlation=0.3, between=0.015)
SWEEP = """
engine = "fake"
network = "tiny"
batch_per_device = 4
fake_noise = 0.01
fake_correlation = 0.3
fake_spread = 0.01
[[points]]
devices = 1
fake_seconds = [0.5]
[[points]]
devices = 2
"""


def rate(seed: str, faster: float = 0.0) -> float:
    """Return the throughput of ten simulated windows after one of warm-up."""
    return (1 + faster) / fmean(factors(QUIET, seed, 11)[1:])


def simulated(seed: int, faster: float, blocks: int = BLOCKS) -> list[float]:
    sides = "ABBA" * blocks
    return [rate(f"{seed} {n}", faster * (side == "B")) for n, side in enumerate(sides)]


def test_one_in_twenty_of_two_thousand_comparisons_of_alikes_sees_a_difference() -> None:
    seen = sum(effect(simulated(seed, 0.0)).significant for seed in range(2000))
    assert 0.035 < seen / 2000 < 0.065


def test_five_percent_are_found_in_nine_of_ten() -> None:
    found = [effect(simulated(seed, 0.05)) for seed in range(300)]
    assert sum(one.low > 0 for one in found) >= 270
    assert fmean(one.log_ratio for one in found) == pytest.approx(math.log(1.05), abs=0.001)


def test_the_smallest_difference_is_found_in_nine_of_ten() -> None:
    spread = math.sqrt(
        fmean(d * d for n in range(400) for d in block_log_ratios(simulated(n, 0.0)))
    )
    least = detectable_difference(spread, BLOCKS)
    assert 0.015 < least < 0.03
    found = sum(effect(simulated(5000 + n, least)).low > 0 for n in range(1000)) / 1000
    assert found == pytest.approx(0.9, abs=0.04)


def test_swapped_settings_give_the_mirror_image() -> None:
    rates = simulated(1, 0.03)
    swapped = [rates[n + other] for n in range(0, len(rates), 4) for other in (1, 0, 3, 2)]
    one, other = effect(rates), effect(swapped)
    assert (other.log_ratio, other.low, other.high) == (-one.log_ratio, -one.high, -one.low)
    assert (other.noise, other.significant) == (one.noise, True)


def test_a_drift_slows_both_alike() -> None:
    drifting = [10 * 0.98**n for n in range(16)]
    assert effect(drifting).log_ratio == pytest.approx(0.0, abs=1e-12)


def test_the_first_block_alone_says_how_runs_scatter() -> None:
    many = [noise(simulated(seed, 0.05, blocks=1)) ** 2 for seed in range(1000)]
    assert math.sqrt(fmean(many)) == pytest.approx(0.0156, rel=0.07)


def of(log_ratio: float, half: float) -> str:
    low, high = log_ratio - half, log_ratio + half
    return effect_sentence(Effect(log_ratio=log_ratio, low=low, high=high, noise=0.01, blocks=8))


def test_the_sentence_says_faster_slower_or_what_would_have_been_found() -> None:
    assert of(math.log(1.048), 0.0165) == "B is 4.8 % faster than A (95 % CI 3.1 to 6.5 %)"
    assert of(-math.log(1.048), 0.0165) == "B is 4.6 % slower than A (95 % CI 3.0 to 6.1 %)"
    assert of(0.001, 0.002) == (
        "no significant difference (B vs A: 95 % CI -0.1 to 0.3 %); "
        "minimum detectable effect 1.4 % at 90 % power"
    )


def noisy(seed: int, spread: float, blocks: int, ratio: float = 1.0) -> list[float]:
    """Return throughputs of runs whose logarithms vary by `spread`."""
    draw = random.Random(seed)
    return [math.exp(draw.gauss(0, spread)) * ratio ** (s == "B") for s in "ABBA" * blocks]


def test_a_measurement_stops_only_if_it_certainly_misses_a_factor_of_10() -> None:
    def stopped(spread: float, ratio: float = 1.0) -> float:
        # A measurement of 8 blocks stops after 2 or 4.
        found = [[is_hopeless(noisy(n, spread, k, ratio), 8) for k in (2, 4)] for n in range(200)]
        return fmean(any(one) for one in found)

    assert stopped(0.015) == stopped(0.5) == 0.0
    assert stopped(1.0) < 0.02
    assert stopped(10.0) > 0.9
    assert not is_hopeless([1.0, 1e9, 1.1e9, 1.2, 1.1, 1e9, 1.2e9, 1.0], 8)
    assert not is_hopeless(noisy(1, 10.0, 1), 8)


def test_a_noisy_machine_has_a_sentence_without_absurd_percents() -> None:
    said = effect_sentence(Effect(log_ratio=0.0, low=-9, high=9, noise=2.5, blocks=8))
    assert said == (
        "this machine is too noisy: 8 blocks would not show a factor of 10 (run-to-run standard "
        "deviation 250.0 %). Use an idle machine and a new --run NAME"
    )
    said = effect_sentence(Effect(log_ratio=0.0, low=-9, high=9, noise=0.2, blocks=2))
    assert said.endswith("--run NAME, or --blocks 49")
    assert (blocks_needed(0.2), blocks_needed(2.5)) == (49, None)


@pytest.mark.parametrize(
    ("blocks", "found"), [(2, [1, 2]), (4, [1, 2, 4]), (8, [1, 2, 4, 8]), (9, [1, 2, 4, 8, 9])]
)
def test_the_noise_is_estimated_again_after_twice_the_blocks(blocks: int, found: list[int]) -> None:
    assert checkpoints(blocks) == found


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        (
            {"env": ["OMP_NUM_THREADS=1"]},
            {"env": ["OMP_NUM_THREADS=2"]},
            "ab-mine-alexnet-x2-OMP_NUM_THREADS-1-vs-2-KEY-20261123",
        ),
        ({}, {"env": ["X=1"]}, "ab-mine-alexnet-x2-X-default-vs-1-KEY-20261123"),
        ({}, {"lr": 0.5, "seed": 7}, "ab-mine-alexnet-x2-lr-and-seed-KEY-20261123"),
        ({}, {}, "ab-mine-alexnet-x2-A-vs-A-KEY-20261123"),
        ({}, {"python": "/a b/python"}, "ab-mine-alexnet-x2-python-vs-a-b-python-KEY-20261123"),
    ],
)
def test_a_run_is_named_by_point_settings_and_date(
    before: dict[str, Any], after: dict[str, Any], name: str
) -> None:
    known: dict[str, Any] = {"network": "alexnet", "devices": 2}
    a, b = trial(**known | before), trial(**known | after)
    found = run_name("mine", a, b, "20261123")
    assert re.sub(r"-[0-9a-f]{4}-", "-KEY-", found) == name
    longer = run_name("mine", a.replace(windows=99), b.replace(windows=99), "20261123")
    assert found != longer


def test_runs_stand_in_blocks_and_each_is_a_repeat_of_its_own() -> None:
    a, b = trial(), trial(lr=0.5)
    assert run_order(a, b, 1) == [(a, 0), (b, 0), (b, 1), (a, 1)]
    assert [repeat for _, repeat in run_order(a, a, 2)] == list(range(8))


def test_settings_change_fields_and_what_follows_from_them() -> None:
    base = trial(kvstore="local", env=["X=1", "Y=2"])
    assert changed(base, "") == base
    assert base.layout.devices_per_worker == 2
    other = changed(base, "kvstore=dist_sync, env.X=a b image_shape=3,32,32,lr=0.5 windows=7")
    assert (other.layout.kvstore, other.layout.devices_per_worker, other.workers) == (
        "dist_sync",
        1,
        2,
    )
    assert (other.layout.env, other.model.image_shape) == (("Y=2", "X=a b"), (3, 32, 32))
    assert (other.training.lr, other.measuring.windows) == (0.5, 7)
    deep = changed(base, "network=resnet-50")
    assert (deep.model.network, deep.model.num_layers, deep.model.image_shape) == (
        "resnet",
        50,
        (3, 224, 224),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kvstroe=device", "unknown setting 'kvstroe'; did you mean 'kvstore'?"),
        ("device", "expected FIELD=VALUE or env.NAME=VALUE, got 'device'"),
        ("windows=few", "windows: expected a whole number, got 'few'"),
        ("windows=1.5", "windows: expected a whole number, got 1.5"),
        ("env.DMLC_ROLE=x", "the launcher sets DMLC_ROLE"),
        ("env=X=1", "unknown setting 'env'"),
        ("OMP_X=1", "unknown setting 'OMP_X'; did you mean 'env.OMP_X'?"),
    ],
)
def test_a_setting_that_cannot_be_is_one_line(text: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        changed(trial(), text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "--sweep: expected the name of a sweep"),
        ({"sweep": "smoke"}, "--point: expected words of one point's name, got '', which fits "),
        ({"sweep": "smoke", "point": "x9"}, "words of a point's name, got 'x9'"),
        (
            {"sweep": "smoke", "point": "local", "blocks": "1"},
            "--blocks: expected a whole number, 2",
        ),
    ],
)
def test_a_mistake_is_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, str], said: str
) -> None:
    monkeypatch.chdir(ROOT)
    code, line = refusal(fabfile.ab.bench_ab, "", "lr=0.5", **options)
    assert code == 2
    assert said in line


@pytest.mark.program
def test_a_rehearsed_difference_is_told_and_an_interrupted_comparison_goes_on(
    tmp_path: Path,
) -> None:
    words = ["--sweep", sweep_file(tmp_path, SWEEP), "--point", "x1", "--run", f"{tmp_path}/r"]
    less = fab("bench.ab", *words, "", "fake_seconds=0.45", "--blocks", "2")
    assert less.returncode == 0, less.stderr
    first, second, third, *_ = less.stdout.splitlines()
    assert first == "A: tiny local x1; B: fake_seconds=0.45"
    assert second.startswith("2 blocks of A B B A: minimum detectable effect ")
    assert second.endswith("standard deviation of 1.5 % (assumed: no runs yet)")
    assert third.endswith(" % (measured in 1 block only, so uncertain)")
    more = fab("bench.ab", *words, "", "fake_seconds=0.45", "--blocks", "4")
    assert more.returncode == 0, more.stderr
    assert more.stderr.count("images/s") == 8
    for named in (
        "block 3 of 4, A: started, 1 worker on 1 host (9 of 16, about",
        "block 4 of 4, B: ",
    ):
        assert named in more.stderr
    lines = more.stdout.splitlines()
    assert "(measured in 2 blocks)" in lines[1]
    assert any(line.startswith("B is 1") and " % faster than A (95 % CI " in line for line in lines)
    assert re.search(r"mean throughput: A \S+ images/s \(n = 8\), B \S+ images/s \(n", more.stdout)
    assert "SIMULATED" in more.stdout
    text = (tmp_path / "r" / "report" / "ab.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    assert "".join(row["setting"] for row in rows) == "ABBA" * 4
    page = (tmp_path / "r" / "report" / "ab.md").read_text()
    assert " % faster than A" in page
    assert "| 4 | " in page


def test_a_hopeless_measurement_stops_and_the_load_is_checked_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(ab, "is_hopeless", lambda rates, blocks: len(rates) == 8)
    monkeypatch.setattr(
        fabfile.ab, "report_load", lambda what, where, wait_seconds: ["others use 1.7 of 2 cores"]
    )
    monkeypatch.setattr("launch.job.plan.resource_warnings", lambda trials, hosts: ["warning: x"])
    text = SWEEP.replace("[0.5]", "[0.01]")
    options = {"sweep": sweep_file(tmp_path, text), "point": "x1", "windows": "2", "blocks": "3"}
    fabfile.ab.bench_ab.body(Context(), "", "lr=0.5", run=f"{tmp_path}/r", **options)
    said = capsys.readouterr().out.splitlines()
    doubt = "doubtful: others use 1.7 of 2 cores before the first run. Measure again on"
    assert any(line.startswith(doubt) for line in said)
    page = (tmp_path / "r" / "report" / "ab.md").read_text()
    assert f"- {doubt}" in page
    assert "- warning: x\n" in page
    assert "stopped after 2 of 3 blocks" in said
    rows = (tmp_path / "r" / "report" / "ab.csv").read_text().splitlines()
    assert len(rows) == 1 + 8


@pytest.mark.program
def test_a_setting_that_fails_gives_no_number_and_ends_after_the_first_block(
    tmp_path: Path,
) -> None:
    words = ["--sweep", sweep_file(tmp_path, SWEEP), "--point", "x1", "--run", f"{tmp_path}/r"]
    done = fab("bench.ab", *words, "", "fake_faults=worker:raise@1")
    assert done.returncode == 5
    assert "tiny local x1, repeat 1: failed: " in done.stderr
    assert "  worker-0" in done.stderr
    assert "Read its log: fab hosts.logs" in done.stderr
    assert done.stderr.endswith("2 of 4 runs have no result\n")
    assert "faster" not in done.stdout
