"""The usual Fetch: one partition, nothing forgotten, no rack; and its answer without divergence.

    header, no tagged fields, 7 or 8 numbers, 1 topic, its name or id,
    1 partition: 6 numbers, no tagged fields; no tagged fields, 0 forgotten, "", no tagged fields

So are the requests of a consumer of one partition, and those of others within a fetch session whose
answer before had records of one partition. What has another shape is left to the compiled codecs,
which do the same field by field; so are the versions before the flexible ones.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from protocol.dialect import RequestHeader
from protocol.kafka.primitives import uvarint
from protocol.messages.fetch import (
    HIGH_WATERMARK_UNTOLD,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from protocol.packed_pairs import PackedPairs
from protocol.wire import ZERO_UUID, Buffer

FLEXIBLE_SINCE: Final = 12
TOPIC_IDS_SINCE: Final = 13
REPLICA_STATE_SINCE: Final = 15

_CLIENT_ID_AT: Final = 2 + 2 + 4 + 2

_int32 = struct.Struct(">i")
# Wait, least and most bytes, isolation, session, its epoch; topics.
_until_topics = struct.Struct(">iiibiiB")
# Partitions; partition, epoch, offset, fetched epoch, log start, most bytes; the rest.
_partition = struct.Struct(">Biiqiqi5s")
# Tags of the partition and the topic; forgotten topics, rack, tags of the request.
_REST: Final = b"\0\0\1\1\0"
_UUID: Final = 16
_ONE: Final = 1 + 1
_NONE: Final = 0 + 1
_NAME_BYTES_MAX: Final = 126
_NO_REPLICA: Final = ReplicaState()

# Size of the frame, correlation id, no tags, throttle time, error, session, one topic.
_answer = struct.Struct(">iixihiB")
# Partitions; partition, error, high watermark, last stable offset, log start; aborted transactions,
# preferred replica.
_outcome = struct.Struct(">BihqqqBi")
_until_aborted = struct.Struct(">Bihqqq")
_SIZE: Final = 4
_NO_TAGS: Final = bytes(3)  # of partition, topic and answer
_INLINE_SIZE_MAX: Final = 1024  # as in compiled encoders: the stored size of records
_new = object.__new__  # as in compiled readers: half the time of a dataclass's __init__


def decoded(
    frame: memoryview, version: int, client_id_size: int
) -> tuple[str | None, FetchRequest] | None:
    """Return client id and body of a usual Fetch, None for any other."""
    if version < FLEXIBLE_SINCE:
        return None
    request = _new(FetchRequest)
    topic = _new(FetchTopic)
    asked = _new(FetchPartition)
    position, client_id = _CLIENT_ID_AT, None
    try:
        if client_id_size >= 0:
            position += client_id_size
            client_id = frame[_CLIENT_ID_AT:position].tobytes().decode()
        elif client_id_size != -1:
            return None
        tags = frame[position]
        position += 1
        request.replica_id = -1
        if version < REPLICA_STATE_SINCE:
            (request.replica_id,) = _int32.unpack_from(frame, position)
            position += _int32.size
        (
            request.max_wait_ms,
            request.min_bytes,
            request.max_bytes,
            request.isolation_level,
            request.session_id,
            request.session_epoch,
            topics,
        ) = _until_topics.unpack_from(frame, position)
        position += _until_topics.size
        if tags or topics != _ONE:
            return None
        if version >= TOPIC_IDS_SINCE:
            topic.topic = ""
            end = position + _UUID
            topic.topic_id = frame[position:end].tobytes()
        else:
            size = frame[position]
            if not 0 < size < 128:
                return None
            end = position + size
            topic.topic = frame[position + 1 : end].tobytes().decode()
            topic.topic_id = ZERO_UUID
        if end + _partition.size != len(frame):
            return None
        (
            partitions,
            asked.partition,
            asked.current_leader_epoch,
            asked.fetch_offset,
            asked.last_fetched_epoch,
            asked.log_start_offset,
            asked.partition_max_bytes,
            rest,
        ) = _partition.unpack_from(frame, end)
    except (struct.error, IndexError, UnicodeDecodeError):
        return None  # the decoder says what is wrong
    if partitions != _ONE or rest != _REST:
        return None
    asked.replica_directory_id = ZERO_UUID
    asked.high_watermark = HIGH_WATERMARK_UNTOLD
    topic.partitions = [asked]
    request.topics = [topic]
    request.forgotten_topics_data = []
    request.rack_id = ""
    request.replica_state = _NO_REPLICA
    request.cluster_id = None
    return client_id, request


def encoded(header: RequestHeader, response: FetchResponse) -> list[Buffer] | None:
    """Return the frame that answers a usual Fetch, None if anything in `response` is unusual."""
    try:
        version, topics = header.api_version, response.responses
        if version < FLEXIBLE_SINCE or len(topics) != 1 or response.node_endpoints:
            return None
        topic = topics[0]
        if len(topic.partitions) != 1:
            return None
        one = topic.partitions[0]
        aborted: Any = one.aborted_transactions
        records = one.records
        if (
            (aborted and type(aborted) is not PackedPairs)
            or one.diverging_epoch is not None
            or one.current_leader is not None
            or one.snapshot_id is not None
        ):
            return None
        if version >= TOPIC_IDS_SINCE:
            named = topic.topic_id
            if len(named) != _UUID:
                return None
        else:
            name = topic.topic.encode()
            if len(name) > _NAME_BYTES_MAX:
                return None
            named = bytes((len(name) + 1,)) + name
        stored = 0 if records is None else len(records) + 1
        until_aborted = (
            _ONE,
            one.partition_index,
            one.error_code,
            one.high_watermark,
            one.last_stable_offset,
            one.log_start_offset,
        )
        replica = one.preferred_read_replica
        if aborted:
            names = aborted.encoded(is_flexible=True)
            begin, end = _until_aborted.pack(*until_aborted), _int32.pack(replica)
            outcome = b"".join((begin, uvarint(len(aborted) + 1), names, end))
        else:
            outcome = _outcome.pack(*until_aborted, 0 if aborted is None else _NONE, replica)
        size = uvarint(stored)
        sent = len(records) if records else 0
        head = _answer.pack(
            _answer.size - _SIZE + len(named) + len(outcome) + len(size) + sent + len(_NO_TAGS),
            header.correlation_id,
            response.throttle_time_ms,
            response.error_code,
            response.session_id,
            _ONE,
        )
    except (struct.error, AttributeError, TypeError, UnicodeEncodeError):
        return None  # the encoder says what is wrong
    if records is None or stored <= _INLINE_SIZE_MAX:
        return [b"".join((head, named, outcome, size, records or b"", _NO_TAGS))]
    return [b"".join((head, named, outcome, size)), records, _NO_TAGS]
