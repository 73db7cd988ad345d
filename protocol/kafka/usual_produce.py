"""The usual Produce: one batch for one partition, from a producer that repeats everything else.

    header, no tagged fields, no transactional id, acks, timeout, 1 topic, its name or id,
    1 partition                                                          the repeated bytes
    index, size of the records, the records, no tagged fields three times

A producer sends the repeated bytes again and again, after its correlation id. So their meaning is
kept, and no field of them is read when they come again. Reading goes from left to right, so what
they mean does not depend on what follows them. Learnt are only requests that the decoder has
found good, with the fields in these places. At most KEPT_COUNT_MAX are kept, of KEPT_BYTES_MAX
each; then it begins anew.

The answer without errors is written by two `pack` in place of field by field. All of this is what
the compiled codecs do, too, for the requests of which there are most; versions before the flexible
ones are left to them.
"""

from __future__ import annotations

import struct
from typing import Final, TypeAlias

from protocol.dialect import RequestHeader
from protocol.errors import DecodeError
from protocol.kafka.primitives import read_uvarint
from protocol.kafka.produce_scan import FLEXIBLE_SINCE, TOPIC_IDS_SINCE
from protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

KEPT_COUNT_MAX: Final = 4096
KEPT_BYTES_MAX: Final = 512

_CLIENT_ID_SIZE_AT: Final = 2 + 2 + 4
_TOPIC_AFTER: Final = 2 + 1 + 1 + 2 + 4 + 1  # the size of the client id, to the topic, without it
_UUID: Final = 16
_NO_TAGS: Final = 3  # bytes: of partition, topic and request

_index = struct.Struct(">iB")
_unpack_index = _index.unpack_from
# Size of the frame, correlation id, no tags, one topic, and the size of its name, stored plus one.
_named = struct.Struct(">iixBB")
_identified = struct.Struct(">iixB")
# One partition; index, error, base offset, append time, start offset; no record errors, no message,
# no tags of partition and topic; throttle time, no tags.
_outcome = struct.Struct(">BihqqqBxxxix")
_ONE: Final = 1 + 1
_NONE: Final = 0 + 1
_NAME_BYTES_MAX: Final = 126
_SIZE: Final = 4

# Client id, acks, timeout, name, topic id.
_Said: TypeAlias = tuple[str | None, int, int, str, bytes]
_new = object.__new__  # as in compiled readers: half the time of a dataclass's __init__


class UsualProduces:
    """The repeated parts of a listener's produce requests, by their bytes."""

    __slots__ = ("_by_id", "_by_name")

    def __init__(self) -> None:
        self._by_name: dict[bytes, _Said] = {}
        self._by_id: dict[bytes, _Said] = {}

    def read(
        self, frame: memoryview, version: int, client_id_size: int
    ) -> tuple[str | None, ProduceRequest] | None:
        """Return client id and body of a Produce that is known but for its records, else None."""
        if version < FLEXIBLE_SINCE:
            return None
        try:
            end = _CLIENT_ID_SIZE_AT + _TOPIC_AFTER
            if client_id_size > 0:
                end += client_id_size
            if version >= TOPIC_IDS_SINCE:
                end += _UUID + 1
                said = self._by_id.get(frame[_CLIENT_ID_SIZE_AT:end].tobytes())
            else:
                end += frame[end] + 1
                said = self._by_name.get(frame[_CLIENT_ID_SIZE_AT:end].tobytes())
            if said is None:
                return None
            index, size = _unpack_index(frame, end)
            start = end + _index.size
            if size > 127:
                if frame[start] > 127:
                    size, start = read_uvarint(frame, start - 1)
                else:  # as there, without a call
                    size += (frame[start] << 7) - 128
                    start += 1
            end = start + size - 1
            if (
                end + _NO_TAGS != len(frame)
                or end < start
                or frame[end]
                or frame[end + 1]
                or frame[end + 2]
            ):
                return None
        except (IndexError, struct.error, DecodeError):
            return None  # the decoder says what is wrong
        partition = _new(PartitionProduceData)
        topic = _new(TopicProduceData)
        request = _new(ProduceRequest)
        client_id, request.acks, request.timeout_ms, topic.name, topic.topic_id = said
        request.transactional_id = None
        request.topic_data = [topic]
        topic.partition_data = [partition]
        partition.index = index
        partition.records = frame[start:end]
        return client_id, request

    def learn(
        self,
        frame: memoryview,
        version: int,
        client_id: str | None,
        client_id_size: int,
        request: ProduceRequest,
    ) -> None:
        """Remember a decoded request and its bytes, so that `read` recognises them.

        Only if each field before the records is where `read` takes it to be: no tagged fields in
        the header, and each count in one byte. Then the decoder has found the records there, too.
        """
        if (
            version < FLEXIBLE_SINCE
            or request.transactional_id is not None
            or len(request.topic_data) != 1
        ):
            return
        (topic,) = request.topic_data
        if len(topic.partition_data) != 1:
            return
        records = topic.partition_data[0].records
        by_id = version >= TOPIC_IDS_SINCE
        end = _CLIENT_ID_SIZE_AT + _TOPIC_AFTER + max(client_id_size, 0)
        begin = end - _TOPIC_AFTER + 2  # the tagged fields, the transactional id
        if frame[begin] or frame[begin + 1] or frame[end - 1] != _ONE:
            return
        if not by_id and frame[end] > _NAME_BYTES_MAX + 1:
            return
        end += _UUID + 1 if by_id else frame[end] + 1
        if frame[end - 1] != _ONE or end > KEPT_BYTES_MAX:
            return
        size, start = read_uvarint(frame, end + _index.size - 1)
        if not isinstance(records, memoryview) or start + size - 1 + _NO_TAGS != len(frame):
            return
        known = self._by_id if by_id else self._by_name
        if len(known) >= KEPT_COUNT_MAX:
            known.clear()
        said = (client_id, request.acks, request.timeout_ms, topic.name, topic.topic_id)
        known[frame[_CLIENT_ID_SIZE_AT:end].tobytes()] = said


def encoded(header: RequestHeader, response: ProduceResponse) -> bytes | None:
    """Return the frame that answers a usual Produce, None if anything in `response` is unusual."""
    try:
        version, topics = header.api_version, response.responses
        if version < FLEXIBLE_SINCE or len(topics) != 1 or response.node_endpoints:
            return None
        topic = topics[0]
        if len(topic.partition_responses) != 1:
            return None
        one = topic.partition_responses[0]
        if one.error_message is not None or one.record_errors or one.current_leader is not None:
            return None
        outcome = _outcome.pack(
            _ONE,
            one.index,
            one.error_code,
            one.base_offset,
            one.log_append_time_ms,
            one.log_start_offset,
            _NONE,
            response.throttle_time_ms,
        )
        if version >= TOPIC_IDS_SINCE:
            topic_id = topic.topic_id
            if len(topic_id) != _UUID:
                return None
            size = _identified.size - _SIZE + _UUID + _outcome.size
            return _identified.pack(size, header.correlation_id, _ONE) + topic_id + outcome
        name = topic.name.encode()
        if len(name) > _NAME_BYTES_MAX:
            return None
        size = _named.size - _SIZE + len(name) + _outcome.size
        return _named.pack(size, header.correlation_id, _ONE, len(name) + 1) + name + outcome
    except (struct.error, AttributeError, TypeError, UnicodeEncodeError):
        return None  # the encoder says what is wrong
