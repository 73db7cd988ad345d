"""A transactional producer of a rig: its id, its epoch, and one call for each request."""

from collections.abc import Sequence
from typing import Any

from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.broker_rig import Rig, batch
from tests.support.rig_client import ask

SETTINGS = {
    "transaction_state_log_num_partitions": "2",
    "offsets_topic_num_partitions": "2",
}


async def begin(rig: Rig, transactional_id: str = "t") -> "Transactor":
    """Return a producer that has its id: the first creates `__transaction_state`."""
    producer = Transactor(rig, transactional_id)
    found = await ask(rig, FindCoordinatorRequest(key=transactional_id, key_type=1), 3)
    assert found.error_code == 0, found
    answer = await producer.init()
    assert answer.error_code == 0, answer
    return producer


class Transactor:
    """A client; `producer_id`, `epoch` and `version` may be set to what a bad one has."""

    def __init__(self, rig: Rig, transactional_id: str = "t") -> None:
        self.rig = rig
        self.transactional_id = transactional_id
        self.producer_id = -1
        self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}

    async def init(
        self, *, timeout_ms: int = 60_000, expected: tuple[int, int] = (-1, -1), version: int = 5
    ) -> Any:
        """Ask for a producer id; keep it."""
        body = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=expected[0],
            producer_epoch=expected[1],
        )
        answer = await ask(self.rig, body, version)
        if not answer.error_code:
            self._renew(answer.producer_id, answer.producer_epoch)
        return answer

    def _renew(self, producer_id: int, epoch: int) -> None:
        if (self.producer_id, self.epoch) != (producer_id, epoch):
            self.sequences.clear()
        self.producer_id, self.epoch = producer_id, epoch

    async def add(self, topic: str, numbers: Sequence[int], version: int = 3) -> list[int]:
        """Add partitions; return their codes."""
        body = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(numbers))],
        )
        answer = await ask(self.rig, body, version)
        return [
            one.partition_error_code
            for result in answer.results_by_topic_v3_and_below
            for one in result.results_by_partition
        ]

    async def add_offsets(self, group_id: str, version: int = 3) -> int:
        """Add the offsets of a group; return the code."""
        body = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group_id,
        )
        code: int = (await ask(self.rig, body, version)).error_code
        return code

    async def produce(
        self,
        topic: str = "a",
        number: int = 0,
        *values: bytes,
        version: int = 12,
        acks: int = -1,
        is_named: bool = True,
    ) -> Any:
        """Produce one batch; return the partition's answer."""
        first = self.sequences.get((topic, number), 0)
        records = batch(
            *(values or (b"x",)),
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=first,
            transactional=True,
        )
        data = PartitionProduceData(index=number, records=records)
        body = ProduceRequest(
            transactional_id=self.transactional_id if is_named else None,
            acks=acks,
            timeout_ms=5_000,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        response = await self.rig.call(body, version)
        answer = response.responses[0].partition_responses[0]
        if not answer.error_code:
            self.sequences[topic, number] = first + max(1, len(values))
        return answer

    async def end(self, *, is_commit: bool = True, version: int = 5) -> int:
        """End the transaction; keep the next ids, and return the code."""
        body = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=is_commit,
        )
        answer = await ask(self.rig, body, version)
        if not answer.error_code and version >= 5:
            self._renew(answer.producer_id, answer.producer_epoch)
        code: int = answer.error_code
        return code
