"""Kafka's wire protocol: headers, and the exceptions to them.

    request   int16 api key, int16 version, int32 correlation id, nullable string client id
              (int16 length, also where all else is compact), tagged fields in header v2
    response  int32 correlation id, tagged fields in header v1

A flexible version of a request has header v2, its response header v1; all others v1 and v0.
The exceptions (KIP-511): the response of ApiVersions has header v0 always, as a client reads it
before it knows what the broker speaks; and a version of it that is not served is not refused. Its
body cannot be read, so the request is delivered with an empty one, and the answer is written in
version 0: the handler puts UNSUPPORTED_VERSION (35) and the list into it.

Bytes behind a body are ignored and counted: Kafka 4.3 ignores them too (tried).
"""

import struct
from collections.abc import Generator, Mapping
from typing import Any, Final

from protocol.api_keys import ApiKey
from protocol.dialect import DecodedRequest, RequestHeader, ServedApi
from protocol.errors import DecodeError, TakesLong, UnknownApiKey, UnsupportedVersion
from protocol.java_text import JAVA
from protocol.kafka import usual_fetch, usual_produce
from protocol.kafka.codec import Decoder, Encoder, decoder, encoder, step_encoder
from protocol.kafka.primitives import read_uvarint, skip_tags
from protocol.kafka.produce_scan import names_many
from protocol.kafka.usual_produce import UsualProduces
from protocol.likely_mistakes import of_kafka_frame
from protocol.wire import Buffer, message_spec

_PRODUCE: Final = int(ApiKey.PRODUCE)
_FETCH: Final = int(ApiKey.FETCH)
_KEY = struct.Struct(">h")
_REQUEST_HEADER = struct.Struct(">hhih")
_RESPONSE_HEADER_V0 = struct.Struct(">ii")  # with the frame's size before it
_RESPONSE_HEADER_V1 = struct.Struct(">iix")  # ... and no tagged fields after it
_SIZE = struct.Struct(">i")
# Of a frame that is decoded on the loop. Names and small structs take up to 0.3 us a byte. A large
# Produce usually has large records, which stay as they are (`protocol.kafka.produce_scan`).
QUICK_BYTES_MAX = 32 * 1024


