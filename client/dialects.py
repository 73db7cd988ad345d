"""Messages of one dialect in the words of the other.

A broker's listener speaks Kafka's protocol or msgpack. The commands that move records write maps
(`client.msgpack`), the others message objects (`client.kafka`). Both are the same messages, so each
client can use either listener:

    to_map, from_map     a message as the map that msgpack packs, and back
    KafkaFrames          frames of Kafka's protocol for requests and answers that are maps
    MsgpackFrames        frames of msgpack for the same

The version is the newest that both sides know. A map has the fields of that version, so a broker
whose version is older refuses what it cannot express.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final, Protocol

import msgpack

from protocol.api_keys import ApiKey
from protocol.errors import DecodeError
from protocol.wire import Buffer, message_spec

CLIENT_ID: Final = "barnabas"
ELEMENTS_MAX: Final = 1 << 24
_REQUEST: Final = struct.Struct(">hhi")
_CORRELATION: Final = struct.Struct(">i")
_PACKED_ID: Final = struct.pack(">h", len(CLIENT_ID)) + CLIENT_ID.encode()


class DialectError(Exception):
    """A frame is not of the dialect, or the broker does not serve what was asked."""


class Frames(Protocol):
    """Requests and answers as frames, without their sizes."""

    def pack(self, api: str, correlation_id: int, body: Mapping[str, Any]) -> bytes:
        """Return a request. Raises DialectError."""
        ...

    def unpack(self, api: str, frame: bytes) -> tuple[int, dict[str, Any]]:
        """Return the correlation id and the body of an answer to `api`. Raises DialectError."""
        ...


@cache
def classes_of(api: str) -> tuple[Any, Any]:
    """Return the request and the response of an API, by its name in small letters."""
    module = import_module(f"protocol.messages.{api}")
    name = "".join(part.capitalize() for part in api.split("_"))
    return getattr(module, f"{name}Request"), getattr(module, f"{name}Response")


def to_map(message: Any, version: int) -> dict[str, Any]:
    """Return a message as a map."""
    made: dict[str, Any] = _map_maker(message.__class__, version)(message)
    return made


@cache
def _map_maker(cls: Any, version: int) -> Any:
    from protocol.msgpack.encoder import encoder

    return encoder(cls, version)


def from_map(cls: Any, version: int, packed: Buffer) -> Any:
    """Return the message of a packed map. Raises DialectError."""
    from protocol.msgpack.reader import BodyError, Reader

    reader = Reader(memoryview(packed), ELEMENTS_MAX)
    try:
        message, _ = _map_reader(cls, version)(reader)
    except (BodyError, IndexError, struct.error) as error:
        raise DialectError(f"{cls.__name__} {version}: {error}") from error
    return message


@cache
def _map_reader(cls: Any, version: int) -> Any:
    from protocol.msgpack.decoder import decoder
    from protocol.msgpack.reader import Reader

    more = (("raw", Reader.boolean),) if cls.__name__ == "FetchRequest" else ()
    return decoder(cls, version, Reader.view, more)


class MsgpackFrames:
    """Frames of the msgpack dialect."""

    def pack(self, api: str, correlation_id: int, body: Mapping[str, Any]) -> bytes:
        """Return a request."""
        packed: bytes = msgpack.packb([api, correlation_id, CLIENT_ID, body])
        return packed

    def unpack(self, api: str, frame: bytes) -> tuple[int, dict[str, Any]]:  # noqa: ARG002
        """Return the correlation id and the body of an answer. Raises DialectError."""
        try:
            correlation_id, body = msgpack.unpackb(frame)
        except (ValueError, TypeError) as error:
            raise DialectError(f"it does not speak msgpack: {error}") from error
        if not isinstance(body, dict) or not isinstance(correlation_id, int):
            raise DialectError(f"its answer is a {type(body).__name__}, expected a map")
        return correlation_id, body


def framed_map(api: str, correlation_id: int, message: Any, version: int) -> bytes:
    """Return a request of the msgpack dialect, with its size."""
    packed = MsgpackFrames().pack(api, correlation_id, to_map(message, version))
    return _CORRELATION.pack(len(packed)) + packed


def unframed_map(frame: Buffer, cls: Any, version: int) -> tuple[int, Any]:
    """Return the correlation id and the message of an answer. Raises DialectError."""
    correlation_id, body = MsgpackFrames().unpack("", bytes(frame))
    if body.keys() == {"error_code", "error_message"}:
        raise DialectError(f"it refuses it: {body['error_message']}")
    return correlation_id, from_map(cls, version, msgpack.packb(body))


class KafkaFrames:
    """Frames of Kafka's protocol; `learn` takes the answer to ApiVersions, which comes first."""

    def __init__(self) -> None:
        self._served: dict[int, tuple[int, int]] = {int(ApiKey.API_VERSIONS): (0, 0)}

    def learn(self, answer: Mapping[str, Any]) -> None:
        """Use the newest common versions from now on."""
        served = {one["api_key"]: one for one in answer["api_keys"]}
        self._served |= {
            key: (one["min_version"], one["max_version"])
            for key, one in served.items()
            if key != ApiKey.API_VERSIONS
        }

    def pack(self, api: str, correlation_id: int, body: Mapping[str, Any]) -> bytes:
        """Return a request. Raises DialectError."""
        from protocol.kafka.codec import encoder

        cls, _ = classes_of(api)
        version = self._version(api, cls)
        message = from_map(cls, version, msgpack.packb(body))
        spec = message_spec(cls)
        parts: list[Buffer] = [bytearray()]
        encoder(cls, version)(message, parts)
        tags = b"\0" if spec.is_flexible(version) else b""
        head = _REQUEST.pack(spec.api_key, version, correlation_id) + _PACKED_ID + tags
        return b"".join([head, *parts])

    def unpack(self, api: str, frame: bytes) -> tuple[int, dict[str, Any]]:
        """Return the correlation id and the body of an answer to `api`. Raises DialectError."""
        from protocol.kafka.codec import decode_message

        request, response = classes_of(api)
        version = self._version(api, request)
        view, position = memoryview(frame), _CORRELATION.size
        is_versions = message_spec(request).api_key == ApiKey.API_VERSIONS
        try:
            (correlation_id,) = _CORRELATION.unpack_from(view)
            if message_spec(response).is_flexible(version) and not is_versions:
                position += 1  # Kafka has defined no tagged field of a header
            message, _ = decode_message(response, version, view, position)
        except (DecodeError, IndexError, struct.error) as error:
            raise DialectError(f"it does not speak Kafka's protocol: {error}") from error
        return correlation_id, _plain(to_map(message, version))

    def _version(self, api: str, cls: type[Any]) -> int:
        spec = message_spec(cls)
        oldest, newest = self._served.get(spec.api_key, (0, -1))
        version = min(newest, spec.version_max)
        if version < max(oldest, spec.version_min):
            raise DialectError(f"it does not serve {api} in a version that is known here")
        return version


def _plain(value: Any) -> Any:
    """Return a value as msgpack would have unpacked it: views are bytes."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return bytes(value) if isinstance(value, memoryview | bytearray) else value
