"""The requests of a transactional producer, each one attempt on a `Connection`.

A function returns if the broker did what was asked. It raises `Again` for an error that passes (a
coordinator that is loading, a transaction that is just ending), RequestFailed for others, and
BrokerError without an answer; then the request may or may not have taken effect, and sending it
again is safe: the broker knows batches by their sequence and ends by their epoch.

Transaction version 1 (TV1) needs a partition added before data are sent to it; in version 2 (TV2,
KIP-890) Produce 12 and TxnOffsetCommit 5 add it, and EndTxn 5 answers with the next epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from client.codes import code_of, code_text
from client.kafka.connection import VERSION_MAX, Connection
from client.kafka.coordinators import ELSEWHERE, find_coordinator
from client.places import Place
from client.transactions.epoch import Epoch, GroupMetadata, PartitionBatch
from client.transactions.errors import Again, RequestFailed
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import GROUP, TRANSACTION

PRODUCE_ADDS: Final = 12  # the first versions that add partitions to the transaction by themselves
OFFSETS_ADD: Final = 5
END_RAISES_EPOCH: Final = 5
_ADD_VERSION_MAX: Final = 3  # AddPartitionsToTxn 4 and 5 are for brokers
_PRODUCE_VERSION_MAX: Final = 12  # 13 names topics by id
_APPENDED: Final = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
# Retriable for clients that wait for a topic to be created; here it was there, and is deleted.
_GONE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def has_version_2(connection: Connection) -> bool:
    """Whether the broker's transactions are of version 2: finalized, and served."""
    from protocol.messages.end_txn import EndTxnRequest
    from protocol.messages.produce import ProduceRequest
    from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

    return connection.features.get("transaction.version", 0) >= 2 and all(
        connection.version_of(request) >= version
        for request, version in (
            (ProduceRequest, PRODUCE_ADDS),
            (EndTxnRequest, END_RAISES_EPOCH),
            (TxnOffsetCommitRequest, OFFSETS_ADD),
        )
    )


def initialize(
    connection: Connection, epoch: Epoch, timeout_ms: int, *, by_operator: bool = False
) -> Epoch:
    """Return the epoch to use from now on; an open transaction is aborted.

    With producer id -1 every earlier producer is fenced; with an id and epoch, only if they are
    current, or were until the broker aborted the transaction (KIP-360).
    """
    from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

    request = InitProducerIdRequest(
        transactional_id=epoch.transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=epoch.producer_id,
        producer_epoch=epoch.producer_epoch,
        by_operator=by_operator,
    )
    oldest = 0 if epoch.producer_id < 0 else 3
    answer = connection.call(request, InitProducerIdResponse, version_min=oldest)
    _check(connection, answer.error_code, epoch, f"InitProducerId of {epoch.transactional_id!r}")
    return Epoch(epoch.transactional_id, answer.producer_id, answer.producer_epoch)


def partition_count(connection: Connection, topic: str) -> int:
    """Return the number of partitions of a topic, which the broker may create now."""
    from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

    answer = connection.call(
        MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True),
        MetadataResponse,
    )
    (found,) = answer.topics
    if not found.error_code and found.partitions:
        return len(found.partitions)
    text = f"topic {topic!r}: {code_text(found.error_code)}"
    if code_of(found.error_code).retriable or not found.error_code:
        raise Again(text)
    raise RequestFailed(text, found.error_code)


def add_partitions(connection: Connection, epoch: Epoch, places: Iterable[Place]) -> None:
    """TV1: add partitions to the transaction, all or none."""
    from protocol.messages.add_partitions_to_txn import (
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnResponse,
        AddPartitionsToTxnTopic,
    )

    by_topic: dict[str, list[int]] = {}
    for place in places:
        by_topic.setdefault(place.topic, []).append(place.partition)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=epoch.transactional_id,
        v3_and_below_producer_id=epoch.producer_id,
        v3_and_below_producer_epoch=epoch.producer_epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=name, partitions=found) for name, found in by_topic.items()
        ],
    )
    answer = connection.call(request, AddPartitionsToTxnResponse, version_max=_ADD_VERSION_MAX)
    results = [
        (Place(topic.name, one.partition_index), one.partition_error_code)
        for topic in answer.results_by_topic_v3_and_below
        for one in topic.results_by_partition
    ]
    refused = [one for one in results if one[1]]
    # One refused partition has all others answered OPERATION_NOT_ATTEMPTED.
    refused.sort(key=lambda one: one[1] == ErrorCode.OPERATION_NOT_ATTEMPTED)
    for place, number in refused[:1]:
        _check(connection, number, epoch, f"{place} in the transaction")