class KafkaDialect:
    """Decodes Kafka requests and encodes their responses, for the APIs that are served.

    Codecs are compiled when a client first uses a version.
    """

    __slots__ = ("_decoders", "_encoders", "_served", "_usual", "trailing_bytes_ignored")

    def __init__(self, served: Mapping[int, ServedApi]) -> None:
        self._served = dict(served)
        # (api key, version) -> function and whether the version is flexible.
        self._decoders: dict[tuple[int, int], tuple[Decoder, bool]] = {}
        self._encoders: dict[tuple[int, int], tuple[Encoder, struct.Struct]] = {}
        self._usual = UsualProduces()
        self.trailing_bytes_ignored = 0

    def api_of(self, frame: memoryview) -> int:
        """Return the key that a frame begins with; -1 if it is shorter."""
        return int(_KEY.unpack_from(frame)[0]) if len(frame) >= _KEY.size else -1

    def decode_request(
        self,
        frame: memoryview,
        *,
        in_thread: bool = False,
    ) -> DecodedRequest:
        """Decode one frame, without its size.

        Raises UnknownApiKey, UnsupportedVersion, DecodeError or TakesLong: all ProtocolErrors.
        """
        try:
            api_key, version, correlation_id, size = _REQUEST_HEADER.unpack_from(frame)
        except struct.error:
            raise DecodeError(
                f"a request of {len(frame)} bytes is shorter than its header of "
                f"{_REQUEST_HEADER.size}"
            ) from None
        found = self._decoders.get((api_key, version))
        if found is None:
            if api_key not in self._served:
                raise UnknownApiKey(api_key, of_kafka_frame(frame))
            found = self._make_decoder(api_key, version)
        usual: tuple[str | None, Any] | None = None
        if api_key == _PRODUCE:
            usual = self._usual.read(frame, version, size)
        elif api_key == _FETCH:
            usual = usual_fetch.decoded(frame, version, size)
        if usual is not None:
            client_id, body = usual
            header = RequestHeader(api_key, version, correlation_id, client_id)
            return DecodedRequest(header, body)
        is_long = len(frame) > QUICK_BYTES_MAX and not in_thread
        if is_long and api_key != ApiKey.PRODUCE:
            raise TakesLong(f"{len(frame)} bytes of a request")
        decode, is_flexible = found
        client_id, position = _client_id(frame, size)
        if is_long and names_many(frame, position, version):
            raise TakesLong(f"{len(frame)} bytes of a request that names much")
        if is_flexible:
            position = _skip_header_tags(frame, position)
        body, position = decode(frame, position)
        if position != len(frame):
            self.trailing_bytes_ignored += len(frame) - position
        elif api_key == _PRODUCE:
            self._usual.learn(frame, version, client_id, size, body)
        return DecodedRequest(RequestHeader(api_key, version, correlation_id, client_id), body)

    def encode_response(self, header: RequestHeader, response: Any) -> list[Buffer]:
        """Return the frame that answers `header`: its size, its header, and `response`.

        Records of 1,024 bytes and more are buffers of their own. Raises EncodeError.
        """
        if header.api_key == _PRODUCE:
            if (answer := usual_produce.encoded(header, response)) is not None:
                return [answer]
        elif header.api_key == _FETCH and (
            (buffers := usual_fetch.encoded(header, response)) is not None
        ):
            return buffers
        found = self._encoders.get((header.api_key, header.api_version))
        if found is None:
            found = self._make_encoder(header.api_key, header.api_version)
        encode, response_header = found
        head = bytearray(response_header.pack(0, header.correlation_id))
        parts: list[Buffer] = [head]
        encode(response, parts)
        if len(parts) > 1:
            return _framed(head, parts)
        # As there, without a call.
        _SIZE.pack_into(head, 0, len(head) - _SIZE.size)
        return parts

    def encode_in_steps(
        self, header: RequestHeader, response: Any
    ) -> Generator[int, None, list[Buffer]]:
        """Do what `encode_response` does, yielding by how many bytes the frame has grown."""
        version = header.api_version
        found = self._encoders.get((header.api_key, version))
        if found is None:
            found = self._make_encoder(header.api_key, version)
        head = bytearray(found[1].pack(0, header.correlation_id))
        parts: list[Buffer] = [head]
        yield from step_encoder(self._served[header.api_key].response, version)(response, parts)
        return _framed(head, parts)

    def _make_decoder(self, api_key: int, version: int) -> tuple[Decoder, bool]:
        served = self._served[api_key]
        spec = message_spec(served.request)
        made: tuple[Decoder, bool]
        if served.min_version <= version <= served.max_version:
            made = decoder(served.request, version), spec.is_flexible(version)
        elif api_key == ApiKey.API_VERSIONS:
            # Not kept: a client could fill the table with versions that do not exist.
            return _skip_body(served.request), spec.is_flexible(version)
        else:
            raise UnsupportedVersion(api_key, version, served.min_version, served.max_version)
        self._decoders[api_key, version] = made
        return made

    def _make_encoder(self, api_key: int, version: int) -> tuple[Encoder, struct.Struct]:
        served = self._served[api_key]
        if api_key == ApiKey.API_VERSIONS:
            if not served.min_version <= version <= served.max_version:
                return encoder(served.response, 0), _RESPONSE_HEADER_V0
            made = encoder(served.response, version), _RESPONSE_HEADER_V0
        else:
            is_flexible = message_spec(served.response).is_flexible(version)
            made = (
                encoder(served.response, version),
                _RESPONSE_HEADER_V1 if is_flexible else _RESPONSE_HEADER_V0,
            )
        self._encoders[api_key, version] = made
        return made


def _framed(head: bytearray, parts: list[Buffer]) -> list[Buffer]:
    """Write the size of all parts into the first."""
    size = len(head)
    if len(parts) > 1:
        if not parts[-1]:
            parts.pop()
        size = sum(map(len, parts))
    _SIZE.pack_into(head, 0, size - _SIZE.size)
    return parts


def _client_id(frame: memoryview, size: int) -> tuple[str | None, int]:
    """Return the client id of `size` bytes, and the position after it."""
    position = _REQUEST_HEADER.size
    if size >= 0:
        end = position + size
        if end > len(frame):
            raise DecodeError(
                f"client id has {size} bytes, {len(frame) - position} remain in the request"
            )
        return frame[position:end].tobytes().decode("utf-8", JAVA), end
    if size != -1:
        raise DecodeError(f"client id had invalid length {size}")
    return None, position


def _skip_header_tags(frame: memoryview, position: int) -> int:
    """Skip the tagged fields of a header: Kafka defines none that a broker must know."""
    try:
        count = frame[position]
        if count == 0:
            return position + 1
        count, position = read_uvarint(frame, position)
        return skip_tags(frame, position, len(frame), count, "the request header")
    except IndexError:
        raise DecodeError(f"request header ends inside a field: {len(frame)} bytes") from None


def _skip_body(cls: type[Any]) -> Decoder:
    def skip(frame: memoryview, _position: int) -> tuple[Any, int]:
        return cls(), len(frame)

    return skip
