"""One connection to one broker: sends requests, receives the response to each.

When it opens, a connection asks for the broker's API versions, and refuses a broker that lacks one
in `pyspark_barnabas.wire.protocol`. `send` and `receive` are separate, so that a reader has its
next fetch under way while it decodes the last. Others may use the connection meanwhile: a response
that comes before the one that is waited for is kept for its request, or dropped if its sender has
forgotten it. Socket failures are OSError (ConnectionLost, TimeoutError); the caller decides whether
to retry.
"""

from __future__ import annotations

import socket
import struct
from collections import deque

from pyspark_barnabas.wire.errors import BrokerRefused
from pyspark_barnabas.wire.logins import begin
from pyspark_barnabas.wire.primitives import Reader, parse, string
from pyspark_barnabas.wire.protocol import (
    ADMIN_VERSIONS,
    API_NAMES,
    API_VERSIONS,
    DESCRIBE_TRANSACTIONS,
    LIST_TRANSACTIONS,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    VERSIONS,
    read_api_versions,
    request,
)
from pyspark_barnabas.wire.security import PLAINTEXT, Security

RESPONSE_BYTES_MAX = 1 << 30  # no broker sends more: a fetch asks for far less

_size = struct.Struct(">i")
_CORRELATION_BYTES = 4
_SINCE_KAFKA_3 = (DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS)


def _read_token(reader: Reader) -> tuple[int, str, bytes]:
    """Return the error code, its text and the broker's token."""
    code, text, size = reader.int16(), reader.string(), reader.int32()
    return code, text, bytes(reader.data[reader.position : reader.position + max(0, size)])


class ConnectionLost(OSError):
    """The broker closed the connection, or its responses are out of order."""


class Connection:
    """An open connection; the owner closes it."""

    def __init__(
        self,
        host: str,
        port: int,
        client_id: str,
        timeout_ms: int,
        security: Security = PLAINTEXT,
    ) -> None:
        self.address = f"{host}:{port}"
        self._client_id = client_id
        self._correlation_id = 0
        self._waiting: deque[int] = deque()  # requests without a response, in their order
        self._kept: dict[int, bytearray] = {}  # responses that nobody has received yet
        self._forgotten: set[int] = set()  # of those waiting
        self._served: dict[int, tuple[int, int]] = {}
        self._socket = socket.create_connection((host, port), timeout_ms / 1000)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            if security.is_encrypted:
                self._socket = security.context().wrap_socket(self._socket, server_hostname=host)
            self._check_versions()
            if security.mechanism:
                self._log_in(security)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the socket; pending responses are lost."""
        self._socket.close()

    def call(self, api_key: int, body: bytes) -> bytearray:
        """Send a request and return the body of its response."""
        return self.receive(self.send(api_key, body))

    def send(self, api_key: int, body: bytes) -> int:
        """Send a request, and return its number, for `receive`."""
        if api_key in ADMIN_VERSIONS:
            self._require(api_key, ADMIN_VERSIONS[api_key])
        self._correlation_id += 1
        self._socket.sendall(request(api_key, self._correlation_id, self._client_id, body))
        self._waiting.append(self._correlation_id)
        return self._correlation_id

    def receive(self, number: int) -> bytearray:
        """Return the body of the response to the request of that number, once."""
        while number not in self._kept:
            found, body = self._next()
            if found in self._forgotten:
                self._forgotten.discard(found)
            else:
                self._kept[found] = body
        return self._kept.pop(number)

    def forget(self, number: int) -> None:
        """Drop the response to a request, which nobody will receive."""
        if self._kept.pop(number, None) is None:
            self._forgotten.add(number)

    def _next(self) -> tuple[int, bytearray]:
        """Return the oldest outstanding response, with the number of its request."""
        head = self._exactly(_size.size + _CORRELATION_BYTES)
        size, correlation_id = struct.unpack(">ii", head)
        wanted = self._waiting.popleft()
        if correlation_id != wanted or not _CORRELATION_BYTES <= size <= RESPONSE_BYTES_MAX:
            raise ConnectionLost(
                f"{self.address} answered with {size} bytes for request {correlation_id}, "
                f"not for {wanted}: check that this is the port of a Kafka listener"
            )
        return wanted, self._exactly(size - _CORRELATION_BYTES)

    def _exactly(self, size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        done = 0
        while done < size:
            count = self._socket.recv_into(view[done:])
            if count == 0:
                raise ConnectionLost(f"{self.address} closed the connection")
            done += count
        view.release()
        return data

    def _log_in(self, security: Security) -> None:
        """Log in by SASL. Raises BrokerRefused."""
        answer = self.call(SASL_HANDSHAKE, string(security.mechanism))
        code, offered = parse(lambda reader: (reader.int16(), reader.array(reader.string)), answer)
        if code:
            raise BrokerRefused(
                code,
                f"{self.address} does not offer {security.mechanism}, but "
                f"{', '.join(offered) or 'no login'}: see kafka.sasl.mechanism",
            )
        tokens = begin(security.mechanism, security.username, security.password)
        token: bytes | None = next(tokens)
        while token is not None:
            body = struct.pack(">i", len(token)) + token
            code, text, data = parse(_read_token, self.call(SASL_AUTHENTICATE, body))
            if code:
                raise BrokerRefused(
                    code,
                    f"{self.address} refuses the login of {security.username!r} by "
                    f"{security.mechanism}: {text or code}",
                )
            try:
                token = tokens.send(data)
            except StopIteration:
                token = None

    def _check_versions(self) -> None:
        self._served = parse(read_api_versions, self.call(API_VERSIONS, b""))
        for key, version in VERSIONS.items():
            self._require(key, version)

    def _require(self, key: int, version: int) -> None:
        lowest, highest = self._served.get(key, (0, -1))
        if not lowest <= version <= highest:
            raise BrokerRefused(
                35,
                f"the broker at {self.address} serves {API_NAMES.get(key, key)} in versions "
                f"{lowest} to {highest}, and this source speaks {version}: use Apache Kafka "
                f"{3 if key in _SINCE_KAFKA_3 else 2.8} or later, or Barnabas",
            )
