"""A transaction coordinator and one log a partition, as answers of a ScriptedBroker.

It keeps what a client can observe: the epoch of each id, the sequence that each partition expects,
and which records are committed. `refuse` has error codes to answer next, by request class; `spoil`
too, after the request has taken effect; `drop` has "before" or "after": hang up before or after it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_producers,
    describe_transactions,
    end_txn,
    find_coordinator,
    init_producer_id,
    list_offsets,
    list_transactions,
    metadata,
    produce,
    txn_offset_commit,
)
from protocol.record_batch import read_header
from protocol.records import read_records

TOPICS = {"orders": 2, "bills": 1}
FENCED = 90
INVALID_TXN_STATE = 48


@dataclass
class ScriptedId:
    """The coordinator's state of an id, and what its open transaction has written."""

    producer_id: int
    epoch: int = 0
    state: str = "Empty"
    timeout_ms: int = 0
    partitions: list[tuple[str, int]] = field(default_factory=list)
    records: list[tuple[str, int, bytes]] = field(default_factory=list)
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    ended: tuple[int, bool] | None = None  # the epoch before the last end, and its outcome
    last_end: describe_transactions.LastEnd | None = None


class ScriptedTransactions:
    """`version` 1 or 2 is the one that its clients use."""

    def __init__(self, version: int = 2) -> None:
        self.version = version
        self.ids: dict[str, ScriptedId] = {}
        self.refuse: defaultdict[type[Any], list[int]] = defaultdict(list)
        self.spoil: defaultdict[type[Any], list[int]] = defaultdict(list)
        self.drop: defaultdict[type[Any], list[str]] = defaultdict(list)
        self.committed: list[tuple[str, int, bytes]] = []
        self.offsets: dict[tuple[str, int], int] = {}
        self.sequences: dict[tuple[str, int], tuple[int, int]] = {}  # (epoch, next sequence)
        self.strangers: list[describe_producers.ProducerState] = []  # open in orders-0
        self.answers = {
            cls: self._script(cls, answer)
            for cls, answer in (
                (metadata.MetadataRequest, self._metadata),
                (find_coordinator.FindCoordinatorRequest, self._find),
                (init_producer_id.InitProducerIdRequest, self._initialize),
                (add_partitions_to_txn.AddPartitionsToTxnRequest, self._add),
                (add_offsets_to_txn.AddOffsetsToTxnRequest, self._add_offsets),
                (produce.ProduceRequest, self._produce),
                (txn_offset_commit.TxnOffsetCommitRequest, self._commit_offsets),
                (end_txn.EndTxnRequest, self._end),
                (list_transactions.ListTransactionsRequest, self._list),
                (describe_transactions.DescribeTransactionsRequest, self._describe),
                (describe_producers.DescribeProducersRequest, self._producers),
                (list_offsets.ListOffsetsRequest, self._list_offsets),
            )
        }

    @property
    def features(self) -> dict[str, int]:
        """What ApiVersions tells."""
        return {"transaction.version": self.version}

    def end_all(self, name: str, reason: str) -> None:
        """Abort the transaction of an id, as its timeout or an operator does."""
        one = self.ids[name]
        one.epoch += 1
        self._finish(one, committed=False, reason=reason)

    def _finish(self, one: ScriptedId, *, committed: bool, reason: str) -> None:
        if committed:
            self.committed += one.records
            self.offsets |= one.offsets
        one.state = "CompleteCommit" if committed else "CompleteAbort"
        one.partitions, one.records, one.offsets = [], [], {}
        one.last_end = describe_transactions.LastEnd(
            committed=committed, reason=reason, time_ms=1_700_000_000_000
        )

    def _script(self, cls, answer):
        def scripted(request):
            dropped = self.drop[cls].pop(0) if self.drop[cls] else ""
            if dropped == "before":
                return None
            code = self.refuse[cls].pop(0) if self.refuse[cls] else 0
            found = answer(request, code)
            if self.spoil[cls]:
                found.error_code = self.spoil[cls].pop(0)
            return None if dropped == "after" else found

        return scripted

    def _metadata(self, request, code):
        names = TOPICS if request.topics is None else [one.name for one in request.topics]
        topics = []
        for name in names:
            partitions = [
                metadata.MetadataResponsePartition(
                    partition_index=number,
                    leader_id=1,
                    replica_nodes=[1],
                    isr_nodes=[1],
                    offline_replicas=[],
                )
                for number in range(TOPICS.get(name, 0))
            ]
            number = code or (0 if partitions else 3)
            topics.append(
                metadata.MetadataResponseTopic(name=name, error_code=number, partitions=partitions)
            )
        return metadata.MetadataResponse(topics=topics)

    def _find(self, request, _code):
        found = find_coordinator.Coordinator(
            key=request.coordinator_keys[0], node_id=1, host="elsewhere", port=9
        )
        return find_coordinator.FindCoordinatorResponse(coordinators=[found])

    def _initialize(self, request, code):
        name = request.transactional_id
        one = self.ids.get(name)
        if one is None and not code:
            one = self.ids[name] = ScriptedId(len(self.ids), epoch=-1)
        if not code and request.producer_id >= 0 and one.epoch - request.producer_epoch > 1:
            code = FENCED
        if code:
            return init_producer_id.InitProducerIdResponse(error_code=code)
        is_retry = request.producer_id >= 0 and request.producer_epoch == one.epoch - 1
        if one.state == "Ongoing":
            one.epoch += 1
            reason = "operator" if request.by_operator else "fenced"
            self._finish(one, committed=False, reason=reason)
        if not is_retry:
            one.epoch += 1
        one.state = "Empty"
        one.timeout_ms = request.transaction_timeout_ms
        return init_producer_id.InitProducerIdResponse(
            producer_id=one.producer_id, producer_epoch=one.epoch
        )

    def _check(self, name, epoch):
        return 0 if self.ids[name].epoch == epoch else FENCED

    def _join(self, name, place):
        one = self.ids[name]
        one.state = "Ongoing"
        if place not in one.partitions:
            one.partitions.append(place)

    def _add(self, request, code):
        name = request.v3_and_below_transactional_id
        code = code or self._check(name, request.v3_and_below_producer_epoch)
        results = []
        for topic in request.v3_and_below_topics:
            for number in topic.partitions:
                if not code:
                    self._join(name, (topic.name, number))
            result = add_partitions_to_txn.AddPartitionsToTxnPartitionResult
            results.append(
                add_partitions_to_txn.AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        result(partition_index=number, partition_error_code=code)
                        for number in topic.partitions
                    ],
                )
            )
        return add_partitions_to_txn.AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=results
        )

    def _add_offsets(self, request, code):
        code = code or self._check(request.transactional_id, request.producer_epoch)
        if not code:
            self._join(request.transactional_id, ("__consumer_offsets", 0))
        return add_offsets_to_txn.AddOffsetsToTxnResponse(error_code=code)

    def _produce(self, request, code):
        name = request.transactional_id
        responses = []
        for topic in request.topic_data:
            results = []
            for data in topic.partition_data:
                number = code or self._append(name, (topic.name, data.index), data.records)
                results.append(
                    produce.PartitionProduceResponse(index=data.index, error_code=number)
                )
            responses.append(
                produce.TopicProduceResponse(name=topic.name, partition_responses=results)
            )
        return produce.ProduceResponse(responses=responses)

    def _append(self, name, place, records):
        header = read_header(records)
        if self._check(name, header.producer_epoch):
            return 47
        one = self.ids[name]
        if self.version == 2:
            self._join(name, place)
        elif place not in one.partitions:
            return INVALID_TXN_STATE
        epoch, expected = self.sequences.get(place, (-1, 0))
        expected = expected if epoch == header.producer_epoch else 0
        if header.base_sequence < expected:
            return 46  # DUPLICATE_SEQUENCE_NUMBER
        if header.base_sequence > expected:
            return 45
        self.sequences[place] = (header.producer_epoch, expected + header.record_count)
        one.records += [
            (*place, record.value) for record in read_records(records, size_max=1 << 20)
        ]
        return 0

    def _commit_offsets(self, request, code):
        name = request.transactional_id
        code = code or self._check(name, request.producer_epoch)
        if not code:
            if self.version == 1 and ("__consumer_offsets", 0) not in self.ids[name].partitions:
                code = INVALID_TXN_STATE
            self._join(name, ("__consumer_offsets", 0))
        topics = []
        for topic in request.topics:
            results = []
            for one in topic.partitions:
                if not code:
                    place = topic.name, one.partition_index
                    self.ids[name].offsets[place] = one.committed_offset
                results.append(
                    txn_offset_commit.TxnOffsetCommitResponsePartition(
                        partition_index=one.partition_index, error_code=code
                    )
                )
            topics.append(
                txn_offset_commit.TxnOffsetCommitResponseTopic(name=topic.name, partitions=results)
            )
        return txn_offset_commit.TxnOffsetCommitResponse(topics=topics)

    def _end(self, request, code):
        one = self.ids[request.transactional_id]
        ended = (request.producer_epoch, request.committed)
        if not code and one.state != "Ongoing" and ended == one.ended:
            pass  # a retry
        elif not code and self._check(request.transactional_id, request.producer_epoch):
            timed_out = one.epoch == request.producer_epoch + 1 and self.version == 2
            code = INVALID_TXN_STATE if timed_out else FENCED
        elif not code and one.state != "Ongoing":
            code = INVALID_TXN_STATE
        if code:
            return end_txn.EndTxnResponse(error_code=code)
        if one.state == "Ongoing":
            one.ended = ended
            if self.version == 2:
                one.epoch += 1
            self._finish(one, committed=request.committed, reason="client")
        if self.version == 1:
            return end_txn.EndTxnResponse()
        return end_txn.EndTxnResponse(producer_id=one.producer_id, producer_epoch=one.epoch)

    def _list(self, request, code):
        states = [
            list_transactions.TransactionState(
                transactional_id=name, producer_id=one.producer_id, transaction_state=one.state
            )
            for name, one in self.ids.items()
            if not request.state_filters or one.state in request.state_filters
            if not request.producer_id_filters or one.producer_id in request.producer_id_filters
        ]
        unknown = [one for one in request.state_filters if one not in ("Ongoing", "Empty")]
        return list_transactions.ListTransactionsResponse(
            error_code=code, unknown_state_filters=unknown, transaction_states=states
        )

    def _describe(self, request, code):
        states = []
        for name in request.transactional_ids:
            one = self.ids.get(name)
            found = describe_transactions.TransactionState(
                transactional_id=name, error_code=code or (0 if one else 105)
            )
            if one is not None and not code:
                found.transaction_state = one.state
                found.transaction_timeout_ms = one.timeout_ms
                found.transaction_start_time_ms = 1_700_000_000_000
                found.producer_id, found.producer_epoch = one.producer_id, one.epoch
                found.topics = [
                    describe_transactions.TopicData(topic=topic, partitions=[number])
                    for topic, number in one.partitions
                ]
                found.last_end = one.last_end
            states.append(found)
        return describe_transactions.DescribeTransactionsResponse(transaction_states=states)

    def _producers(self, request, code):
        topics = []
        for topic in request.topics:
            partitions = []
            for number in topic.partition_indexes:
                producers = [
                    describe_producers.ProducerState(
                        producer_id=one.producer_id,
                        producer_epoch=one.epoch,
                        last_timestamp=1_700_000_000_000,
                        coordinator_epoch=0,
                        current_txn_start_offset=7,
                    )
                    for one in self.ids.values()
                    if (topic.name, number) in one.partitions
                ]
                if (topic.name, number) == ("orders", 0):
                    producers += self.strangers
                partitions.append(
                    describe_producers.PartitionResponse(
                        partition_index=number, error_code=code, active_producers=producers
                    )
                )
            topics.append(describe_producers.TopicResponse(name=topic.name, partitions=partitions))
        return describe_producers.DescribeProducersResponse(topics=topics)

    def _list_offsets(self, request, code):
        """The end is 12; the last stable offset is 7 where something is open."""
        topics = []
        for topic in request.topics:
            partitions = []
            for one in topic.partitions:
                is_held = any(
                    (topic.name, one.partition_index) in found.partitions
                    for found in self.ids.values()
                )
                offset = 7 if is_held and request.isolation_level else 12
                partitions.append(
                    list_offsets.ListOffsetsPartitionResponse(
                        partition_index=one.partition_index, error_code=code, offset=offset
                    )
                )
            topics.append(
                list_offsets.ListOffsetsTopicResponse(name=topic.name, partitions=partitions)
            )
        return list_offsets.ListOffsetsResponse(topics=topics)
