"""Hostile clients of handshakes and logins, many at a time, for a benchmark and for tests.

A kind is what a client sends, in which pieces, how long it waits between them, and whether it then
hangs up or waits for the broker to close. A `Crowd` has clients of several kinds at once: it opens
connections, sends the pieces that are due, and notes which have ended.
"""

from __future__ import annotations

import random
import selectors
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from benchmarks.renegotiation import Renegotiator

PACE_SECONDS: Final = 0.02  # between single bytes
SILENT_SECONDS: Final = 1.0  # before a silent client hangs up
PATIENT_SECONDS: Final = 20.0  # of a client that waits for the broker to close
BYTES_ONE_BY_ONE: Final = 50
RENEGOTIATIONS: Final = 5
CONNECT_SECONDS: Final = 60.0


class Piece(NamedTuple):
    """Bytes that are sent `after_s` after the piece before."""

    data: bytes
    after_s: float = 0.0


class Script(NamedTuple):
    """What a client sends on its connection, and how long it then waits for the end."""

    pieces: Callable[[socket.socket], Iterable[Piece]]
    waits_s: float = 0.0  # 0: it hangs up at once


Kind = Callable[[random.Random], Script]


def _sends(waits_s: float, *data: bytes) -> Kind:
    return lambda _: Script(lambda _: map(Piece, data), waits_s)


def _random(waits_s: float, head: bytes = b"", size: int = 300) -> Kind:
    def kind(source: random.Random) -> Script:
        data = head + source.randbytes(size)
        return Script(lambda _: [Piece(data)], waits_s)

    return kind


def _one_by_one(data: bytes) -> Kind:
    pieces = [Piece(data[at : at + 1], PACE_SECONDS) for at in range(BYTES_ONE_BY_ONE)]
    assert len(data) > len(pieces), "its last byte is never sent"
    return lambda _: Script(lambda _: pieces, SILENT_SECONDS)


# -- TLS -------------------------------------------------------------------------------------------


