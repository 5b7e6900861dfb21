"""The command line of launch.launch: its meaning, and options that are rejected."""

import json

import pytest

from launch.hosts import this_machine
from launch.launch import parse_options, processes
from launch.remote.errors import LaunchError

pytestmark = pytest.mark.pythons

LOCAL = ["-n", "2", "--launcher", "local"]


def test_the_command_begins_at_the_first_word_that_is_no_option() -> None:
    command = ["train.py", "-n", "7", "--env", "A=1", "--", "--launcher", "yarn"]
    for words in (
        [*LOCAL, *command],
        [*LOCAL, "--", *command],
        ["-n2", "--launcher=local", *command],
    ):
        found = parse_options(words, {})
        assert list(found.command) == command
        assert (found.workers, found.servers, found.local) == (2, 2, True)
        assert found.env == {"all": {}, "workers": {}, "servers": {}}


def test_a_command_may_begin_like_an_option_after_two_dashes() -> None:
    assert parse_options([*LOCAL, "--", "-n", "--"], {}).command == ("-n", "--")


def test_variables_are_taken_in_every_form() -> None:
    words = [
        "-x",
        "A=1",
        "B:2:3",
        "C=",
        "--env",
        "D",
        "-xE=a b",
        "F=x=y",
        "--env-worker=G:1",
        "G=2",
    ]
    found = parse_options(
        [*LOCAL, *words, "--env-server", "A=9", "./x"], {"D": "\n", "E": "not this"}
    )
    assert found.command == ("./x",)
    everyone = {"A": "1", "B": "2:3", "C": "", "D": "\n", "E": "a b", "F": "x=y"}
    assert found.variables("scheduler") == everyone
    assert found.variables("worker") == everyone | {"G": "2"}
    assert found.variables("server") == everyone | {"A": "9"}


def test_of_this_environment_only_what_upstream_forwards_goes_along_and_no_key() -> None:
    names = ["OMP_NUM_THREADS", "KMP_AFFINITY", "LD_LIBRARY_PATH"]
    environ = dict.fromkeys([*names, "AWS_SECRET_ACCESS_KEY", "PATH"], "1")
    found = parse_options([*LOCAL, "-x", "KMP_AFFINITY=2", "./x"], environ)
    assert found.env["all"] == dict.fromkeys(names, "1") | {"KMP_AFFINITY": "2"}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["-n", "2"], "command: expected a program and its arguments after the options, got none"),
        (
            ["-n", "2", "--"],
            "command: expected a program and its arguments after the options, got none",
        ),
        ([], "command: expected a program and its arguments after the options, got none"),
        (["true"], "-n: expected a whole number from 1 to 10000, got none"),
        (["-n", "0", "true"], "-n: expected a whole number from 1 to 10000, got '0'"),
        (["-n", "-1", "true"], "-n: expected a whole number from 1 to 10000, got '-1'"),
        (["-n", "1e3", "true"], "-n: expected a whole number from 1 to 10000, got '1e3'"),
        (["-n", "2", "-s", "0", "true"], "-s: expected a whole number from 1 to 10000, got '0'"),
        (["-n", "2", "-s", "", "true"], "--num-servers: expected a value, got an empty one"),
        (["-n", "2", "-H", "", "true"], "--hostfile: expected a value, got an empty one"),
        ([*LOCAL, "--port", "0", "true"], "--port: expected a whole number from 1 to 65535, got"),
        ([*LOCAL, "--port"], "--port: expected one argument"),
        ([*LOCAL, "--verbose", "true", "true"], "--verbose: no such option"),
        (["-n", "2", "--launcher", "mpi", "true"], "--launcher mpi: not supported. "),
        (["-n", "2", "--launcher", "sge", "true"], "--launcher sge: not supported. "),
        (["-n", "2", "--launcher", "yarn", "true"], "--launcher yarn: not supported. "),
        (["-n", "2", "--launcher", "x", "true"], "--launcher: expected ssh or local, got 'x'"),
        ([*LOCAL, "-H", "hosts", "true"], "--hostfile: expected --launcher ssh"),
        ([*LOCAL, "--interface", "lo", "true"], "--interface: expected --launcher ssh"),
        (
            [*LOCAL, "--style", "x", "true"],
            "--style: expected dmlc, torch, tensorflow, mpi, got 'x'.",
        ),
        ([*LOCAL, "--style=torch", "-s1", "true"], "-s: --style torch has no servers. Remove -s"),
        ([*LOCAL, "--style=torch", "--p3", "true"], "--p3: --style torch has no P3. Remove --p3"),
        ([*LOCAL, "--style=mpi", "-s", "1", "true"], "-s: --style mpi has no servers. Remove -s"),
        (
            [*LOCAL, "--style", "torch", "--env-server", "A=1", "true"],
            "--env-server: --style torch has no servers. Remove --env-server",
        ),
        (
            [*LOCAL, "--style", "mpi", "--port", "9000", "true"],
            "--port: --style mpi has no port. Remove --port",
        ),
        ([*LOCAL, "-x", "1A=2", "true"], "--env: expected NAME=VALUE or NAME, got '1A=2'"),
        ([*LOCAL, "-x", "HOME", "true"], "--env HOME: expected a variable that is set here"),
    ],
)
def test_a_mistake_is_one_line(words: list[str], why: str) -> None:
    with pytest.raises(LaunchError) as refused:
        parse_options(words, {})
    assert str(refused.value).startswith(why)
    assert "\n" not in str(refused.value)


