"""A channel to a real agent, and the messages that it sends."""

import queue
import sys
import time
from collections.abc import Sequence
from typing import Any

from launch.hosts import Host
from launch.job.agents import AgentChannel
from launch.transport.client import Message
from launch.transport.line import start_local

HOST = Host(name="here", address="127.0.0.1", cpus=1, gpus=0)


class Talk:
    """A channel with its inbox, for tests that send a request and wait."""

    def __init__(self) -> None:
        self.inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.channel = AgentChannel(HOST, start_local, self.inbox)

    def start(
        self,
        name: str,
        code: str,
        env: dict[str, str] | None = None,
        cores: Sequence[int] = (),
        **fields: Any,
    ) -> None:
        argv = [sys.executable, "-u", "-c", code]
        message: dict[str, Any] = {"id": name, "argv": argv, "env": env or {}, "cwd": "/"}
        message |= {"cores": list(cores), **fields}
        message["bare"] = name.startswith("server")
        self.channel.send({"do": "start", **message})

    def until(self, say: str, seconds: float = 10.0) -> list[tuple[str, dict[str, Any]]]:
        """Return the messages up to the first one of this kind."""
        said, deadline = [], time.monotonic() + seconds
        while True:
            message = self.inbox.get(timeout=max(0.01, deadline - time.monotonic()))
            message.taken()
            said.append((message.say, message.values))
            if message.say == say:
                return said


def printed(said: list[tuple[str, dict[str, Any]]]) -> list[str]:
    return [line for say, values in said if say == "output" for line in values["lines"]]
