"""The msgpack dialect: what a frame says, and how it is answered.

    request   [api, correlation_id, client_id, body]
    answer    [correlation_id, body]

`api` is an API's name in snake_case ("create_topics") or its key. `body` is a map of the
message's fields at the highest version that is served. A frame is one such array after the four
bytes of its size (`protocol.framing`).

A request that cannot be read but has a correlation id is answered with `{error_code,
error_message}` in place of a body, and the connection goes on (BadRequest); without one, there
is nothing to answer to, and the connection is closed.

Fetch has one field that Kafka has not, `raw`. Unless it is true, `records` in the answer is an
array of maps, and each partition has `next_offset`, where to go on: not always behind the last
record (`protocol.msgpack.record_maps`). Such a fetch asks for no more than can be opened at once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgpack

from protocol.api_keys import ApiKey
from protocol.dialect import DecodedRequest, RequestHeader, ServedApi
from protocol.errors import BadRequest, DecodeError, EncodeError, ErrorCode
from protocol.messages.fetch import FetchRequest
from protocol.msgpack.decoder import Decode, decoder
from protocol.msgpack.encoder import Encode, encoder
from protocol.msgpack.reader import BodyError, Reader
from protocol.msgpack.record_maps import OPENED_BYTES_MAX, Opener, read_batch
from protocol.wire import Buffer

# Elements of all arrays of one request. Each may become an object; a list of as many records is
# built in a quarter of a second, which is what others may wait for it. Raw batches have no limit.
ELEMENTS_MAX: Final = 64 * 1024
ENVELOPE_COUNT: Final = 4

# A packer is kept, as making its buffer costs more than a small answer; up to this answer's size.
PACKED_BYTES_MIN: Final = 64 * 1024

_SIZE = struct.Struct(">I")
_INTEGER_END: Final = 1 << 31


@dataclass(slots=True)
class MsgpackHeader(RequestHeader):
    """The header of a request, and what only the answer to a Fetch needs."""

    raw: bool = True
    offsets: dict[tuple[bytes, int], int] = field(default_factory=dict)


class MsgpackDialect:
    """Decodes requests and encodes their answers, for the APIs that are served."""

    __slots__ = ("_decoders", "_encoders", "_now_ms", "_packer", "_served")

    def __init__(self, served: Mapping[int, ServedApi], now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._served: dict[int | str, ServedApi] = {}
        for api_key, api in served.items():
            self._served[api_key] = self._served[ApiKey(api_key).name.lower()] = api
        # Made when a client first uses an API.
        self._decoders: dict[int, Decode] = {}
        self._encoders: dict[int, Encode] = {}
        self._packer = msgpack.Packer()

    def decode_request(self, frame: memoryview) -> DecodedRequest:
        """Decode one frame, without its size; raises BadRequest or DecodeError."""
        reader = Reader(frame, ELEMENTS_MAX)
        try:
            count = reader.array()
            api = reader.integer() if _is_integer(reader.peek()) else reader.text()
            correlation_id = reader.integer()
        except (BodyError, IndexError, struct.error) as error:
            raise DecodeError(
                "wanted [api, correlation_id, client_id, body] in msgpack, "
                f"of {len(frame)} bytes: {_said(error)}"
            ) from None
        if not -_INTEGER_END <= correlation_id < _INTEGER_END:
            raise DecodeError(f"correlation id {correlation_id} does not fit 32 bits")
        try:
            return self._decode(reader, count, api, correlation_id)
        except (BodyError, IndexError, struct.error) as error:
            raise _bad(correlation_id, f"{_named(api)}: {_said(error)}") from None

    def _decode(
        self, reader: Reader, count: int, api: int | str, correlation_id: int
    ) -> DecodedRequest:
        if count != ENVELOPE_COUNT:
            raise BodyError(f"wanted [api, correlation_id, client_id, body], found {count} values")
        served = self._served.get(api)
        if served is None:
            raise BodyError("no such API is served")
        client_id = None if reader.take_nil() else reader.text()
        header = MsgpackHeader(
            served.api_key, served.max_version, correlation_id, client_id, copies_records=True
        )
        decode = self._decoders.get(served.api_key)
        if decode is None:
            decode = self._make_decoder(served)
        body, extras = decode(reader)
        if reader.position != len(reader.data):
            raise BodyError(f"{len(reader.data) - reader.position} bytes follow the request")
        if served.api_key == ApiKey.FETCH and not extras.get("raw", False):
            _open_answer(header, body)
        return DecodedRequest(header, body)

    def encode_response(self, header: RequestHeader, response: Any) -> list[Buffer]:
        """Return the frame that answers `header`; raises EncodeError."""
        encode = self._encoders.get(header.api_key)
        if encode is None:
            encode = encoder(self._served[header.api_key].response, header.api_version)
            self._encoders[header.api_key] = encode
        body = encode(response)
        if isinstance(header, MsgpackHeader) and not header.raw:
            _open_records(header, body)
        try:
            packed: bytes = self._packer.pack([header.correlation_id, body])
        except (TypeError, ValueError, OverflowError) as error:
            raise EncodeError(f"{type(response).__name__}: {error}") from error
        size = len(packed)
        if size < PACKED_BYTES_MIN:
            return [_SIZE.pack(size) + packed]
        self._packer = msgpack.Packer()  # its buffer has grown with the answer
        return [_SIZE.pack(size), packed]

    def _make_decoder(self, served: ServedApi) -> Decode:
        more = _FETCH_MORE if served.api_key == ApiKey.FETCH else ()
        decode = decoder(served.request, served.max_version, self._records, more)
        self._decoders[served.api_key] = decode
        return decode

    def _records(self, reader: Reader) -> memoryview:
        return read_batch(reader, self._now_ms())


_FETCH_MORE: Final = (("raw", Reader.boolean),)


def _open_answer(header: MsgpackHeader, body: FetchRequest) -> None:
    """Note what is needed to open the records of the answer, and ask for no more than that."""
    header.raw = False
    body.max_bytes = min(body.max_bytes, OPENED_BYTES_MAX)
    for topic in body.topics:
        for partition in topic.partitions:
            header.offsets[topic.topic_id, partition.partition] = partition.fetch_offset


def _open_records(header: MsgpackHeader, body: dict[str, Any]) -> None:
    opener = Opener()
    for topic in body["responses"]:
        for partition in topic["partitions"]:
            asked = (topic["topic_id"], partition["partition_index"])
            offset = header.offsets.get(asked, -1)
            records, next_offset, code = opener.open(partition["records"] or b"", offset)
            partition["records"] = records
            partition["next_offset"] = next_offset
            if code is not ErrorCode.NONE:
                partition["error_code"] = code


def _frame(value: Any) -> bytes:
    packed: bytes = msgpack.packb(value)
    return _SIZE.pack(len(packed)) + packed


def _bad(correlation_id: int, reason: str) -> BadRequest:
    code = ErrorCode.INVALID_REQUEST
    answer = _frame([correlation_id, {"error_code": code, "error_message": reason}])
    return BadRequest(correlation_id, reason, answer)


def _is_integer(head: int) -> bool:
    return head < 0x80 or head >= 0xE0 or 0xCC <= head <= 0xD3


def _named(api: int | str) -> str:
    return api[:100] if isinstance(api, str) else f"API key {api}"


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, BodyError) else "it ends inside a value"