def add_offsets(connection: Connection, epoch: Epoch, group_id: str) -> None:
    """TV1: add a group's offsets to the transaction."""
    from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

    request = AddOffsetsToTxnRequest(**epoch._asdict(), group_id=group_id)
    answer = connection.call(request, AddOffsetsToTxnResponse)
    _check(connection, answer.error_code, epoch, f"offsets of group {group_id!r}")


def produce(
    connection: Connection,
    epoch: Epoch,
    batches: dict[Place, PartitionBatch],
    timeout_ms: int,
    *,
    version_2: bool,
) -> None:
    """Send batches, and take those that were appended out of `batches`."""
    from protocol.messages.produce import (
        PartitionProduceData,
        ProduceRequest,
        ProduceResponse,
        TopicProduceData,
    )

    by_topic: dict[str, list[PartitionProduceData]] = {}
    for place, batch in batches.items():
        data = PartitionProduceData(index=place.partition, records=batch.packed)
        by_topic.setdefault(place.topic, []).append(data)
    request = ProduceRequest(
        transactional_id=epoch.transactional_id,
        acks=-1,
        timeout_ms=timeout_ms,
        topic_data=[
            TopicProduceData(name=name, partition_data=data) for name, data in by_topic.items()
        ],
    )
    answer = connection.call(
        request,
        ProduceResponse,
        version_min=PRODUCE_ADDS if version_2 else 0,
        version_max=_PRODUCE_VERSION_MAX if version_2 else PRODUCE_ADDS - 1,
    )
    refused = []
    for topic in answer.responses:
        for one in topic.partition_responses:
            place = Place(topic.name, one.index)
            if code_of(one.error_code) in _APPENDED:
                batches.pop(place, None)
            else:
                refused.append((place, one.error_code, one.error_message))
    for place, number, message in sorted(refused, key=lambda one: code_of(one[1]).retriable):
        _check(connection, number, epoch, f"records for {place}", message)
    if batches:
        raise Again(f"no answer about {', '.join(map(str, batches))}")


def commit_offsets(
    connection: Connection,
    epoch: Epoch,
    group: GroupMetadata,
    offsets: Mapping[Place, int],
    *,
    version_2: bool,
) -> None:
    """Set offsets of a group, which take effect when the transaction is committed."""
    from protocol.messages import txn_offset_commit as messages

    by_topic: dict[str, list[Any]] = {}
    for place, offset in offsets.items():
        one = messages.TxnOffsetCommitRequestPartition(
            partition_index=place.partition, committed_offset=offset
        )
        by_topic.setdefault(place.topic, []).append(one)
    request = messages.TxnOffsetCommitRequest(
        **epoch._asdict(),
        group_id=group.group_id,
        generation_id=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.instance_id,
        topics=[
            messages.TxnOffsetCommitRequestTopic(name=name, partitions=found)
            for name, found in by_topic.items()
        ],
    )
    answer = connection.call(
        request,
        messages.TxnOffsetCommitResponse,
        version_min=OFFSETS_ADD if version_2 else 0 if group.generation_id < 0 else 3,
        version_max=VERSION_MAX if version_2 else OFFSETS_ADD - 1,
    )
    for topic in answer.topics:
        for one in topic.partitions:
            place = Place(topic.name, one.partition_index)
            what = f"the offset of {place} for group {group.group_id!r}"
            _check(connection, one.error_code, epoch, what, coordinator=(GROUP, group.group_id))


def end(connection: Connection, epoch: Epoch, *, committed: bool, version_2: bool) -> Epoch:
    """End the transaction; return the epoch for the next one."""
    from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

    answer = connection.call(
        EndTxnRequest(**epoch._asdict(), committed=committed),
        EndTxnResponse,
        version_min=END_RAISES_EPOCH if version_2 else 0,
        version_max=VERSION_MAX if version_2 else END_RAISES_EPOCH - 1,
    )
    verb = "commit" if committed else "abort"
    _check(connection, answer.error_code, epoch, f"{verb} of {epoch.transactional_id!r}")
    if answer.producer_id < 0:
        return epoch
    return Epoch(epoch.transactional_id, answer.producer_id, answer.producer_epoch)


def _check(
    connection: Connection,
    number: int,
    epoch: Epoch,
    what: str,
    message: str | None = None,
    coordinator: tuple[int, str] | None = None,
) -> None:
    """Raise Again or RequestFailed for an error code; have a missing coordinator created."""
    if not number:
        return
    code = code_of(number)
    text = f"{what}: {code_text(number, message)}"
    if code in ELSEWHERE:
        where = find_coordinator(connection, *(coordinator or (TRANSACTION, epoch[0])))
        raise Again(f"{text} Its coordinator is {where or 'not known yet'}.")
    if code.retriable and code not in _GONE:
        raise Again(text)
    raise RequestFailed(text, number)
