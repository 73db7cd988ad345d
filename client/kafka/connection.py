"""A connection to one broker, Barnabas or Apache Kafka: one request and its response at a time.

Blocking and small, for the command line and tests: a socket, the compiled codecs of
`protocol.kafka`, and the message classes. `open` asks for the broker's versions (ApiVersions, with
KIP-511's fallback to version 0); `call` then uses the newest version that both sides know.

A listener that hangs up on ApiVersions may be one for msgpack: `open` then asks in that dialect, in
which the same messages travel as maps (`client.dialects`).

Every failure is a `BrokerError` whose text says what was tried, what happened, and what to do.
Error codes inside a response (of a topic, say) are for the caller to check.
"""

from __future__ import annotations

import socket
import struct
from typing import Any, Final, Self

from client.addresses import login_of, tls_of, why_no_tls
from client.codes import BrokerError as BrokerError  # its readers take it from here
from client.codes import code_text
from protocol.api_keys import ApiKey
from protocol.errors import DecodeError, EncodeError, ErrorCode
from protocol.kafka.codec import decode_message, encoder
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.wire import Buffer, message_spec

DEFAULT_PORT: Final = 9092
CLIENT_ID: Final = "barnabas"
VERSION_MAX: Final = (1 << 15) - 1
RESPONSE_BYTES_MAX: Final = 100 << 20  # Kafka's own limit for requests

_REQUEST_HEADER = struct.Struct(">ihhi")  # with the frame's size before it
_RESPONSE_HEADER = struct.Struct(">i")
_CLIENT_ID = struct.pack(">h", len(CLIENT_ID)) + CLIENT_ID.encode()


class NotItsDialect(BrokerError):
    """The listener does not speak the dialect in which it was asked."""


class NotServed(BrokerError):
    """The broker does not serve an API in any version that this client knows."""


