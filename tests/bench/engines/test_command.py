"""Engine `command` on the controller."""

from dataclasses import replace
from typing import Any

import pytest

from bench.engines.catalog import ENGINES
from bench.engines.command.program import COMMAND, PLACEHOLDERS, filled, reported_by
from bench.errors import SpecError
from bench.sweep import Sweep, spread
from bench.trial import FIELDS, Trial, make
from launch import setup
from launch.hosts import pretend, this_machine
from launch.job.plan import plan
from launch.remote.errors import LaunchError
from launch.sweep import ClusterSetup, check_devices

WORDS = ["horovodrun", "-np", "{devices}", "-H", "{host_slots}", "train", "--batch={batch}"]


def trial(**fields: Any) -> Trial:
    own = {"engine": "command", "command": WORDS, "format": "horovod-synthetic"}
    return make({"batch_per_device": 8, "devices": 6, "devices_per_host": 4} | own | fields)


def test_one_process_stands_for_the_whole_job() -> None:
    one = trial()
    assert (one.workers, one.hosts, one.servers, one.worker_batch) == (1, 2, 0, 48)
    assert (one.layout.kvstore, one.measuring.steps_per_window) == ("horovod", 10)
    assert trial(format="tf-cnn").layout.kvstore == "program"
    assert reported_by(one) == "reported by horovodrun (horovod-synthetic)"
    for words, name in {
        ("python3", "-u", "a/b.py"): "b.py",
        ("python3", "-W", "ignore", "-X", "dev", "b.py"): "b.py",
        ("python3", "-m", "torch.run", "-c"): "torch.run",
        ("/usr/bin/python3.11", "-c", "print(1)/2", "x"): "python3.11",
        ("python3", "-Sc", "print(1)"): "python3",
        ("python3", "-Wonce", "b.py"): "b.py",
        ("python3",): "python3",
        ("bin/b", "-c"): "b",
    }.items():
        assert reported_by(trial(command=list(words))).startswith(f"reported by {name} (")


def test_the_process_gets_hosts_slots_and_a_port() -> None:
    hosts = [replace(one, cores=(0, 1, 2, 3, 4)) for one in pretend(2, 4)]
    (process,) = plan(trial(), hosts, 7000)
    assert process.cores == (0, 1, 2, 3)
    first, second = (one.address for one in pretend(2, 4))
    wanted = {"MXSCALE_HOSTS": f"{first}:4,{second}:2", "MXSCALE_PORT": "7000"}
    assert process.env.items() >= wanted.items()
    assert process.argv[1:3] == ("-m", "bench.engines.command.runner")
    assert process.argv[4:] == tuple(WORDS)
    assert process.family


