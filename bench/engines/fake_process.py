"""One process of a simulation: scheduler, server or worker, by DMLC_ROLE.

It loads few modules of the standard library, so that hundreds start in seconds. The rendezvous is
like ps-lite's: all processes connect to the scheduler at DMLC_PS_ROOT_URI, which assigns ranks when
the last one has connected and keeps all connections open until every worker is done.

    python -c 'from bench.engines.fake_process import run; run({"seconds": [1.0], ...})'

The script is that of bench/engines/fake.py. Its `noise` (within, correlation, between) scatters the
windows. The random numbers depend on its `seed`, the repeat (MXSCALE_REPEAT) and the rank, so a
simulation is reproducible and its repeats differ. The script's `faults` map kinds of
bench/engines/faults.py to the window of each; servers and the scheduler inject theirs after the
rendezvous. The kinds in `once` are injected in the first try of a repeat only (MXSCALE_TRY).
"""

from __future__ import annotations

import _socket  # socket, with its enums, takes longer than the rest of most processes
import math
import os
import sys
import time
from collections import namedtuple

from bench.events import say

TYPE_CHECKING = False  # as in bench.events
if TYPE_CHECKING:
    from typing import Any, NoReturn


class Noise(namedtuple("Noise", ("within", "correlation", "between"), defaults=(0.0, 0.0, 0.0))):
    """Relative standard deviations of windows within a process and between processes.

    A window keeps the share `correlation` of the previous window's deviation: AR(1).
    """

    __slots__ = ()


def factors(noise: Noise, seed: str, count: int) -> list[float]:
    """Return a factor for each window of one process; deterministic for a seed."""
    if not (noise.within or noise.between):
        return [1.0] * count
    from random import Random  # noqa: PLC0415 - most simulations have no noise

    random = Random(seed)
    process = random.gauss(0.0, noise.between)
    deviation = random.gauss(0.0, noise.within)
    fresh = noise.within * math.sqrt(1 - noise.correlation**2)
    found = []
    for _ in range(count):
        found.append(math.exp(process + deviation))
        deviation = noise.correlation * deviation + random.gauss(0.0, fresh)
    return found


def shared_factors(noise: Noise, seed: str, count: int, ranks: int) -> list[float]:
    """Return a synchronous job's factors: the slowest rank determines each window."""
    each = [factors(noise, f"{seed} {rank}", count) for rank in range(ranks)]
    return [max(one) for one in zip(*each, strict=True)]


# Factor on a slow worker's computation; share of a window that is computation, in a job of several
# workers and of one; number of probes in both.
_SLOW, _OWN_SHARE, _ALONE_SHARE, _PROBES, _PROBES_ALONE = 1.2, 0.7, 0.95, 8, 3
# Shares of a window: waiting for images, if there are any, and waiting for a CPU.
_INPUT_SHARE, _DELAY_SHARE = 0.1, 0.01
# Facts of a step that exchanges gradients.
_EXCHANGE = {"arrays": 16, "bytes_each_way": 4_000_000}


def _sleep_for_ever() -> NoReturn:
    while True:
        time.sleep(3600)


def _schedule(address: tuple[str, int], expected: int, faults: dict[str, int]) -> None:
    """Assign a rank to each of `expected` connections, then wait for all to close."""
    import socket  # noqa: PLC0415 - one process of a job needs it

    listener = socket.create_server(address, backlog=expected)
    say("reached")
    members: list[tuple[int, str]] = []
    next_rank = {"worker": 0, "server": 0}
    while len(members) < expected:
        stream = listener.accept()[0].detach()
        members.append((stream, _read_line(stream)))
    for stream, role in members:
        os.write(stream, b"%d\n" % next_rank[role])
        next_rank[role] += 1
    _commit_at(0, faults, -1)
    for stream, role in members:
        if role == "worker":
            _read_line(stream)


def _read_line(stream: int) -> str:
    """Return the next line of a connection, or '' at its end."""
    line = b""
    while not line.endswith(b"\n") and (piece := os.read(stream, 64)):
        line += piece
    return line.decode().rstrip("\n")


def _meet(address: tuple[str, int], role: str) -> tuple[int, int]:
    """Join the rendezvous.

    Return the connection to the scheduler and this process's rank.
    """
    while True:  # without a limit: the controller's deadline applies
        connection = _socket.socket()
        try:
            connection.connect(address)
            break
        except ConnectionRefusedError:
            time.sleep(0.02)
    stream = connection.detach()
    say("reached")
    try:
        os.write(stream, role.encode() + b"\n")
        rank = _read_line(stream)
    except ConnectionError:
        rank = ""
    if not rank:
        raise ConnectionAbortedError("the scheduler closed the connection before it sent a rank")
    return stream, int(rank)


def _commit_at(window: int, faults: dict[str, int], rank: int) -> None:
    """Inject the faults of this window, except for hash, alone, mute and slow."""
    now = {kind for kind, at in faults.items() if at == window}
    if "raise" in now:
        raise RuntimeError("scripted fault")
    if "nan" in now:
        raise FloatingPointError(f"the loss is nan after {window} window{'s' * (window != 1)}")
    if "exit" in now:
        say("failed", {"message": "scripted exit"}, rank=rank)
        os._exit(3)
    if "early" in now:
        os._exit(0)
    if "kill" in now:
        _end_by("SIGKILL")
    if "stop" in now:
        _end_by("SIGSTOP")
    if "hang" in now:
        _sleep_for_ever()


def _end_by(name: str) -> None:
    import signal  # noqa: PLC0415 - for faults only

    os.kill(os.getpid(), signal.Signals[name])