def hello() -> bytes:
    """Return the first record of a client of TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(to_client, to_server).do_handshake()
    return to_server.read()


def _record(message: bytes) -> bytes:
    return b"\x16\x03\x01" + struct.pack(">H", len(message)) + message


def _of_tls_1_1() -> bytes:
    """Return a hello that offers TLS 1.1 and nothing newer."""
    body = b"\x03\x02" + bytes(32) + b"\0" + b"\0\2\0\x2f" + b"\1\0"
    return _record(b"\1" + len(body).to_bytes(3, "big") + body)


def _hello_of_16_mib() -> list[bytes]:
    """Return the first records of a hello that announces 16 MiB."""
    first = b"\1\xff\xff\xff\x03\x03"
    return [_record(first.ljust(16_384, b"\0"))] + [_record(bytes(16_384))] * 3


def _renegotiations(sock: socket.socket) -> Iterator[Piece]:
    tls = Renegotiator(sock)
    for _ in range(RENEGOTIATIONS):
        yield Piece(tls.ask(), PACE_SECONDS)


_HELLO: Final = hello()
TLS: Final[dict[str, Kind]] = {
    "silent": _sends(SILENT_SECONDS),
    "byte by byte": _one_by_one(_HELLO),
    "huge records": _sends(PATIENT_SECONDS, b"\x16\x03\x01\xff\xff" + bytes(60_000)),
    "a hello of 16 MiB": _sends(PATIENT_SECONDS, *_hello_of_16_mib()),
    "garbage": _random(PATIENT_SECONDS),
    "garbage in records": _random(PATIENT_SECONDS, b"\x16\x03\x01\x01\x00", 256),
    "downgrade": _sends(PATIENT_SECONDS, _of_tls_1_1()),
    "renegotiation": lambda _: Script(_renegotiations, SILENT_SECONDS),
    "close after the hello": _sends(0.0, _HELLO),
    "silent after the hello": _sends(SILENT_SECONDS, _HELLO),
}


# -- logins ----------------------------------------------------------------------------------------


def frame(api_key: int, version: int, body: bytes) -> bytes:
    """Return a request with a header of version 1 and no client id."""
    data = struct.pack(">hhih", api_key, version, 7, -1) + body
    return struct.pack(">i", len(data)) + data


def token(data: bytes) -> bytes:
    """Return a SaslAuthenticate request."""
    return frame(36, 1, struct.pack(">i", len(data)) + data)


_MECHANISM: Final = b"SCRAM-SHA-256"
HANDSHAKE: Final = frame(17, 1, struct.pack(">h", len(_MECHANISM)) + _MECHANISM)
_UNFINISHED: Final = struct.pack(">ihhih", 65_536, 17, 1, 7, -1) + bytes(65_525)
_UNKNOWN: Final = [
    Piece(HANDSHAKE),
    Piece(token(b"n,,n=nobody,r=abc"), PACE_SECONDS),
    Piece(token(b"c=biws,r=abc,p=" + b"A" * 43 + b"="), PACE_SECONDS),
]
LOGINS: Final[dict[str, Kind]] = {
    "silent": _sends(SILENT_SECONDS),
    "byte by byte": _one_by_one(HANDSHAKE + token(bytes(100))),
    "huge frames": _sends(PATIENT_SECONDS, struct.pack(">i", 2**31 - 1) + bytes(60_000)),
    "the largest frame, unfinished": _sends(SILENT_SECONDS, _UNFINISHED),
    "garbage": _random(PATIENT_SECONDS),
    "garbage in tokens": _random(PATIENT_SECONDS, HANDSHAKE + token(bytes(300))[:-300]),
    "another request": _sends(PATIENT_SECONDS, frame(3, 1, bytes(4))),
    "an unknown user": lambda _: Script(lambda _: _UNKNOWN, PATIENT_SECONDS),
    "close after the handshake": _sends(0.0, HANDSHAKE),
    "many handshakes": _sends(PATIENT_SECONDS, HANDSHAKE * 50),
}


class _Client:
    """One connection of a crowd."""

    __slots__ = ("due", "due_s", "pieces", "script", "sock")

    def __init__(self, sock: socket.socket, script: Script) -> None:
        self.sock = sock
        self.script = script
        self.pieces = iter(script.pieces(sock))
        self.due: Piece | None = None
        self.due_s = 0.0
        self.turn()

    def turn(self) -> None:
        """Come to the next piece, or to the end."""
        self.due = next(self.pieces, None)
        wait_s = self.script.waits_s if self.due is None else self.due.after_s
        self.due_s = time.monotonic() + wait_s


class Crowd:
    """Clients of some kinds on one port, one after the other of each kind."""

    def __init__(self, port: int, kinds: Mapping[str, Kind], seed: int = 1) -> None:
        self.begun = 0
        self.ended = 0
        self._port = port
        self._kinds = [*kinds.values()]
        self._random = random.Random(seed)
        self._selector = selectors.DefaultSelector()
        self._clients: dict[int, _Client] = {}

    @property
    def now(self) -> int:
        """How many clients there are."""
        return len(self._clients)

    def connect(self, at_a_time: int) -> None:
        """Begin clients until there are that many."""
        while len(self._clients) < at_a_time:
            kind = self._kinds[self.begun % len(self._kinds)]
            sock = socket.create_connection(("127.0.0.1", self._port), CONNECT_SECONDS)
            sock.setblocking(False)  # noqa: FBT003 - the socket's own signature
            self.begun += 1
            try:
                client = _Client(sock, kind(self._random))
            except OSError:
                sock.close()
                self.ended += 1
                continue
            self._clients[sock.fileno()] = client
            self._selector.register(sock, selectors.EVENT_READ, client)

    def step(self, seconds: float) -> None:
        """Send what is due, read what has come, and end who is through; wait that long at most."""
        for key, _ in self._selector.select(seconds):
            self._read(key.data)
        now_s = time.monotonic()
        for client in [one for one in self._clients.values() if one.due_s <= now_s]:
            if client.due is None:
                self._end(client)
            else:
                self._send(client, client.due)

    def close(self) -> None:
        """End all."""
        for client in [*self._clients.values()]:
            self._end(client)
        self._selector.close()

    def _read(self, client: _Client) -> None:
        try:
            data = client.sock.recv(65_536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end(client)

    def _send(self, client: _Client, piece: Piece) -> None:
        try:
            sent = client.sock.send(piece.data) if piece.data else 0
        except BlockingIOError:
            return
        except OSError:
            self._end(client)
            return
        if sent < len(piece.data):
            client.due = Piece(piece.data[sent:])
        else:
            client.turn()

    def _end(self, client: _Client) -> None:
        if self._clients.pop(client.sock.fileno(), None) is not None:
            self._selector.unregister(client.sock)
            client.sock.close()
            self.ended += 1
