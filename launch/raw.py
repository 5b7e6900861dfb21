"""What the network moves by itself: one TCP connection between hosts, as a store's would be."""

from collections.abc import Sequence
from contextlib import closing

from launch.errors import LaunchError
from launch.hosts import Host
from launch.talk import PROBE, Talk
from launch.transport import Start

_SECONDS = 60.0
_LISTENS, _MEASURES = ("listening", "failed"), ("measured", "failed")


def raw_tcp(hosts: Sequence[Host], start: Start) -> float:
    """10^6 bytes a second from the first host to the last, which may be the same one.

    Raises LaunchError where one cannot listen or the other cannot connect.
    """
    sender, receiver = hosts[0], hosts[-1]
    with (
        closing(Talk(receiver, start, PROBE)) as listening,
        closing(Talk(sender, start, PROBE)) as sending,
    ):
        heard = listening.ask({"do": "listen", "address": receiver.address}, _SECONDS, *_LISTENS)
        if "port" not in heard:
            raise LaunchError(f"{receiver.name}: cannot listen: {heard.get('why', '')}")
        target = [receiver.address, heard["port"]]
        answer = sending.ask({"do": "measure", "target": target}, _SECONDS, *_MEASURES)
    if "mb_s" not in answer:
        raise LaunchError(f"{sender.name}: cannot reach {receiver.name}: {answer.get('why', '')}")
    return float(answer["mb_s"])
