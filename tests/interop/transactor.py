"""A transactional producer, the readers of its topic and its group: one method a request.

See `transaction_requests` for the coordinator's part, and for how answers are told.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Self

from protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from protocol.records import Record, batches, build, read_records
from tests.interop.group_requests import State
from tests.interop.transaction_requests import (
    COMMITTED,
    LATEST,
    OWN_ID,
    PARTITIONS,
    READ_BYTES_MAX,
    TIMEOUT_MS,
    TransactionalId,
    name_of,
    until,
)


class Transactor(TransactionalId):
    """A transactional producer with what is seen of it."""

    @classmethod
    def create(cls, state: State, name: str) -> Self:
        """Create the topic, and wait for its logs."""
        made = super().create(state, name)
        for partition in range(PARTITIONS):
            until(lambda p=partition: made.offset_at(partition=p) == 0, f"the log of {name}")
        return made

    # --- data ---

    def produce(
        self,
        version: int = 12,
        *,
        partition: int = 0,
        sequence: int | None = None,
        epoch: int = 0,
        producer_id: int | None = None,
        transactional: bool = True,
        control: bool = False,
        transactional_id: str | None = OWN_ID,
        topic: str | None = None,
        acks: int = -1,
        values: Sequence[bytes] = (b"v",),
    ) -> tuple[str, int] | str:
        """Produce a batch: the error, or "NONE" and the offset.

        The sequence is the next one of the partition, and is only counted if the answer is NONE.
        """
        taken = self.sequences.get(partition, 0) if sequence is None else sequence
        pid, at_epoch = self.having(epoch)
        pid = pid if producer_id is None else producer_id
        batch = build(
            [Record(0, int(time.time() * 1000), None, value) for value in values],
            producer_id=pid,
            producer_epoch=at_epoch if pid >= 0 else -1,
            base_sequence=taken if pid >= 0 else -1,
            transactional=transactional,
            control=control,
        )
        data = [PartitionProduceData(index=partition, records=bytes(batch))]
        request = ProduceRequest(
            transactional_id=self.name if transactional_id == OWN_ID else transactional_id,
            acks=acks,
            timeout_ms=TIMEOUT_MS,
            topic_data=[TopicProduceData(name=topic or self.topic, partition_data=data)],
        )
        answer = self.state.call(request, ProduceResponse, version)
        (found,) = answer.responses[0].partition_responses
        if found.error_code:
            return name_of(found.error_code)
        if sequence is None and pid == self.producer_id:
            self.sequences[partition] = taken + len(values)
        return "NONE", found.base_offset

    def marker(
        self,
        outcome: str = "abort",
        version: int = 2,
        *,
        epoch: int = 0,
        producer_id: int | None = None,
        topic: str | None = None,
        partition: int = 0,
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
    ) -> str:
        """Write a marker by hand."""
        request = WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(
                    producer_id=self.producer_id if producer_id is None else producer_id,
                    producer_epoch=self.epoch + epoch,
                    transaction_result=outcome == "commit",
                    topics=[
                        WritableTxnMarkerTopic(
                            name=topic or self.topic, partition_indexes=[partition]
                        )
                    ],
                    coordinator_epoch=coordinator_epoch,
                    transaction_version=transaction_version if version >= 2 else 0,
                )
            ]
        )
        (found,) = self.state.call(request, WriteTxnMarkersResponse, version).markers
        return name_of(found.topics[0].partitions[0].error_code)

    # --- reading ---

    def read(self, isolation: int = COMMITTED, partition: int = 0, offset: int = 0) -> Any:
        """Fetch: the error, or what a client makes of it, and the offsets it is told.

        (values of the records that count, high watermark, last stable offset, first offsets of
        aborted transactions or None)
        """
        wanted = FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=READ_BYTES_MAX
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            isolation_level=isolation,
            topics=[FetchTopic(topic=self.topic, partitions=[wanted])],
        )
        answer = self.state.call(request, FetchResponse, 12)
        (found,) = answer.responses[0].partitions
        if found.error_code:
            return name_of(found.error_code)
        aborted = found.aborted_transactions
        stable = found.last_stable_offset
        starts = None
        if aborted is not None:
            # Kafka tells what lies in the rest of the segment, too.
            starts = sorted(one.first_offset for one in aborted if one.first_offset < stable)
        values = visible(bytes(found.records or b""), aborted or (), offset)
        return values, found.high_watermark, stable, starts

    def offset_at(
        self, timestamp: int = LATEST, isolation: int = COMMITTED, partition: int = 0
    ) -> int | str:
        """Return what ListOffsets answers: an offset, or an error."""
        wanted = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation,
            topics=[ListOffsetsTopic(name=self.topic, partitions=[wanted])],
            timeout_ms=TIMEOUT_MS,
        )
        (topic,) = self.state.call(request, ListOffsetsResponse).topics
        (found,) = topic.partitions
        offset: int = found.offset
        return name_of(found.error_code) if found.error_code else offset

    def delete_records(self, offset: int, partition: int = 0) -> int | str:
        """Delete the records below an offset: the start of the log, or an error."""
        wanted = DeleteRecordsPartition(partition_index=partition, offset=offset)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=self.topic, partitions=[wanted])],
            timeout_ms=TIMEOUT_MS,
        )
        (topic,) = self.state.call(request, DeleteRecordsResponse).topics
        (found,) = topic.partitions
        start: int = found.low_watermark
        return name_of(found.error_code) if found.error_code else start

    def delete_topic(self, topic: str | None = None) -> str:
        """Delete the own topic, or another."""
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=topic or self.topic)], timeout_ms=TIMEOUT_MS
        )
        (found,) = self.state.call(request, DeleteTopicsResponse).responses
        return name_of(found.error_code)

    def grow(self, topic: str, count: int) -> str:
        """Ask for more partitions of a topic, and create none."""
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=topic, count=count)],
            timeout_ms=TIMEOUT_MS,
            validate_only=True,
        )
        (found,) = self.state.call(request, CreatePartitionsResponse).results
        return name_of(found.error_code)

    def producers(self, partition: int = 0) -> list[tuple[str, int]]:
        """Return ids, and the first offset of the open transaction, of a partition's producers."""
        request = DescribeProducersRequest(
            topics=[TopicRequest(name=self.topic, partition_indexes=[partition])]
        )
        (topic,) = self.state.call(request, DescribeProducersResponse).topics
        return [
            (self.told(one.producer_id, one.producer_epoch), one.current_txn_start_offset)
            for one in topic.partitions[0].active_producers
        ]

    # --- the group ---

    def commit_offset(
        self,
        version: int = 5,
        *,
        offset: int = 1,
        epoch: int = 0,
        producer_id: int = 0,
        partition: int = 0,
        topic: str | None = None,
        group: str | None = None,
        metadata: str = "",
        **member: Any,
    ) -> str:
        """Commit the group's offset with the transaction."""
        pid, at_epoch = self.having(epoch, producer_id)
        wanted = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=metadata
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=self.group if group is None else group,
            producer_id=pid,
            producer_epoch=at_epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic or self.topic, partitions=[wanted])],
            **member,
        )
        (found,) = self.state.call(request, TxnOffsetCommitResponse, version).topics
        return name_of(found.partitions[0].error_code)

    def offset_of_group(
        self, *, stable: bool = False, partition: int = 0, group: str | None = None
    ) -> int | str:
        """Return the committed offset, -1 if there is none, or an error."""
        topics = [OffsetFetchRequestTopics(name=self.topic, partition_indexes=[partition])]
        group = self.group if group is None else group
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=stable
        )
        (of_group,) = self.state.call(request, OffsetFetchResponse, 9).groups
        if of_group.error_code:
            return f"group: {name_of(of_group.error_code)}"
        (found,) = of_group.topics[0].partitions
        offset: int = found.committed_offset
        return f"{name_of(found.error_code)} {offset}" if found.error_code else offset

    def offsets_of_group(self) -> list[tuple[str, int, int]]:
        """Return all committed offsets of the group: topic, partition, offset."""
        asked = OffsetFetchRequestGroup(group_id=self.group, topics=None)
        request = OffsetFetchRequest(groups=[asked])
        (of_group,) = self.state.call(request, OffsetFetchResponse, 9).groups
        return [
            (topic.name, partition.partition_index, partition.committed_offset)
            for topic in of_group.topics
            for partition in topic.partitions
        ]

    def listed_groups(self) -> list[tuple[str, str]]:
        """Return state and kind of the group, if it is listed."""
        answer = self.state.call(ListGroupsRequest(), ListGroupsResponse)
        return [
            (one.group_state, one.group_type) for one in answer.groups if one.group_id == self.group
        ]


def visible(data: bytes, aborted: Sequence[Any], offset: int) -> list[bytes | None]:
    """Return the values of data records from `offset` on, without those of `aborted` ones.

    As Kafka's consumer does it: an aborted transaction begins at its first offset and ends with
    the next marker of its producer.
    """
    waiting = sorted(aborted, key=lambda one: one.first_offset)
    dropped: set[int] = set()
    found: list[bytes | None] = []
    for position, header in batches(data):
        while waiting and waiting[0].first_offset <= header.last_offset:
            dropped.add(waiting.pop(0).producer_id)
        if header.is_control:
            dropped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in dropped):
            records = read_records(data, position, size_max=READ_BYTES_MAX)
            found += [record.value for record in records if record.offset >= offset]
    return found
