"""Values of secret variables, or of those passed by name, are written nowhere."""

import dataclasses
import json
import tomllib
from pathlib import Path

import pytest

from bench import environment
from bench.errors import SpecError
from bench.settings import secrets
from bench.settings.secrets import MASK, is_secret, masked_text, masked_toml, masked_word
from bench.sweep import load_sweep
from bench.trial import Trial, changed, make, shown
from launch.hosts import this_machine
from launch.job.plan import command_line, plan
from plots.page.commands import rerun_command, rerun_title
from results import record as records
from results.run import read_environment
from tests.support.runs.records import record
from tests.support.runs.scenes import point, run

S = "s3cret"
SWEEP = """
network = "tiny"
batch_per_device = 2
env = ["API_KEY=s3cret-file", "MXNET_KVSTORE_BIGARRAY_BOUND=7"]
[[points]]
"""


def trial(*env: str) -> Trial:
    return make({"network": "tiny", "batch_per_device": 2, "env": list(env)})


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("HF_TOKEN", True),
        ("aws_secret_access", True),
        ("DbPassword", True),
        ("API_KEY", True),
        ("GOOGLE_CREDENTIALS", True),
        ("MXNET_KVSTORE_BIGARRAY_BOUND", False),
        ("OMP_NUM_THREADS", False),
        ("NCCL_SOCKET_IFNAME", False),
    ],
)
def test_a_name_decides_whether_a_value_is_secret(name: str, secret: bool) -> None:
    assert is_secret(name) is secret


def test_a_trial_holds_a_secret_beside_its_text() -> None:
    one = trial(f"API_KEY={S}", "B=2")
    assert one.layout.env == ("API_KEY=***", "B=2")
    for text in (repr(one), json.dumps(dataclasses.asdict(one)), *map(str, one.layout.env)):
        assert S not in text
    copied = one.replace(seed=1)
    assert secrets.revealed(secrets.variables(copied.layout.env))["API_KEY"] == S


def test_points_that_differ_in_a_secret_only_are_one_point() -> None:
    assert trial("API_KEY=a") == trial("API_KEY=b")
    assert trial("API_KEY=a").key == trial("API_KEY=b").key
    assert trial("A=a").key != trial("A=b").key


def test_a_secret_that_is_passed_by_name_is_the_same_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", S)
    assert trial("API_KEY").key == trial("API_KEY=other").key


def test_a_process_gets_the_value_and_its_command_shows_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PASSED", "here and not written")
    (process,) = plan(trial(f"API_KEY={S}", "PASSED", "LINES=a\nb"), [this_machine()], 0)
    given = secrets.revealed(process.env)
    assert (given["API_KEY"], given["PASSED"]) == (S, "here and not written")
    line = command_line(process)
    assert "API_KEY=*** " in line
    assert 'PASSED="$PASSED" ' in line
    assert "LINES=$'a\\x0ab' " in line
    assert S not in line
    assert "not written" not in line


def test_a_process_does_not_report_what_it_was_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MXNET_API_TOKEN", "MXNET_PASSED", "MXNET_PLAIN"):
        monkeypatch.setenv(name, S)
    (process,) = plan(trial("MXNET_PASSED"), [this_machine()], 0)
    monkeypatch.setenv(secrets.NAMES, secrets.revealed(process.env)[secrets.NAMES])
    found = environment.computing()
    assert (found["MXNET_API_TOKEN"], found["MXNET_PASSED"]) == ("***", "***")
    assert found["MXNET_PLAIN"] == S


def test_variables_that_reach_no_process_are_not_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DMLC_S3_ENDPOINT", S)
    monkeypatch.setenv("PS_PLAIN", S)
    assert S not in json.dumps(environment.describe(Path.cwd()))


def test_a_value_that_is_not_kept_has_to_be_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PASSED", raising=False)
    for text in ("API_KEY=***", "PASSED"):
        with pytest.raises(SpecError, match="expected a value, got none") as error:
            secrets.check(trial(text).layout.env)
        assert f"-x {text.partition('=')[0]}" in str(error.value)
    secrets.check(trial(f"API_KEY={S}", "A=***").layout.env)


@pytest.mark.parametrize("text", [f"9API_KEY={S}", f"API_KEY:{S}", f"API KEY={S}", f"{S}-x"])
def test_a_setting_that_cannot_be_is_refused_without_its_secret(text: str) -> None:
    with pytest.raises(SpecError, match="expected NAME=VALUE or NAME") as error:
        trial(text)
    assert S not in str(error.value)


