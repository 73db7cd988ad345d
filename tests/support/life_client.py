"""The client of a scripted life: sends, reads, and remembers the answers.

Every request must be answered, with an error code that a failing disk allows. The client compares
each read with the batches that it sent: whole batches, each once, without holes, and never a new
value at an offset that it has read before. `scripted_life` checks what must hold at the next start.

Unlike the clients of `tests.faults.workload` it sends one request at a time to a broker in this
process, so each answer decides what must hold.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records import Record, batches, build, read_records
from tests.support.memory_broker import NOW_MS, MemoryBroker

STORAGE, UNKNOWN_TOPIC, OUT_OF_RANGE = 56, 3, 1
TOPIC_EXISTS, OUT_OF_ORDER = 36, 45
TIMED_OUT = 7  # while no flush gets a descriptor: records are in the log, and not durable yet
PRODUCE_CODES = {0, STORAGE, UNKNOWN_TOPIC, OUT_OF_ORDER, TIMED_OUT}
FETCH_CODES = {0, STORAGE, UNKNOWN_TOPIC, OUT_OF_RANGE}
ADMIN_CODES = {0, STORAGE, UNKNOWN_TOPIC, TOPIC_EXISTS}
SMALL = {
    "internal.segment.bytes": "700",  # four batches of the script
    "index.interval.bytes": "150",
    "file.delete.delay.ms": "0",
}
TOPICS: dict[str, dict[str, str]] = {
    "plain": SMALL,
    "idem": SMALL,
    "short": SMALL | {"retention.bytes": "150"},
    "gone": SMALL,
}
LARGE = {"max.message.bytes": "4000000"}
KEPT = SMALL | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0"}
OTHERS = {"large": LARGE, "kept": KEPT}
RECORDS = 2
LARGE_BYTES = 4_000_000


@dataclass
class Sent:
    """One batch that was sent: its values, and the acknowledged offset if there is one."""

    values: tuple[bytes, ...]
    timestamp: int
    acks: int
    offset: int = -1  # -1: not acknowledged


@dataclass
class Expected:
    """What the client knows of one topic (of one partition)."""

    is_compacted: bool = False
    is_created: bool = False
    may_be_gone: bool = False
    is_gone: bool = False
    sent: list[Sent] = field(default_factory=list)
    seen: dict[int, bytes] = field(default_factory=dict)
    start_min: int = 0  # a DeleteRecords was acknowledged
    start_max: int = 0  # a DeleteRecords was tried
    may_be_trimmed: bool = False  # by retention
    sequence: int = 0
    is_broken: bool = False  # its producer has given up


class LifeClient:
    """A client of the `broker` of a life, and its knowledge of the topics."""

    broker: MemoryBroker

    def __init__(self) -> None:
        self.topics = {name: Expected() for name in TOPICS}
        self.producer_ids: list[int] = []
        self.number = 0

    async def create(self, name: str) -> None:
        topic = CreatableTopic(
            name=name,
            num_partitions=1,
            replication_factor=1,
            configs=[
                CreatableTopicConfig(name=key, value=value)
                for key, value in (TOPICS | OTHERS)[name].items()
            ],
        )
        answer = await self.broker.call(CreateTopicsRequest(topics=[topic]), 5)
        code = answer.topics[0].error_code
        assert code in ADMIN_CODES, (name, code, answer.topics[0].error_message)
        self.topics[name].is_created |= code == 0

    async def delete_topic(self, name: str) -> None:
        self.topics[name].may_be_gone = True
        answer = await self.broker.call(DeleteTopicsRequest(topic_names=[name], timeout_ms=1000), 4)
        code = answer.responses[0].error_code
        assert code in ADMIN_CODES, (name, code)
        self.topics[name].is_gone |= code == 0

    async def create_again(self, name: str) -> None:
        """Create a deleted topic again: it must hold nothing of the old one."""
        if not self.topics[name].is_gone:
            return  # the deletion failed or was never tried: it may take effect at the next start
        self.topics[name] = Expected()
        await self.create(name)
        await self.produce(name)

    async def new_producer(self) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        answer = await self.broker.call(request, 2)
        assert answer.error_code in {0, STORAGE, int(ErrorCode.COORDINATOR_NOT_AVAILABLE)}, answer
        if answer.error_code == 0:
            assert answer.producer_id not in self.producer_ids, "a producer id was assigned twice"
            self.producer_ids.append(answer.producer_id)

    async def produce(
        self,
        name: str,
        *,
        acks: int = -1,
        idempotent: bool = False,
        again: bool = False,
        repeat: int = 5,
    ) -> int:
        """Send one batch, or the last one `again`; return the error code."""
        topic = self.topics[name]
        if idempotent and (not self.producer_ids or topic.is_broken):
            return -1
        if again:
            sent = topic.sent[-1]
        else:
            self.number += 1
            text = b"%s-%d-" % (name.encode(), self.number)
            values = tuple((text + b"%d " % n) * repeat for n in range(RECORDS))
            sent = Sent(values, NOW_MS + self.number * 10, acks)
            topic.sent.append(sent)
        code, offset = await self._produce(name, topic, sent, idempotent=idempotent, again=again)
        if code and idempotent and not again:
            code, offset = await self._produce(name, topic, sent, idempotent=True, again=False)
            topic.is_broken = bool(code)
        if code == 0:
            where = f"{name}: a duplicate at {offset}, was {sent.offset}"
            assert sent.offset in (-1, offset), where
            sent.offset = offset
            if idempotent and not again:
                topic.sequence += RECORDS
        return code

    async def _produce(
        self, name: str, topic: Expected, sent: Sent, *, idempotent: bool, again: bool
    ) -> tuple[int, int]:
        options: dict[str, Any] = {}
        if idempotent:
            sequence = topic.sequence - (RECORDS if again else 0)
            options = {
                "producer_id": self.producer_ids[0], "producer_epoch": 0, "base_sequence": sequence
            }  # fmt: skip
        records = [
            Record(n, sent.timestamp + n, b"key-%d" % n, value)
            for n, value in enumerate(sent.values)
        ]
        data = PartitionProduceData(index=0, records=memoryview(build(records, **options)))
        body = ProduceRequest(
            acks=sent.acks,
            timeout_ms=5_000,
            topic_data=[TopicProduceData(name=name, partition_data=[data])],
        )
        answer = (await self.broker.call(body, 9)).responses[0].partition_responses[0]
        assert answer.error_code in PRODUCE_CODES, (name, answer)
        return answer.error_code, answer.base_offset

    async def read_all(self) -> None:
        for name in self.topics:
            await self.read(name)

    async def read(self, name: str, size_max: int = 400) -> tuple[int, int, dict[int, bytes]]:
        """Read a topic from its start as a consumer does; return (code, start, values found)."""
        topic = self.topics[name]
        found: dict[int, bytes] = {}
        offset = start = 0
        while True:
            wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=size_max)
            body = FetchRequest(
                max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=name, partitions=[wanted])]
            )
            answer = (await self.broker.call(body, 11)).responses[0].partitions[0]
            code = answer.error_code
            assert code in FETCH_CODES, (name, code)
            if code == OUT_OF_RANGE and not found and answer.log_start_offset > offset:
                offset = start = answer.log_start_offset
                continue
            if code == OUT_OF_RANGE and not found:
                offset = start = await self._log_start(name, offset)
                if start >= 0:
                    continue
                return STORAGE, 0, {}
            if code or not len(answer.records or b""):
                break
            found |= {at: value for at, value in _records(answer.records) if at >= offset}
            offset = max(header.next_offset for _, header in batches(bytes(answer.records)))
        for at, value in found.items():
            assert topic.seen.get(at, value) == value, f"{name}: offset {at} has changed"
            topic.seen[at] = value
        self._check_content(name, topic, start, found)
        return code, start, found

    async def _log_start(self, name: str, offset: int) -> int:
        found = await self._list_offset(name, -2)
        return found if found > offset else -1

    async def _list_offset(self, name: str, timestamp: int) -> int:
        asked = ListOffsetsTopic(
            name=name, partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)]
        )
        answer = await self.broker.call(ListOffsetsRequest(replica_id=-1, topics=[asked]), 5)
        result = answer.topics[0].partitions[0]
        assert result.error_code in {*FETCH_CODES, TIMED_OUT}, (name, result)
        return -1 if result.error_code else int(result.offset)

    async def look_up(self, name: str) -> None:
        """Look up each batch by its timestamp: a durable one has its own offset, or no answer."""
        for sent in self.topics[name].sent:
            offset = await self._list_offset(name, sent.timestamp)
            is_there = sent.offset >= self.topics[name].start_max and sent.acks == -1
            assert offset in (-1, sent.offset) or not is_there, f"{name}: {sent} found at {offset}"

    async def delete_records(self, name: str, offset: int) -> None:
        topic = self.topics[name]
        topic.start_max = max(topic.start_max, offset)
        asked = DeleteRecordsPartition(partition_index=0, offset=offset)
        body = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=name, partitions=[asked])], timeout_ms=5_000
        )
        result = (await self.broker.call(body, 1)).topics[0].partitions[0]
        assert result.error_code in {*FETCH_CODES, TIMED_OUT}, (name, result)
        if result.error_code == 0:
            topic.start_min = max(topic.start_min, result.low_watermark)

    async def alter(self, name: str, values: dict[str, str]) -> None:
        configs = [
            AlterableConfig(name=key, config_operation=0, value=value)
            for key, value in values.items()
        ]
        resource = AlterConfigsResource(resource_type=2, resource_name=name, configs=configs)
        answer = await self.broker.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        code = answer.responses[0].error_code
        assert code in ADMIN_CODES, (name, answer.responses[0])

    def _check_content(
        self, name: str, topic: Expected, start: int, found: dict[int, bytes]
    ) -> None:
        """Check that the log holds whole batches that were sent, each once, without holes."""
        if not topic.is_compacted:
            assert sorted(found) == list(range(start, start + len(found))), f"{name}: a hole"
        known = {value: (sent, n) for sent in topic.sent for n, value in enumerate(sent.values)}
        places: dict[bytes, int] = {}
        for offset, value in found.items():
            assert value in known, f"{name}: {value!r} at {offset} was never sent"
            assert value not in places, f"{name}: {value!r} at {places[value]} and {offset}"
            places[value] = offset
            sent, number = known[value]
            assert sent.offset in (-1, offset - number), f"{name}: {value!r} at {offset}"
            for other, other_value in () if topic.is_compacted else enumerate(sent.values):
                at = offset - number + other
                assert at < start or found.get(at) == other_value, f"{name}: half a batch at {at}"


def _records(data: Any) -> Iterator[tuple[int, bytes]]:
    view = memoryview(bytes(data))
    for position, _ in batches(view):
        for record in read_records(view, position, size_max=LARGE_BYTES):
            yield record.offset, bytes(record.value or b"")
