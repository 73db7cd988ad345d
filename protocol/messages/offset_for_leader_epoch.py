"""OffsetForLeaderEpoch, API key 23, versions 2 to 4: the end of an epoch of the leader.

A consumer asks after a change of leader, to find out whether what it has read is still there.

Version notes
- 0 and 1 went with Apache Kafka 4.0. 2: the asker's current epoch, so that a stale one is fenced,
  and `throttle_time_ms` (KIP-320); librdkafka speaks no other version.
- 3: the asker's id; -2, the default, is a tool that may see beyond the high watermark.
- 4: flexible.

Source: OffsetForLeaderEpochRequest.json and OffsetForLeaderEpochResponse.json, Apache Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import Int16, Int32, Int64, Since, String, message, structure


@structure
class OffsetForLeaderPartition:
    """A partition and the epoch whose end is asked for."""

    partition: Int32
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32


@structure
class OffsetForLeaderTopic:
    """A topic, always by name."""

    topic: String
    partitions: list[OffsetForLeaderPartition] = field(default_factory=list)


@message(api_key=23, kind="request", versions=(2, 4), flexible_since=4)
@structure
class OffsetForLeaderEpochRequest:
    """The question; `replica_id` is -1 for a consumer."""

    replica_id: Annotated[Int32, Since(3)] = -2
    topics: list[OffsetForLeaderTopic] = field(default_factory=list)


@structure
class EpochEndOffset:
    """The largest epoch not above the asked one, and the offset after its last record."""

    error_code: Int16 = 0
    partition: Int32
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


@structure
class OffsetForLeaderTopicResult:
    """A topic, always by name."""

    topic: String
    partitions: list[EpochEndOffset] = field(default_factory=list)


@message(api_key=23, kind="response", versions=(2, 4), flexible_since=4)
@structure
class OffsetForLeaderEpochResponse:
    """An answer for every partition asked about."""

    throttle_time_ms: Int32 = 0
    topics: list[OffsetForLeaderTopicResult] = field(default_factory=list)
