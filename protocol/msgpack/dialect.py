"""The msgpack dialect: the layout of requests and responses.

    request   [api, correlation_id, client_id, body]
    answer    [correlation_id, body]

`api` is an API's name in snake_case ("create_topics") or its key. `body` is a map of the
message's fields at the highest version that is served. A frame is one such array after the four
bytes of its size (`protocol.framing`).

A request that cannot be read but has a correlation id is answered with `{error_code,
error_message}` in place of a body, and the connection goes on (BadRequest); without one, there
is nothing to answer to, and the connection is closed.

Fetch has one field that Kafka lacks, `raw`. Unless it is true, `records` in the answer is an
array of maps, and each partition has `next_offset`, where to go on: not always behind the last
record (`protocol.msgpack.record_maps`). Such a fetch asks for no more than can be opened at once.
Its answer may want a thread for its encoding, and says so (`RequestHeader.wants_thread`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import msgpack

from protocol.api_keys import ApiKey
from protocol.compression import NONE
from protocol.dialect import DecodedRequest, RequestHeader, ServedApi
from protocol.errors import BadRequest, DecodeError, EncodeError, ErrorCode, TakesLong
from protocol.likely_mistakes import of_msgpack_frame, said
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.msgpack.compiler import CompiledDecode, compile_decoder
from protocol.msgpack.decoder import Decode, decoder
from protocol.msgpack.encoder import Encode, encoder, packed_in_steps, step_encoder
from protocol.msgpack.primitives import GIVES_UP, Irregular, read_binary_size, read_integer
from protocol.msgpack.reader import BodyError, Reader, TooManyBytes, TooManyElements, is_array
from protocol.msgpack.record_maps import OPENED_BYTES_MAX, Opener, read_batch
from protocol.msgpack.repetition import Repetition
from protocol.record_batch import MAGIC, batches
from protocol.record_errors import RecordError
from protocol.record_walks import Rest, no_rest
from protocol.wire import Buffer

# Elements of all arrays of one request. Each may become an object; a list of as many records is
# built in a quarter of a second. Raw batches have no limit.
ELEMENTS_MAX: Final = 64 * 1024
# Up to this many are decoded on the loop; more take a thread.
QUICK_ELEMENTS_MAX: Final = 2 * 1024
# Up to this many bytes of strings, keys and values are copied there, in about 2 ms. Batches
# that come as bins are not copied.
QUICK_COPIED_BYTES_MAX: Final = 4 * 1024 * 1024
ENVELOPE_COUNT: Final = 4

# What the compiled readers see of a frame: all of it, but for the records of a large one. It is a
# copy, as bytes are read twice as fast as a view. Less than ELEMENTS_MAX, since each element takes
# a byte: so compiled readers need not count them.
HEAD_BYTES_MAX: Final = 32 * 1024
assert HEAD_BYTES_MAX < ELEMENTS_MAX

# Of records that are not packed: opened in five milliseconds, whatever they are. More, or anything
# that is packed, takes a thread.
QUICK_BYTES_MAX: Final = 16 * 1024
QUICK_PARTITIONS_MAX: Final = 1_000  # encoded in some five milliseconds, even without records

# A packer is kept, as making its buffer costs more than a small answer; up to this answer's size.
PACKED_BYTES_MIN: Final = 64 * 1024

# An enum's member is looked up by a call.
_PRODUCE: Final = int(ApiKey.PRODUCE)
_FETCH: Final = int(ApiKey.FETCH)
_SIZE = struct.Struct(">I")
_INTEGER_END: Final = 1 << 31
_INTEGER_LAST: Final = _INTEGER_END - 1


@dataclass(slots=True)
class MsgpackHeader(RequestHeader):
    """The header of a request; records of its answer are packed, and so looked into."""

    copies_records: bool = True


@dataclass(slots=True)
class FetchHeader(MsgpackHeader):
    """The header of a Fetch that is to be answered with maps, and the offsets it asked for."""

    opens_records: ClassVar[bool] = True

    offsets: dict[tuple[bytes, int], int] = field(default_factory=dict)
    is_in_thread: bool = False
    refusals: int = 0

    def wants_thread(self, response: FetchResponse) -> bool:
        """Whether the records are compressed, or it is more than the loop can open and encode."""
        bytes_left, names_left = QUICK_BYTES_MAX, QUICK_PARTITIONS_MAX
        for topic in response.responses:
            names_left -= max(1, len(topic.partitions))
            if names_left < 0:
                self.is_in_thread = True
                return True
            for partition in topic.partitions:
                records = partition.records or b""
                bytes_left -= len(records)
                if bytes_left < 0 or not _is_plain(records):
                    self.is_in_thread = True
                    return True
        return False

    def refused_count(self) -> int:
        """How many batches and records of the answer were over the limits and not opened."""
        return self.refusals


class MsgpackDialect:
    """Decodes requests and encodes their answers, for the APIs that are served."""

    __slots__ = (
        "_compiled",
        "_decoders",
        "_encoders",
        "_now_ms",
        "_packer",
        "_repetition",
        "_rest",
        "_served",
    )

    def __init__(
        self,
        served: Mapping[int, ServedApi],
        now_ms: Callable[[], int],
        rest: Rest = no_rest,
    ) -> None:
        """Serve these APIs. In threads, `rest` is called often, to let others run."""
        self._now_ms = now_ms
        self._rest = rest
        self._served: dict[int | str, ServedApi] = {}
        for api_key, api in served.items():
            self._served[api_key] = self._served[ApiKey(api_key).name.lower()] = api
        # Made when a client first uses an API.
        self._decoders: dict[int, Decode] = {}
        self._compiled: dict[bytes, tuple[int, int, CompiledDecode]] = {}  # by the packed API
        self._encoders: dict[int, Encode] = {}
        self._packer = msgpack.Packer()
        self._repetition = Repetition()

    def api_of(self, frame: memoryview) -> int:
        """Return the key of the API that a frame names; -1 if it names none that is served."""
        try:
            reader = Reader(frame, ENVELOPE_COUNT)
            reader.array()
            api = reader.integer() if _is_integer(reader.peek()) else reader.string()
        except (BodyError, IndexError, struct.error):
            return -1
        served = self._served.get(api)
        return -1 if served is None else int(served.api_key)

    def decode_request(self, frame: memoryview, *, in_thread: bool = False) -> DecodedRequest:
        """Decode one frame, without its size; raises BadRequest, DecodeError or TakesLong."""
        if in_thread:
            return self._decode_any(frame)
        try:
            return self._decode_usual(frame)
        except GIVES_UP:
            return self._decode_any(frame, is_quick=True)

    def _decode_usual(self, frame: memoryview) -> DecodedRequest:
        """Decode a frame in the form that programs usually write; else give up."""
        data = bytes(frame) if len(frame) <= HEAD_BYTES_MAX else bytes(frame[:HEAD_BYTES_MAX])
        if data[0] != 0x90 + ENVELOPE_COUNT:
            raise Irregular
        head = data[1]
        position = 2 if head < 0x80 else head - 0x9E  # behind a small key, or a short name
        found = self._compiled.get(data[1:position])
        if found is None:  # the first of its kind, or an API that is not served
            raise Irregular
        api_key, version, decode = found
        correlation_id, position = read_integer(data, position, -_INTEGER_END, _INTEGER_LAST)
        if api_key == _PRODUCE:
            known = self._repetition.read(data, frame, position)
            if known is not None:
                client_id, body = known
                header = MsgpackHeader(_PRODUCE, version, correlation_id, client_id)
                return DecodedRequest(header, body)
        client_id, start = _read_client_id(data, position)
        body, extras, end = decode(data, frame, start)
        if end != len(frame):
            raise Irregular
        if api_key == _PRODUCE:
            self._repetition.learn(data, frame, position, client_id, body)
        return _decoded(api_key, version, correlation_id, client_id, body, extras)

    def _decode_any(self, frame: memoryview, *, is_quick: bool = False) -> DecodedRequest:
        """Decode any frame, or say what is wrong with it; may raise TakesLong if `is_quick`."""
        if is_quick:
            reader = Reader(frame, QUICK_ELEMENTS_MAX, copied_bytes_max=QUICK_COPIED_BYTES_MAX)
        else:
            reader = Reader(frame, ELEMENTS_MAX, self._rest)
        try:
            count = reader.array()
            api = reader.integer() if _is_integer(reader.peek()) else reader.string()
            correlation_id = reader.integer()
        except (BodyError, IndexError, struct.error) as error:
            raise DecodeError(
                f"found a frame of {len(frame)} bytes, expected "
                "[api, correlation_id, client_id, body] in msgpack: "
                f"{_said(error)}{said(of_msgpack_frame(frame))}"
            ) from None
        if not -_INTEGER_END <= correlation_id < _INTEGER_END:
            raise DecodeError(f"correlation id {correlation_id} does not fit 32 bits")
        try:
            return self._decode(reader, count, api, correlation_id)
        except (BodyError, IndexError, struct.error) as error:
            if is_quick and isinstance(error, TooManyElements | TooManyBytes):
                raise TakesLong(str(error)) from None
            raise _bad(correlation_id, f"{_named(api)}: {_said(error)}") from None

    def _decode(
        self, reader: Reader, count: int, api: int | str, correlation_id: int
    ) -> DecodedRequest:
        if count != ENVELOPE_COUNT:
            raise BodyError(
                f"found {count} values, expected [api, correlation_id, client_id, body]"
            )
        served = self._served.get(api)
        if served is None:
            raise BodyError("no such API is served")
        client_id = None if reader.take_nil() else reader.string()
        decode = self._decoders.get(served.api_key)
        if decode is None:
            decode = self._make_decoder(served)
        body, extras = decode(reader)
        if reader.position != len(reader.data):
            raise BodyError(f"{len(reader.data) - reader.position} bytes follow the request")
        return _decoded(
            int(served.api_key), served.max_version, correlation_id, client_id, body, extras
        )

    def encode_response(self, header: RequestHeader, response: Any) -> list[Buffer]:
        """Return the frame that answers `header`; raises EncodeError."""
        encode = self._encoders.get(header.api_key)
        if encode is None:
            encode = encoder(self._served[header.api_key].response, header.api_version)
            self._encoders[header.api_key] = encode
        body = encode(response)
        packer = self._packer
        if type(header) is FetchHeader:
            _open_records(header, body, self._rest if header.is_in_thread else no_rest)
            if header.is_in_thread:
                packer = msgpack.Packer()  # the other is the loop's
        try:
            packed: bytes = packer.pack([header.correlation_id, body])
        except (TypeError, ValueError, OverflowError) as error:
            raise EncodeError(f"{type(response).__name__}: {error}") from error
        size = len(packed)
        if size < PACKED_BYTES_MIN:
            return [_SIZE.pack(size) + packed]
        if packer is self._packer:
            self._packer = msgpack.Packer()  # its buffer has grown with the answer
        return [_SIZE.pack(size), packed]

    def encode_in_steps(
        self, header: RequestHeader, response: Any
    ) -> Generator[int, None, list[Buffer]]:
        """Do what `encode_response` does, yielding by how many bytes the frame has grown."""
        cls = self._served[header.api_key].response
        body = yield from step_encoder(cls, header.api_version)(response)
        try:
            packed = yield from packed_in_steps([header.correlation_id, body])
        except (TypeError, ValueError, OverflowError) as error:
            raise EncodeError(f"{type(response).__name__}: {error}") from error
        return [_SIZE.pack(len(packed)), packed]

    def _make_decoder(self, served: ServedApi) -> Decode:
        api_key, cls, version = int(served.api_key), served.request, served.max_version
        flags = ("raw",) if api_key == _FETCH else ()
        more = tuple((name, Reader.boolean) for name in flags)
        self._decoders[api_key] = decode = decoder(cls, version, self._records, more)
        compiled = compile_decoder(cls, version, self._records_at, flags)
        for api in (api_key, ApiKey(api_key).name.lower()):
            self._compiled[msgpack.packb(api)] = api_key, version, compiled
        return decode

    def _records(self, reader: Reader) -> memoryview:
        return read_batch(reader, self._now_ms())

    def _records_at(self, frame: memoryview, position: int) -> tuple[memoryview, int]:
        """Read records for a compiled reader, where they are not a short bin."""
        if not is_array(frame[position]):
            start, end = read_binary_size(frame, position)
            return frame[start:end], end
        if len(frame) > HEAD_BYTES_MAX:  # where elements must be counted
            raise Irregular
        reader = Reader(frame, QUICK_ELEMENTS_MAX)
        reader.position = position
        try:
            return read_batch(reader, self._now_ms()), reader.position
        except BodyError:
            raise Irregular from None


def _read_client_id(data: bytes, position: int) -> tuple[str | None, int]:
    head = data[position]
    start = position + 1
    if head == 0xC0:
        return None, start
    if not 0xA0 <= head < 0xC0:
        raise Irregular
    end = start + head - 0xA0
    return data[start:end].decode(), end


def _decoded(
    api_key: int,
    version: int,
    correlation_id: int,
    client_id: str | None,
    body: Any,
    extras: dict[str, Any],
) -> DecodedRequest:
    if api_key != _FETCH or extras.get("raw"):
        return DecodedRequest(MsgpackHeader(api_key, version, correlation_id, client_id), body)
    header = FetchHeader(api_key, version, correlation_id, client_id)
    _open_answer(header, body)
    return DecodedRequest(header, body)


def _open_answer(header: FetchHeader, body: FetchRequest) -> None:
    """Note how to open the records of the answer, and limit what is read to that."""
    body.max_bytes = min(body.max_bytes, OPENED_BYTES_MAX)
    for topic in body.topics:
        for partition in topic.partitions:
            header.offsets[topic.topic_id, partition.partition] = partition.fetch_offset


def _open_records(header: FetchHeader, body: dict[str, Any], rest: Rest) -> None:
    opener = Opener(rest)
    for topic in body["responses"]:
        for partition in topic["partitions"]:
            asked = (topic["topic_id"], partition["partition_index"])
            offset = header.offsets.get(asked, -1)
            aborted = [
                (one["producer_id"], one["first_offset"])
                for one in partition["aborted_transactions"] or ()
            ]
            records, next_offset, code = opener.open(partition["records"] or b"", offset, aborted)
            partition["records"] = records
            partition["next_offset"] = next_offset
            if code is not ErrorCode.NONE:
                partition["error_code"] = code
    header.refusals = opener.refused_count


def _is_plain(records: Buffer) -> bool:
    """Whether every whole batch in `records` is of magic 2 and not compressed."""
    try:
        return all(header.magic == MAGIC and header.codec == NONE for _, header in batches(records))
    except RecordError:
        return False


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
