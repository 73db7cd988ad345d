"""Sockets of strangers receive little at a time, and those of known clients as others do."""

import socket
from collections.abc import Iterator

import pytest

from broker.network.narrow_sockets import (
    RECEIVE_BYTES,
    SO_BUF_LOCK,
    narrow,
    narrow_listener,
    widen,
)

USUAL = 100_000


def received_at_once(sock: socket.socket) -> int:
    """The size that was asked for: the system doubles it."""
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2


def is_locked(sock: socket.socket) -> bool:
    return bool(sock.getsockopt(socket.SOL_SOCKET, SO_BUF_LOCK) & 2)


@pytest.fixture
def accepted() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, USUAL)
        narrow_listener(server)
        assert received_at_once(server) == RECEIVE_BYTES
        assert not is_locked(server)
        with socket.create_connection(server.getsockname()):
            sock, _ = server.accept()
            with sock:
                narrow(sock)
                yield sock


def test_a_stranger_has_a_narrow_socket_that_does_not_grow(accepted: socket.socket) -> None:
    assert received_at_once(accepted) == RECEIVE_BYTES
    assert is_locked(accepted)


def test_a_client_that_is_known_has_the_configured_size(accepted: socket.socket) -> None:
    widen(accepted, USUAL)
    assert received_at_once(accepted) == USUAL


def test_without_a_configured_size_the_system_may_enlarge_it(accepted: socket.socket) -> None:
    widen(accepted, -1)
    assert not is_locked(accepted)


def test_a_system_that_cannot_unlock_narrows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.network.narrow_sockets.SO_BUF_LOCK", 9_999)
    with socket.socket() as sock:
        before = received_at_once(sock)
        narrow(sock)
        narrow_listener(sock)
        assert received_at_once(sock) == before
        widen(sock, -1)