def test_workers_and_servers_go_round_the_hosts_and_the_scheduler_is_on_the_first() -> None:
    hosts = [this_machine(), this_machine()]
    job = processes(parse_options(["-n", "3", "-s", "1", "./x"], {}), hosts, lambda *_: 9000)
    assert [one.id for one in job] == [
        "scheduler-0",
        "server-0",
        "worker-0",
        "worker-1",
        "worker-2",
    ]
    assert [one.host is hosts[0] for one in job] == [True, True, True, False, True]


def test_p3_is_upstreams_variables_for_every_process_and_can_be_overridden() -> None:
    for words, mark in ((["--p3"], "10"), (["--p3", "-x", "DMLC_PS_WATER_MARK=4", "--"], "4")):
        job = processes(
            parse_options([*LOCAL, *words, "./x"], {}), [this_machine()], lambda *_: 9000
        )
        assert {one.role for one in job} == {"scheduler", "server", "worker"}
        assert {one.env["DMLC_PS_VAN_TYPE"] for one in job} == {"p3"}
        assert {one.env["DMLC_PS_WATER_MARK"] for one in job} == {mark}
    (plain, *_) = processes(parse_options([*LOCAL, "./x"], {}), [this_machine()], lambda *_: 9000)
    assert "DMLC_PS_VAN_TYPE" not in plain.env


def test_no_variable_of_a_person_changes_who_a_process_is() -> None:
    words = ["-x", "DMLC_ROLE=x", "DMLC_NUM_WORKER=9", "DMLC_PS_VAN_TYPE=p3"]
    job = processes(parse_options([*LOCAL, *words, "./x"], {}), [this_machine()], lambda *_: 9000)
    assert [one.env["DMLC_ROLE"] for one in job] == [one.role for one in job]
    assert {one.env["DMLC_NUM_WORKER"] for one in job} == {"2"}
    assert {one.env["DMLC_PS_VAN_TYPE"] for one in job} == {"p3"}


def test_processes_that_listen_on_one_host_get_different_ports() -> None:
    words = ["--style", "tensorflow", "-s", "1", "-x", "TF_CONFIG=x", "./x"]
    found = iter([7000, 7000, 7001, 7001, 7000, 7002])
    job = processes(parse_options([*LOCAL, *words], {}), [this_machine()], lambda *_: next(found))
    assert [one.id for one in job] == ["server-0", "worker-0", "worker-1"]
    cluster = json.loads(job[0].env["TF_CONFIG"])["cluster"]
    assert cluster == {"ps": ["127.0.0.1:7000"], "worker": ["127.0.0.1:7001", "127.0.0.1:7002"]}


def test_a_given_port_is_the_first_of_a_host() -> None:
    words = ["--style", "tensorflow", "--port", "9000", "./x"]
    job = processes(
        parse_options([*LOCAL, *words], {}), [this_machine()], lambda _, wanted: wanted or 0
    )
    (cluster,) = {json.dumps(json.loads(one.env["TF_CONFIG"])["cluster"]) for one in job}
    assert cluster == '{"worker": ["127.0.0.1:9000", "127.0.0.1:9001"]}'


@pytest.mark.parametrize(("style", "servers"), [("dmlc", 2), ("torch", 0), ("tensorflow", 0)])
def test_only_mxnet_has_servers_by_default(style: str, servers: int) -> None:
    assert parse_options([*LOCAL, "--style", style, "./x"], {}).servers == servers