def window_seconds(script: dict[str, Any], rank: int, num_workers: int) -> list[float]:
    """Return the seconds of each window: those of the script, times noise.

    The last time of the script is repeated.
    """
    listed, count = script["seconds"], script["windows"]
    within, correlation, between = script["noise"]
    noise = Noise(within=within, correlation=correlation, between=between)
    seed = f"{script['seed']} {os.environ.get('MXSCALE_REPEAT', '0')}"
    if script["asynchronous"]:
        scatter = factors(noise, f"{seed} {rank}", count)
    else:
        scatter = shared_factors(noise, seed, count, num_workers)
    slower = _SLOW if "slow" in script["faults"] else 1.0
    return [slower * listed[min(n, len(listed) - 1)] * factor for n, factor in enumerate(scatter)]


def _own_seconds(script: dict[str, Any], rank: int, num_workers: int) -> list[float]:
    """Return the seconds of each probe of a rank's computation, with noise of its own."""
    within, correlation, _ = script["noise"]
    noise = Noise(within=within, correlation=correlation)
    seed = f"{script['seed']} {os.environ.get('MXSCALE_REPEAT', '0')} own {rank}"
    slower = _SLOW if "slow" in script["faults"] else 1.0
    share = _OWN_SHARE if num_workers > 1 else _ALONE_SHARE
    step = share * slower * script["seconds"][-1] / script["steps"]
    count = _PROBES if num_workers > 1 else _PROBES_ALONE
    return [step * factor for factor in factors(noise, seed, count)]


def _ended(script: dict[str, Any], seconds: list[float]) -> str:
    """Return why measuring ends, or '' to continue; ranks with the same windows agree."""
    if len(seconds) == script["windows"]:
        return "windows"
    if script["asynchronous"] or not (script["precision"] or script["budget_seconds"]):
        return ""
    from bench.statistics.budget import Budget, end_reason  # noqa: PLC0415 - not all simulations need it

    budget = Budget(
        precision=script["precision"],
        windows=script["windows"] - script["warmup_windows"],
        seconds=script["budget_seconds"],
    )
    return end_reason(seconds, budget, script["warmup_windows"])


def _work(script: dict[str, Any], rank: int, num_workers: int, faults: dict[str, int]) -> None:
    if "mute" in faults:
        return
    if "alone" in faults:
        rank, num_workers = 0, 1
    batch = script["worker_batches"][rank]
    facts = {"num_workers": num_workers, "worker_batch": batch}
    say("ready", facts | (_EXCHANGE if num_workers > 1 else {}), rank=rank)
    clock, ended, seconds = 0.0, "", window_seconds(script, rank, num_workers)
    probes = _own_seconds(script, rank, num_workers)
    read = _INPUT_SHARE if script.get("reads") else 0.0
    for index, lasted in enumerate(seconds):
        _commit_at(index, faults, rank)
        clock += lasted
        if "MXSCALE_REAL_TIME" in os.environ:  # take the simulated time in real time
            time.sleep(lasted)
        window = {
            "index": index,
            "seconds": lasted,
            "end": clock,
            "images": batch * script["steps"],
            "steps": script["steps"],
            "loss": 1.0,
            "input_wait": read * lasted,
            "run_delay": _DELAY_SHARE * lasted,
        }
        if probes and index >= script["warmup_windows"]:
            window["own_seconds"] = probes.pop()
        say("window", window, rank=rank)
        sys.stderr.write(f"rank {rank} window {index}\n")
        ended = _ended(script, seconds[: index + 1])
        if ended:
            break
    say("measured", rank=rank)
    digest = f"rank{rank}" if "hash" in faults else "0"
    say("done", {"weight_hash": digest, "ended": ended}, rank=rank)


def main(script: dict[str, Any]) -> None:
    """Simulate the role that the environment assigns to this process."""
    if os.environ.get("MXSCALE_TRY", "1") != "1":
        for kind in script.get("once", ()):
            script["faults"].pop(kind, None)
    faults = script["faults"]
    role = os.environ.get("DMLC_ROLE", "worker")
    if "absent" in faults:
        _sleep_for_ever()
    if "DMLC_PS_ROOT_URI" not in os.environ:  # alone, or placed by the plan
        rank, num_workers = (int(os.environ.get(one, "0")) for one in ("RANK", "WORLD_SIZE"))
        _work(script, rank, max(num_workers, 1), faults)
        return
    address = os.environ["DMLC_PS_ROOT_URI"], int(os.environ["DMLC_PS_ROOT_PORT"])
    num_workers = int(os.environ["DMLC_NUM_WORKER"])
    if role == "scheduler":
        _schedule(address, num_workers + int(os.environ["DMLC_NUM_SERVER"]), faults)
        return
    stream, rank = _meet(address, role)
    if role == "worker":
        _work(script, rank, num_workers, faults)
    else:
        _commit_at(0, faults, rank)
        _read_line(stream)  # ends when the scheduler does


def run(script: dict[str, Any]) -> NoReturn:
    """Simulate a process and end it."""
    try:
        main(script)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # without the end of the interpreter, a tenth of all instructions
    except Exception as error:  # noqa: BLE001 - the outermost door
        say("failed", {"message": str(error)})
        # The failure of another process closes the connections of this one.
        from im2rec_tools.terminal import echo  # noqa: PLC0415

        kind = "" if isinstance(error, ConnectionError) else f"{type(error).__name__}: "
        echo(f"{kind}{error}", err=True)
        os._exit(1)
