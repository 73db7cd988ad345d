"""A client of TLS 1.2 that asks for new handshakes on its connection.

Python's `ssl` cannot ask for that. The library that `cryptography` brings can; its bindings are not
public, so nothing but a benchmark and a test may use this.
"""

from __future__ import annotations

import socket
from typing import Any, Final

from cryptography.hazmat.bindings.openssl.binding import Binding

TLS_1_2: Final = 0x0303
PIECE_BYTES: Final = 16_384


class Renegotiator:
    """The TLS of one connection, which asks for a new handshake whenever it is told to."""

    def __init__(self, sock: socket.socket) -> None:
        """Do the first handshake. Raises OSError."""
        binding = Binding()
        self._lib: Any = binding.lib
        self._ffi: Any = binding.ffi
        self._context = self._lib.SSL_CTX_new(self._lib.TLS_client_method())
        self._lib.SSL_CTX_set_max_proto_version(self._context, TLS_1_2)
        self._tls = self._lib.SSL_new(self._context)
        self._received, self._sent = (self._lib.BIO_new(self._lib.BIO_s_mem()) for _ in range(2))
        self._lib.SSL_set_bio(self._tls, self._received, self._sent)
        self._lib.SSL_set_connect_state(self._tls)
        sock.settimeout(20)
        while self._lib.SSL_do_handshake(self._tls) != 1:
            sock.sendall(self._taken())
            data = sock.recv(PIECE_BYTES)
            if not data:
                raise ConnectionResetError("closed in the first handshake")
            self._lib.BIO_write(self._received, data, len(data))
        sock.sendall(self._taken())
        sock.setblocking(False)  # noqa: FBT003 - the socket's own signature

    def ask(self) -> bytes:
        """Return the hello of another handshake, encrypted."""
        if self._lib.SSL_renegotiate(self._tls) != 1:
            raise OSError("no renegotiation")
        self._lib.SSL_do_handshake(self._tls)
        return self._taken()

    def _taken(self) -> bytes:
        buffer = self._ffi.new("char[]", PIECE_BYTES)
        count = self._lib.BIO_read(self._sent, buffer, PIECE_BYTES)
        return bytes(self._ffi.buffer(buffer, max(0, count)))

    def __del__(self) -> None:
        self._lib.SSL_free(self._tls)  # with its BIOs
        self._lib.SSL_CTX_free(self._context)
