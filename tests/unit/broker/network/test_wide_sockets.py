"""Connections that send large requests have wide sockets: a few, and as it is configured."""

import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from broker.network import wide_sockets
from broker.network.acceptor import bind
from broker.network.narrow_sockets import SO_BUF_LOCK
from broker.network.wide_sockets import CONFIGURED_BYTES_MIN, WIDE_COUNT_MAX, WideSockets
from config.listeners import Listener

WIDE_BYTES = 1024 * 1024  # below half of any system's net.ipv4.tcp_rmem
BOTH = 3
PLAIN = Listener("L", "PLAINTEXT", "127.0.0.1", 0)
ENCRYPTED = Listener("L", "SSL", "127.0.0.1", 0)


def receiving(
    sock: socket.socket, *, listener: Listener = PLAIN, gate: Any = None, has_ended: bool = False
) -> Any:
    """A connection as the sockets see it."""
    transport = SimpleNamespace(get_extra_info={"socket": sock}.get)
    return SimpleName(
        info=SimpleNamespace(listener=listener),
        gate=gate,
        reading=SimpleNamespace(transport=None if has_ended else transport),
    )


class SimpleName(SimpleNamespace):
    """One that is a key, as a connection is."""

    __hash__ = object.__hash__


def receive_bytes(sock: socket.socket) -> int:
    """The size that was asked for: the system doubles it."""
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2


def locks(sock: socket.socket) -> int:
    return sock.getsockopt(socket.SOL_SOCKET, SO_BUF_LOCK)


@pytest.fixture(autouse=True)
def modest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wide_sockets, "WIDE_BYTES", WIDE_BYTES)


@pytest.fixture
def accepted() -> Iterator[socket.socket]:
    with bind(PLAIN, CONFIGURED_BYTES_MIN, 50_000, 10) as server:
        server.setblocking(True)
        with socket.create_connection(server.getsockname()):
            sock, _ = server.accept()
            with sock:
                WideSockets(CONFIGURED_BYTES_MIN).accepted(sock)
                yield sock


def test_an_accepted_socket_keeps_the_configured_size(accepted: socket.socket) -> None:
    assert receive_bytes(accepted) == CONFIGURED_BYTES_MIN
    assert locks(accepted) == BOTH


def test_a_window_may_grow_beyond_the_size_of_the_listening_socket() -> None:
    for listener, is_locked in ((PLAIN, False), (ENCRYPTED, True)):
        with bind(listener, CONFIGURED_BYTES_MIN, -1, 10) as sock:
            assert receive_bytes(sock) == CONFIGURED_BYTES_MIN
            assert bool(locks(sock) & wide_sockets.RECEIVE_LOCKED) is is_locked


def test_a_wide_socket_holds_large_requests_and_grows_no_further(accepted: socket.socket) -> None:
    wide = WideSockets(CONFIGURED_BYTES_MIN)
    wide.widen(connection := receiving(accepted))
    wide.widen(connection)
    assert receive_bytes(accepted) * 2 >= WIDE_BYTES
    assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == 1  # waits for no more
    assert locks(accepted) == BOTH
    assert len(wide) == 1
    wide.forget(connection)
    assert len(wide) == 0


def test_few_connections_are_wide_at_a_time(accepted: socket.socket) -> None:
    wide = WideSockets(CONFIGURED_BYTES_MIN)
    with socket.socket() as other:
        before = receive_bytes(other)
        connections = [receiving(other) for _ in range(WIDE_COUNT_MAX)]
        for connection in connections:
            wide.widen(connection)
        assert receive_bytes(other) > before
        wide.widen(receiving(accepted))
        assert len(wide) == WIDE_COUNT_MAX
        assert receive_bytes(accepted) == CONFIGURED_BYTES_MIN
        wide.forget(connections[0])
        wide.widen(receiving(accepted))
        assert receive_bytes(accepted) > CONFIGURED_BYTES_MIN


def test_strangers_tls_and_connections_that_have_ended_stay_as_they_are(
    accepted: socket.socket,
) -> None:
    wide = WideSockets(CONFIGURED_BYTES_MIN)
    wide.widen(receiving(accepted, gate=SimpleNamespace(is_closed=True)))
    wide.widen(receiving(accepted, listener=ENCRYPTED))
    wide.widen(receiving(accepted, has_ended=True))
    assert len(wide) == 0
    assert receive_bytes(accepted) == CONFIGURED_BYTES_MIN
    wide.widen(receiving(accepted, gate=SimpleNamespace(is_closed=False)))
    assert len(wide) == 1


@pytest.mark.parametrize("configured", [-1, CONFIGURED_BYTES_MIN - 1, WIDE_BYTES])
def test_other_sizes_stay_as_they_are_configured(accepted: socket.socket, configured: int) -> None:
    wide = WideSockets(configured)
    wide.widen(receiving(accepted))
    assert receive_bytes(accepted) == CONFIGURED_BYTES_MIN
    assert len(wide) == 0


def test_without_a_configured_size_the_system_sizes_accepted_sockets() -> None:
    with socket.socket() as sock:
        WideSockets(-1).accepted(sock)
        assert locks(sock) == 0


def test_a_system_that_cannot_unlock_widens_nothing(
    accepted: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wide_sockets, "SO_BUF_LOCK", 9_999)
    wide = WideSockets(CONFIGURED_BYTES_MIN)
    wide.accepted(accepted)
    wide.widen(receiving(accepted))
    assert receive_bytes(accepted) == CONFIGURED_BYTES_MIN
    with bind(PLAIN, CONFIGURED_BYTES_MIN, -1, 10) as sock:
        assert receive_bytes(sock) == CONFIGURED_BYTES_MIN
