"""Inherited sockets by their address, and what a service manager is told."""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.lifecycle.service_manager import InheritedSockets, ServiceManager
from config.listeners import Listener

_opened: list[socket.socket] = []


def listening(host: str = "127.0.0.1") -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    sock.bind((host, 0))
    sock.listen()
    _opened.append(sock)
    return sock


def listener(host: str, port: int) -> Listener:
    return Listener("PLAINTEXT", "PLAINTEXT", host, port)


@pytest.fixture(autouse=True)
def _all_closed() -> Iterator[None]:
    yield
    for sock in _opened:
        sock.close()
    _opened.clear()


def inherited(*passed: socket.socket) -> InheritedSockets:
    made = InheritedSockets({}, 1)
    made._sockets += passed
    return made


@pytest.mark.parametrize(
    ("bound", "host"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1", "localhost"),
        ("0.0.0.0", "0.0.0.0"),
        ("0.0.0.0", ""),
        ("::", ""),
    ],
)
def test_a_listener_gets_the_socket_with_its_address(bound: str, host: str) -> None:
    passed = listening(bound)
    port = passed.getsockname()[1]
    sockets = inherited(passed)
    assert sockets.bind(listener(host, port), -1, -1, 5) is passed
    assert not passed.getblocking()
    passed.close()


def test_a_passed_on_socket_gets_the_sizes_that_were_set() -> None:
    passed = listening()
    sockets = inherited(passed)
    sockets.bind(listener("127.0.0.1", passed.getsockname()[1]), 12_288, -1, 5)
    assert passed.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 2 * 12_288  # as Linux counts


def test_a_passed_on_socket_keeps_the_backlog_of_its_manager() -> None:
    passed = listening()
    address = passed.getsockname()
    inherited(passed).bind(listener(*address), -1, -1, 1)
    # The system takes them all; with a backlog of one, it would take two.
    _opened.extend(socket.create_connection(address, 10) for _ in range(20))


def test_a_passed_on_socket_that_does_not_listen_is_made_to() -> None:
    passed = socket.socket()
    _opened.append(passed)
    passed.bind(("127.0.0.1", 0))
    address = passed.getsockname()
    inherited(passed).bind(listener(*address), -1, -1, 5)
    _opened.append(socket.create_connection(address, 10))


def test_other_listeners_get_sockets_of_their_own(caplog: pytest.LogCaptureFixture) -> None:
    passed = listening()
    other = listening()
    sockets = inherited(passed)
    free = other.getsockname()[1]
    other.close()
    made = sockets.bind(listener("127.0.0.1", free), -1, -1, 5)
    assert made is not passed
    made.close()
    sockets.close_others()
    assert "no listener has this address" in caplog.text
    assert passed.fileno() == -1


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"LISTEN_FDS": "1", "LISTEN_PID": "1"},
        {"LISTEN_FDS": "1"},
        {"LISTEN_FDS": "many", "LISTEN_PID": str(os.getpid())},
    ],
)
def test_sockets_of_another_process_are_left_alone(environment: dict[str, str]) -> None:
    assert not InheritedSockets(environment, os.getpid())._sockets
    assert environment == {}


@pytest.mark.parametrize("is_abstract", [False, True])
async def test_the_manager_is_told(tmp_path: Path, is_abstract: bool) -> None:
    name = f"@barnabas-{os.getpid()}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind("\0" + name[1:] if is_abstract else name)
        sock.setblocking(False)
        environment = {"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "20000"}
        manager = ServiceManager(environment, 1)
        assert environment == {}
        manager.ready()
        loop = asyncio.get_running_loop()
        told = [(await loop.sock_recv(sock, 100)).decode() for _ in range(4)]
        assert told == ["READY=1\nSTATUS=Serving", *["WATCHDOG=1"] * 3]
        manager.stopping()
        while not (said := await loop.sock_recv(sock, 100)).startswith(b"STOPPING=1"):
            assert said == b"WATCHDOG=1"
        manager.end()
        assert manager._timer is None


def test_a_manager_that_is_gone_is_no_failure(tmp_path: Path) -> None:
    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "gone")}, 1).tell("READY=1")
    ServiceManager({}, 1).tell("READY=1")