def split_address(address: str) -> tuple[str, int]:
    """Split HOST:PORT, [IPV6]:PORT or HOST (port 9092). Raises BrokerError."""
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):
        host, port = address, str(DEFAULT_PORT)
    if not port.isdecimal() or not 0 < int(port) < 1 << 16 or not host:
        raise BrokerError(f"{address!r} is not an address; expected HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)


class Connection:
    """One connection, a context manager. `versions` holds what the broker serves, by API key.

    `features` holds the levels that are finalized, by name (KIP-584). `is_msgpack`: the dialect to
    try first, and from `open` on the dialect that the listener speaks.
    """

    def __init__(self, address: str, timeout_s: float, *, is_msgpack: bool = False) -> None:
        self.address = address
        self.is_msgpack = is_msgpack
        self.versions: dict[int, tuple[int, int]] = {}
        self.features: dict[str, int] = {}
        self._timeout_s = timeout_s
        self._socket: socket.socket | None = None
        self._correlation_id = 0

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> None:
        """Connect, ask for the broker's versions, and log in. Raises BrokerError."""
        self.introduce()
        try:
            self._log_in()
        except BaseException:
            self.close()
            raise

    def introduce(self) -> None:
        """Connect and ask for the broker's versions, in either dialect. Raises BrokerError."""
        try:
            try:
                self._connect()
                self._learn_versions()
            except NotItsDialect as first:
                self._try_the_other(first)
        except BaseException:
            self.close()
            raise

    def _try_the_other(self, first: NotItsDialect) -> None:
        """Ask in the other dialect; if that fails too, raise what was wrong with the first."""
        self.close()
        self.is_msgpack = not self.is_msgpack
        try:
            self._connect()
            self._learn_versions()
        except BrokerError:
            raise first from None

    def _connect(self) -> None:
        host, port = split_address(self.address)
        try:
            self._socket = socket.create_connection((host, port), self._timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._encrypt(host)
        except UnicodeError as error:  # of IDNA, before a name is looked up
            raise BrokerError(f"{host!r} is no name of a host: {error}") from error
        except OSError as error:
            self.close()
            raise BrokerError(
                f"no broker answers at {self.address}: {_reason(error)}. Is it running, and is "
                "this the address of its listener? (--bootstrap HOST:PORT or BARNABAS_BOOTSTRAP)"
            ) from error

    def _encrypt(self, host: str) -> None:
        """Begin TLS, if the address asks for it. Raises OSError, BrokerError."""
        tls = tls_of(self.address)
        if tls is None or self._socket is None:
            return
        try:
            self._socket = tls.wrap_socket(self._socket, server_hostname=host)
        except TimeoutError:
            raise
        except (OSError, ValueError) as error:  # ValueError: for a host that is no name
            self.close()
            raise BrokerError(why_no_tls(self.address, error)) from error

    def _log_in(self) -> None:
        """Log in, if the address asks for it. Raises BrokerError."""
        login = login_of(self.address)
        if login is not None:
            from client.kafka.log_in import log_in

            log_in(self.address, login, self.call)

    def close(self) -> None:
        """Hang up."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _learn_versions(self) -> None:
        newest = message_spec(ApiVersionsRequest).version_max
        asked = ApiVersionsRequest(client_software_name="barnabas-cli", client_software_version="1")
        answer = self._first_exchange(asked, newest)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            answer = self._first_exchange(ApiVersionsRequest(), 0)
        if answer.error_code:
            raise BrokerError(f"{self.address} refused ApiVersions: {code_text(answer.error_code)}")
        self.versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        if answer.finalized_features_epoch >= 0:
            self.features = {one.name: one.max_version_level for one in answer.finalized_features}

    def _first_exchange(self, request: Any, version: int) -> Any:
        """Ask for versions. Raises NotItsDialect where the listener hangs up, or says nonsense."""
        try:
            return self._exchange(request, ApiVersionsResponse, version)
        except BrokerError as error:
            if isinstance(error.__cause__, TimeoutError):
                raise
            raise NotItsDialect(str(error)) from error

    def serves(self, request: type[Any]) -> bool:
        """Whether the broker serves an API in a version that this client knows."""
        return self.version_of(request) >= 0

    def version_of(self, request: type[Any], version_max: int = VERSION_MAX) -> int:
        """Return the newest version up to `version_max` that both sides know, -1 if none."""
        spec = message_spec(request)
        oldest, newest = self.versions.get(spec.api_key, (0, -1))
        version = min(newest, spec.version_max, version_max)
        return version if version >= max(oldest, spec.version_min) else -1

    def call(
        self,
        request: Any,
        response: type[Any],
        *,
        version_min: int = 0,
        version_max: int = VERSION_MAX,
    ) -> Any:
        """Send a request in the newest common version and return its response.

        `version_min` and `version_max` are for requests with fields that only newer, or only older,
        versions have. Raises NotServed, and BrokerError.
        """
        version = self.version_of(type(request), version_max)
        key = ApiKey(message_spec(type(request)).api_key)
        if version < version_min:
            oldest = max(version_min, message_spec(type(request)).version_min)
            raise NotServed(
                f"{self.address} {_served(self.versions.get(key))}: this needs {key.name} (API key"
                f" {int(key)}), version {oldest} {_up_to(version_max)}"
            )
        if self.is_msgpack and version < min(
            self.versions[key][1], message_spec(type(request)).version_max
        ):
            raise NotServed(
                f"{self.address} speaks msgpack, which has no version {version} of {key.name}: name"
                " a listener for Kafka's protocol (--bootstrap)"
            )
        return self._exchange(request, response, version)

    def _exchange(self, request: Any, response: type[Any], version: int) -> Any:
        spec = message_spec(type(request))
        self._correlation_id += 1
        if self.is_msgpack:
            return self._exchange_maps(request, response, version)
        body = _encoded(request, version)
        head = _REQUEST_HEADER.pack(0, spec.api_key, version, self._correlation_id) + _CLIENT_ID
        if spec.is_flexible(version):
            head += b"\0"
        frame = bytearray(head + body)
        struct.pack_into(">i", frame, 0, len(frame) - 4)
        answer = self._answer_to(frame, ApiKey(spec.api_key).name)
        return self._read(answer, response, spec.api_key, version)

    def _exchange_maps(self, request: Any, response: type[Any], version: int) -> Any:
        from client.dialects import DialectError, framed_map, unframed_map

        name = ApiKey(message_spec(type(request)).api_key).name
        frame = framed_map(name.lower(), self._correlation_id, request, version)
        answer = self._answer_to(frame, name)
        try:
            correlation_id, said = unframed_map(answer, response, version)
        except DialectError as error:
            raise BrokerError(f"{self.address} did not answer {name}: {error}") from error
        if correlation_id != self._correlation_id:
            raise BrokerError(f"{self.address} answered request {correlation_id} instead")
        return said

    def _answer_to(self, frame: bytes | bytearray, name: str) -> memoryview:
        try:
            return self._round_trip(frame)
        except TimeoutError as error:
            raise BrokerError(
                f"{self.address} did not answer {name} within {self._timeout_s:g} s. It may be "
                "busy or stuck: see its log, or wait longer (--timeout)"
            ) from error
        except OSError as error:
            raise BrokerError(
                f"the connection to {self.address} broke while it answered {name}: "
                f"{_reason(error)}. See the broker's log{_perhaps(self.address)}"
            ) from error

    def _round_trip(self, frame: bytes | bytearray) -> memoryview:
        assert self._socket is not None, "the connection is not open"
        self._socket.sendall(frame)
        (size,) = _RESPONSE_HEADER.unpack(self._receive(4))
        if not 4 <= size <= RESPONSE_BYTES_MAX:
            raise BrokerError(
                f"{self.address} answered with a size of {size} bytes: it does not speak Kafka's "
                "protocol without encryption. Is it a TLS listener (--command-config with "
                "security.protocol=SSL), or another server?"
            )
        return self._receive(size)

    def _receive(self, size: int) -> memoryview:
        assert self._socket is not None
        data = bytearray()
        while len(data) < size:
            piece = self._socket.recv(min(size - len(data), 1 << 20))
            if not piece:
                raise ConnectionResetError(
                    f"it hung up after {len(data)} of {size} bytes" if data else "it hung up"
                )
            data += piece
        return memoryview(data)

    def _read(self, answer: memoryview, response: type[Any], api_key: int, version: int) -> Any:
        (correlation_id,) = _RESPONSE_HEADER.unpack_from(answer)
        if correlation_id != self._correlation_id:
            raise BrokerError(
                f"{self.address} answered request {correlation_id}, but was asked "
                f"{self._correlation_id}"
            )
        position = _RESPONSE_HEADER.size
        is_versions = api_key == ApiKey.API_VERSIONS
        try:
            if is_versions and answer[position : position + 2] == _UNSUPPORTED:
                version = 0  # KIP-511: this error is always answered in version 0
            elif message_spec(response).is_flexible(version) and not is_versions:
                position = _skip_tags(answer, position)
            message, _ = decode_message(response, version, answer, position)
        except (DecodeError, IndexError) as error:
            name = ApiKey(api_key).name
            raise BrokerError(
                f"{self.address} answered {name} {version} with something else: {error}"
            ) from error
        return message


_UNSUPPORTED: Final = struct.pack(">h", ErrorCode.UNSUPPORTED_VERSION)


def _encoded(request: Any, version: int) -> bytes:
    """Return the bytes of a request. Raises BrokerError, and UnicodeEncodeError (`lazy_group`)."""
    parts: list[Buffer] = [bytearray()]
    try:
        encoder(type(request), version)(request, parts)
    except EncodeError as error:
        if isinstance(error.__cause__, UnicodeEncodeError):
            raise error.__cause__ from None
        raise BrokerError(
            f"nothing was sent: a name or a number does not fit the request ({error})"
        ) from error
    return b"".join(parts)


def _served(versions: tuple[int, int] | None) -> str:
    """Return which versions a broker serves, in words."""
    return f"serves versions {versions[0]} to {versions[1]}" if versions else "does not serve it"


def _up_to(version_max: int) -> str:
    return "or later" if version_max == VERSION_MAX else f"to {version_max}"


def _skip_tags(answer: memoryview, position: int) -> int:
    """Skip the tagged fields of a response header: Kafka has defined none."""
    if answer[position] != 0:
        raise DecodeError("tagged fields in the response header")
    return position + 1


def _perhaps(address: str) -> str:
    """Return what else a client without a login should look at."""
    if login_of(address) is not None:
        return ""
    return "; does the listener want a login (--command-config with sasl.mechanism)?"


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "it took too long"
    return error.strerror or str(error)