def test_gpus_of_several_hosts_are_no_gpus_of_one() -> None:
    gpus = trial(device="gpu", devices=8)
    (process,) = plan(gpus, pretend(2, 4), 7000)
    assert process.gpus == (0, 1, 2, 3)
    assert "CUDA_VISIBLE_DEVICES" not in process.env
    check_devices(gpus, ClusterSetup(hosts=pretend(2, 4)))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"command": []}, "command: expected a program, got none"),
        ({"format": "tf"}, "unknown format 'tf'. Known: .*tf-cnn"),
        ({"format": ""}, "format: expected one of mxnet, .*tf-cnn.*, got none"),
        ({"format": "mlperf"}, "unknown format 'mlperf'"),
        ({"command": ["x", "-n={ devices }"]}, r"command: expected {devices}, got '{ devices }'"),
        ({"command": ["x", "y" * 70_000]}, "command: expected at most 65,536 bytes, got 70,001"),
        ({"command": ["x", "-n={devices"]}, r"command: expected {devices}, got '{devices'. Close"),
        ({"command": ["x", "{global-batch}"]}, "placeholder 'global-batch'.* 'global_batch'"),
        ({"command": ["x", "{batch:d}"]}, "command: unknown placeholder 'batch:d'"),
        ({"command": ["x", "{batches}"]}, "command: unknown placeholder 'batches'.* 'batch'"),
        ({"command": ["awk", "{print}"]}, "'print'.* Write {{print}} for the text {print}"),
        ({"command": ["x", "--api-key=hunter2"]}, r"no secret, got '--api-key=\*\*\*'"),
        ({"mode": "test-io", "data_train": "x"}, "mode: expected 'synthetic' or 'real'"),
        ({"mode": "real", "data_train": "x"}, "data_train: the program has its own"),
        ({"devices_per_worker": 1}, "devices_per_worker: one process reports for the whole job"),
        ({"printers": 9}, "printers: expected at most 6, the devices of the job, got 9"),
        ({"kvstore": "dist_async"}, "kvstore: .*of synchronous training"),
        ({"kvstore": " "}, "kvstore: expected a name for reports, .* got ' '. Give another name"),
        ({"options": ["--lr=1"]}, "options: the program has its own. Put it into command"),
        ({"servers_per_host": 1}, "server_hosts: the program starts its own servers. Leave them"),
        ({"engine": "mxnet", "devices": 1}, "command: expected engine 'command', got 'mxnet'"),
        ({"engine": "torch", "devices": 1}, "command: expected engine 'command', got 'torch'"),
        ({"engine": "mxnet", "command": []}, "format: expected engine 'command', got 'mxnet'"),
    ],
)
def test_a_program_that_cannot_run_is_refused_before_it_starts(
    fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(SpecError, match=said):
        trial(**fields)


def test_the_help_of_a_command_names_every_placeholder() -> None:
    text = FIELDS["command"].setting.help
    assert [name for name in PLACEHOLDERS if f"{{{name}}}" not in text] == []


@pytest.mark.parametrize(
    ("word", "becomes"),
    [
        ("-n={devices}", "-n=6"),
        ("{{devices}}", "{devices}"),
        ("{{print}} {devices}{{x}}", "{print} 6{x}"),
        ("{{x-y:z}} {1..3} {a,b}", "{x-y:z} {1..3} {a,b}"),
        ('{"n":{devices}}', '{"n":6}'),
        ("{ print } {}", "{ print } {}"),
    ],
)
def test_doubled_braces_stand_for_the_text(word: str, becomes: str) -> None:
    assert trial(command=["x", word]).program.command == ("x", word)
    assert filled([word], {"devices": "6"}) == [becomes]


def test_a_program_may_train_on_its_data_until_it_ends() -> None:
    assert trial(mode="real", windows=0).total_windows == 0


def test_a_missing_program_is_refused_before_the_sweep() -> None:
    def refused(word: str) -> None:
        one = trial(command=[word], devices=1)
        setup.local_setup(Sweep(name="t", description="", repeats=1, trials=(one,), text=""))

    for word in ("no-such-program", "tools/no-such-program"):
        with pytest.raises(LaunchError, match=f"command '{word}': there is no such program"):
            refused(word)
    with pytest.raises(LaunchError, match=r"no such program. Write ./README.md for the checkout's"):
        refused("README.md")
    for word in ("bench", "./bench"):
        with pytest.raises(LaunchError, match=f"command '{word}': it is a folder, not a program"):
            refused(word)
    with pytest.raises(LaunchError, match=r"it is not executable. Run: chmod .x ./README.md"):
        refused("./README.md")
    assert this_machine()
    refused("sh")


def test_a_sweep_of_programs_is_simulated_like_others() -> None:
    assert trial(engine="fake").workers == 1
    assert trial(engine="fake", kvstore="ddp", devices_per_worker=1, devices=2).workers == 2
    assert not trial(engine="fake").reported
    command = ENGINES["fake"].command(trial(engine="fake"), "worker", 0)
    assert "bench.engines.fake_process" in command[-1]


def test_keys_of_other_engines_stay() -> None:
    fields = make({"batch_per_device": 8}).fields
    assert {name: fields[name] for name in ("command", "format", "printers")} == {
        "command": (),
        "format": "",
        "printers": 1,
    }
    assert make({"batch_per_device": 8}).key == "982ccc928c6b"


def test_programs_that_get_hosts_are_scaled_to_a_cluster() -> None:
    point = {"engine": "command", "devices": "1..8", "batch_per_device": 8}
    for words, counts in ((["x", "{hosts}"], [1, 2, 4, 8]), (["x"], [1, 2, 4])):
        data = {"points": [point | {"command": words}]}
        assert [one["devices"] for one in spread(data, hosts=2, devices=4)["points"]] == [counts]


def test_it_claims_nothing_of_frameworks() -> None:
    assert COMMAND.software({"mxnet": "1.9.1"}) == ""
    assert COMMAND.package == ""
