"""TxnOffsetCommit, API key 28, versions 0 to 5: a group's offsets, committed with a transaction.

Version notes
- 0 and 1 differ only in that a throttled answer is sent before the pause from 1 on. 2: the
  leader's epoch of each offset (KIP-320).
- 3: flexible; member, generation and instance, which are checked as in OffsetCommit (KIP-447).
- 4: TRANSACTION_ABORTABLE may be answered. 5: the group's partition joins the transaction by this
  very request, without AddOffsetsToTxn (KIP-890).

Source: TxnOffsetCommitRequest.json and TxnOffsetCommitResponse.json, Apache Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import Int16, Int32, Int64, Nullable, Since, String, message, structure


@structure
class TxnOffsetCommitRequestPartition:
    """The next offset to read of a partition, and the client's metadata to keep with it."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, Since(2)] = -1
    committed_metadata: Annotated[String | None, Nullable()] = ""


@structure
class TxnOffsetCommitRequestTopic:
    """Partitions of one topic."""

    name: String
    partitions: list[TxnOffsetCommitRequestPartition] = field(default_factory=list)


@message(api_key=28, kind="request", versions=(0, 5), flexible_since=3)
@structure
class TxnOffsetCommitRequest:
    """Offsets of a group; generation -1 and no member id come from outside of any membership."""

    transactional_id: String
    group_id: String
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Annotated[Int32, Since(3)] = -1
    member_id: Annotated[String, Since(3)] = ""
    group_instance_id: Annotated[String | None, Since(3), Nullable(since=3)] = None
    topics: list[TxnOffsetCommitRequestTopic] = field(default_factory=list)


@structure
class TxnOffsetCommitResponsePartition:
    """The outcome for one partition's offset."""

    partition_index: Int32
    error_code: Int16 = 0


@structure
class TxnOffsetCommitResponseTopic:
    """The outcome for partitions of one topic."""

    name: String
    partitions: list[TxnOffsetCommitResponsePartition] = field(default_factory=list)


@message(api_key=28, kind="response", versions=(0, 5), flexible_since=3)
@structure
class TxnOffsetCommitResponse:
    """A result for every partition; an error of the group or transaction is in each."""

    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = field(default_factory=list)