def test_the_settings_of_a_command_line_add_to_those_of_a_sweep(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(SWEEP)
    (one,) = load_sweep(str(path), fields={"env": ["B=2"]}).trials
    assert one.layout.env == ("API_KEY=***", "MXNET_KVSTORE_BIGARRAY_BOUND=7", "B=2")
    (one,) = load_sweep(str(path), fields={"env": ["MXNET_KVSTORE_BIGARRAY_BOUND=8"]}).trials
    assert one.layout.env == ("API_KEY=***", "MXNET_KVSTORE_BIGARRAY_BOUND=8")
    (one,) = load_sweep(str(path), fields={"env": [f"API_KEY={S}"]}).trials
    assert secrets.revealed(secrets.variables(one.layout.env))["API_KEY"] == S


def test_the_text_of_a_sweep_is_kept_without_secrets_however_they_are_written(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s.toml"
    path.write_text(SWEEP)
    assert load_sweep(str(path)).text == SWEEP.replace("s3cret-file", "***")
    text = (
        f"# API_KEY={S}\nenv = [\"A_TOKEN={S}\", 'B_KEY={S}', \"\\u004bEY={S}\", 'C=1',\n"
        f'"""PASS=a\n{S}""", \'\'\'MY_PASS={S}\'\'\', """D="e\\"""""]\nlast = "kept # \\" text"\n'
    )
    tomllib.loads(text)
    kept = masked_toml(text)
    assert S not in kept
    assert tomllib.loads(kept)["last"] == 'kept # " text'
    assert tomllib.loads(kept)["env"] == [
        *("A_TOKEN=***", "B_KEY=***", "KEY=***", "C=1", "PASS=***", "MY_PASS=***", 'D="e""')
    ]


@pytest.mark.parametrize(
    "comment",
    [
        "api_key=s3cret",
        'export db_password = "s3cret s3cret"',
        "HF_TOKEN: s3cret",
        "env = [\"A=1\", 'x_secret=s3cret']",
        "'my-token': 's3cret'",
    ],
)
def test_a_comment_of_a_sweep_is_kept_without_secrets_of_any_letters(comment: str) -> None:
    kept = masked_toml(f"# 2 keys of it\nnetwork = 'tiny'  # {comment}\n")
    assert S not in kept
    assert kept.startswith("# 2 keys of it\nnetwork = 'tiny'  # ")
    assert MASK in kept


def test_words_and_sentences_lose_secrets_and_nothing_else() -> None:
    assert masked_word(f"--my-token={S}") == "--my-token=***"
    assert masked_word(f"env.API_KEY={S}") == "env.API_KEY=***"
    assert masked_word("data/keys/a=b") == "data/keys/a=b"
    assert masked_word("--batch-size=2") == "--batch-size=2"
    assert masked_text(f"at https://me:{S}@index/simple:") == "at https://***@index/simple:"
    text = f"died: MY_TOKEN={S} 'A_KEY=x {S}' B_SECRET='q {S}' tokens=5, --kv-store=local"
    assert S not in masked_text(text)
    assert masked_text(text).endswith(" tokens=5, --kv-store=local")


def test_settings_of_an_ab_comparison_keep_secrets_beside_them() -> None:
    typed = f"env.A=2,env.API_KEY={S}"
    assert shown(typed) == "env.A=2 env.API_KEY=***"
    one = changed(trial("A=1"), typed)
    assert set(one.layout.env) == {"A=2", "API_KEY=***"}
    assert secrets.revealed(secrets.variables(one.layout.env))["API_KEY"] == S


def test_a_record_of_before_is_read_without_its_secrets_and_keeps_its_key() -> None:
    made = record([[1.0, 1.0, 1.0]], env=["A=1"])
    line = records.emit(made).replace('"A=1"', f'"API_KEY={S}"')
    found = records.parse(line)
    assert found is not None
    assert found.trial.layout.env == ("API_KEY=***",)
    raw = made.trial.replace(env=(f"API_KEY={S}",))
    assert found.trial.key == raw.key


def test_the_environment_of_a_run_of_before_is_read_without_its_secrets(tmp_path: Path) -> None:
    variables = {"MXNET_S3_TOKEN": S, "OMP_NUM_THREADS": "1"}
    command = ["fab", "bench.sweep", "x", "-x", f"API_KEY={S}"]
    told = {"variables": variables, "command": command, "hosts": {"a": {"variables": variables}}}
    (tmp_path / "environment.json").write_text(json.dumps(told))
    found = read_environment(tmp_path)
    assert S not in json.dumps(found)
    assert found["variables"]["OMP_NUM_THREADS"] == "1"


def test_variables_of_a_host_that_are_none_are_nothing() -> None:
    for said in (None, ["x"], "x", 1):
        assert secrets.masked(said) == {}


@pytest.mark.parametrize(
    "text", [f'"api_key={S}"', f'[["api_key={S}"], 1]', f'{{ a = "key={S}" }}']
)
def test_an_environment_that_cannot_be_is_refused_without_its_secrets(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "s.toml"
    path.write_text(f'network = "tiny"\nbatch_per_device = 2\nenv = {text}\n[[points]]\n')
    with pytest.raises(SpecError) as error:
        load_sweep(str(path))
    assert S not in str(error.value)


def test_the_command_that_runs_a_point_again_names_its_secrets() -> None:
    told = {"command": ["fab", "bench.sweep", "x.toml", "-x", f"API_KEY={S}", "-x", "PASSED"]}
    env = [f"API_KEY={S}", "PASSED", f"FILE_TOKEN={S}"]
    study = dataclasses.replace(run([point(1, 10.0, env=env)], environment=told), place="runs/a")
    text = rerun_command(study, study.rows[0])
    assert " -x API_KEY -x PASSED -x FILE_TOKEN " in text
    assert S not in text
    assert "first set API_KEY, PASSED, FILE_TOKEN" in rerun_title(study)
