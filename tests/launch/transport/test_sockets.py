"""The limit of open files, and the connections that it allows."""

import pytest

from launch.remote.errors import LaunchError
from launch.transport.sockets import SocketLimits, open_files


def test_the_limit_of_open_files_is_raised_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    SocketLimits()
    assert open_files() >= 1024
    monkeypatch.setattr("launch.transport.sockets.open_files", lambda: 100)
    monkeypatch.setattr("launch.remote.limits.CONNECT_SECONDS", 0.01)
    limits = SocketLimits()  # of one connection
    limits.take()
    with pytest.raises(
        LaunchError, match=r"open files per process for so many hosts\. Raise the limit"
    ):
        limits.take()
    limits.give()
    limits.take()
