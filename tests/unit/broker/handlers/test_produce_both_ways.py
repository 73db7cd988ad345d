"""The usual Produce goes a short way: it does what the long way does, whatever is sent and set.

Two brokers get the same requests. One has no short way.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker.handlers import produce as handler
from broker.metadata.topic_rules import NewTopic
from broker.partitions.partition import Partition
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from storage import failing
from storage.errors import LogFailed
from tests.support.broker_rig import Rig, batch
from tests.support.fake_connection import FakeConnection

REQUESTS = 300
TOPICS = {
    "plain": {},
    "cached": {"write.caching": "true"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "recompressed": {"compression.type": "zstd"},
    "compacted": {"cleanup.policy": "compact"},
    "small": {"max.message.bytes": "100"},
    "recent": {"message.timestamp.before.max.ms": "1000"},
    "flushed": {"flush.messages": "1"},
    "failing": {},
}
NAMES = (*TOPICS, "plain", "plain", "missing", "__consumer_offsets")


class Both:
    """Two brokers with the same topics; `lasting` has the long way alone."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rigs = [Rig(directory / way) for way in ("short", "long")]
        self.ids: list[dict[str, bytes]] = []
        self.usual = 0
        short = handler._append_usual
        longs = self.rigs[1].services

        def usual(request: Any, body: Any, services: Any) -> Any:
            found = None if services is longs else short(request, body, services)
            self.usual += found is not None
            return found

        monkeypatch.setattr(handler, "_append_usual", usual)

    async def create(self) -> None:
        wanted = [NewTopic(name=name, configs=configs) for name, configs in TOPICS.items()]
        for rig in self.rigs:
            made: Any = await rig.services.topics.create(wanted)
            self.ids.append({name: made[name].topic_id for name in TOPICS})

    async def each(self, seed: float, produce: Any, version: int, *, stalls: bool) -> list[Any]:
        """Have each broker handle the same request; return what became of it."""
        return [
            await _outcome(rig, produce(random.Random(seed), ids), version, stalls=stalls)
            for rig, ids in zip(self.rigs, self.ids, strict=True)
        ]


async def _outcome(rig: Rig, body: ProduceRequest, version: int, *, stalls: bool) -> Any:
    name, connection = _name_of(rig, body), FakeConnection()
    services = rig.services
    partition = services.partitions.find(name, 0)
    if stalls and partition is not None:
        partition.flush_started_ns = 1  # a flush that is older than any limit
    call = asyncio.create_task(rig.call_on(connection, body, version))
    await asyncio.sleep(0)
    if stalls and partition is not None:
        partition.flush_started_ns = 0
        services.appends.drain()
    response = await call
    _check_durable(body, response, partition)
    found = [] if response is None else [_said(one) for one in response.responses]
    return found, bool(connection.aborted), _counts(rig), partition and _state(partition)


def _check_durable(body: ProduceRequest, response: Any, partition: Partition | None) -> None:
    """With acks=-1 the answer comes when the records can be read."""
    if body.acks == -1:
        for one in response.responses[0].partition_responses:
            if not one.error_code:
                assert partition is not None
                assert partition.log.high_watermark > one.base_offset


def _name_of(rig: Rig, body: ProduceRequest) -> str:
    (topic,) = body.topic_data
    known = rig.services.topics.by_id(topic.topic_id)
    return topic.name or (known.name if known else "")


def _said(topic: Any) -> Any:
    """Return an answer without what differs: times, ids, directories."""
    return topic.name, [
        (
            one.index,
            one.error_code,
            one.base_offset,
            one.log_append_time_ms < 0,
            one.log_start_offset,
            one.error_message is None,
            [error.batch_index for error in one.record_errors],
        )
        for one in topic.partition_responses
    ]


def _counts(rig: Rig) -> Any:
    traffic = rig.services.metrics.traffic  # not the queue's: a slow disk has batches queued, too
    return (
        dict(traffic.errors),
        traffic.failed_produces,
        {name: one.failed_produces for name, one in traffic.topics.items()},
        (traffic.bytes_rejected, traffic.batches_corrupt, traffic.records_without_key),
    )


def _state(partition: Partition) -> Any:
    log = partition.log
    producers = {
        number: (one.epoch, [batch[:2] for batch in one.batches])
        for number, one in log.producers.entries.items()
    }
    counts = partition.produces, log.end_offset, log.size_bytes
    return counts, producers, log.failed is None


def drawn(chance: random.Random, ids: dict[str, bytes], *, version: int) -> ProduceRequest:
    """Return any small request."""
    name = chance.choice(NAMES)
    topic = TopicProduceData(name=name)
    if version >= 13:
        topic = TopicProduceData(topic_id=ids.get(name, b"x" * 16))
    count = chance.choice((1, 1, 1, 1, 2, 0))
    index = chance.choice((0, 0, 0, 0, 1, -1))
    topic.partition_data = [
        PartitionProduceData(index=index, records=_records(chance)) for _ in range(count)
    ]
    return ProduceRequest(
        transactional_id=chance.choice((None,) * 8 + ("", "tx")),
        acks=chance.choice((1, 1, -1, -1, 0, 2)),
        timeout_ms=5_000,
        topic_data=[topic],
    )


def _records(chance: random.Random) -> Any:
    options: dict[str, Any] = {"timestamp": chance.choice((1, 1_700_000_000_000, 1 << 60))}
    if chance.random() < 0.5:
        options |= {
            "producer_id": chance.randrange(2),
            "producer_epoch": chance.choice((0, 0, 0, 1)),
            "base_sequence": chance.randrange(4),
        }
    options["transactional"] = chance.random() < 0.1
    options["codec"] = chance.choice((0, 0, 4))
    made = batch(*[bytes(chance.choice((1, 200)))] * chance.choice((1, 1, 2)), **options)
    what = chance.randrange(12)
    if what == 0:
        made[-1] ^= 1
    elif what == 1:
        return None
    elif what == 2:
        return made[: chance.randrange(len(made))]
    elif what == 3:
        return memoryview(bytearray(bytes(made) * 2))
    return made


@pytest.fixture
async def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Both]:
    made = Both(tmp_path, monkeypatch)
    await made.create()
    yield made
    for rig in made.rigs:
        await rig.close()


@pytest.mark.parametrize("seed", range(2))
async def test_any_requests_have_the_same_outcome(both: Both, seed: int) -> None:
    chance = random.Random(seed)
    for number in range(REQUESTS):
        version = chance.choice((3, 7, 8, 9, 11, 12, 13))

        def produce(
            again: random.Random, ids: dict[str, bytes], version: int = version
        ) -> ProduceRequest:
            return drawn(again, ids, version=version)

        if number == REQUESTS // 2:
            for rig in both.rigs:
                log = rig.services.partitions.get("failing", 0).log
                failing.fail(log, LogFailed(log.directory, "as the test wants it"))
        one, other = await both.each(
            chance.random(), produce, version, stalls=chance.random() < 0.15
        )
        assert one == other
    assert both.usual > REQUESTS // 20
    assert all(rig.services.metrics.appends_queued for rig in both.rigs)


class Transactions:
    """One transactional id on both brokers, which give it the same producer id."""

    def __init__(self, both: Both) -> None:
        self._rigs = both.rigs
        self.producer_id = self.epoch = -1
        self.sequences: dict[str, int] = {}

    async def begin(self) -> None:
        for rig in self._rigs:
            await rig.call(FindCoordinatorRequest(key="tx", key_type=1), 2)
            asked = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000)
            answer = await rig.call(asked, 4)
            assert not answer.error_code
            assert self.producer_id in (-1, answer.producer_id)
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    async def end(self, *, is_commit: bool) -> None:
        asked = EndTxnRequest(
            transactional_id="tx",
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=is_commit,
        )
        one, other = [await rig.call(asked, 5) for rig in self._rigs]
        assert one == other
        if not one.error_code:
            self.epoch = one.producer_epoch
            self.sequences.clear()

    def drawn(self, chance: random.Random, ids: dict[str, bytes], version: int) -> ProduceRequest:
        name = chance.choice(("plain", "cached", "small", "failing", "missing"))
        sequence = self.sequences.get(name, 0)
        if chance.random() < 0.8:
            self.sequences[name] = sequence + 1
        records = batch(
            b"v",
            producer_id=chance.choice((self.producer_id,) * 8 + (self.producer_id + 1, -1)),
            producer_epoch=self.epoch - (chance.random() < 0.1),
            base_sequence=sequence,
            transactional=chance.random() < 0.9,
        )
        data = [PartitionProduceData(index=0, records=records)]
        topic = TopicProduceData(name=name, partition_data=data)
        if version >= 13:
            topic = TopicProduceData(topic_id=ids.get(name, b"x" * 16), partition_data=data)
        return ProduceRequest(
            transactional_id=chance.choice(("tx",) * 8 + (None, "other")),
            acks=chance.choice((1, -1)),
            timeout_ms=5_000,
            topic_data=[topic],
        )


@pytest.mark.parametrize("seed", range(2))
async def test_any_transactional_requests_have_the_same_outcome(both: Both, seed: int) -> None:
    chance = random.Random(seed)
    transactions = Transactions(both)
    await transactions.begin()
    for number in range(REQUESTS):
        version = chance.choice((11, 12, 12, 13, 13))
        if number == REQUESTS // 2:
            for rig in both.rigs:
                log = rig.services.partitions.get("failing", 0).log
                failing.fail(log, LogFailed(log.directory, "as the test wants it"))
        if chance.random() < 0.15:
            await transactions.end(is_commit=chance.random() < 0.5)
        before = dict(transactions.sequences)

        def produce(
            again: random.Random,
            ids: dict[str, bytes],
            version: int = version,
            before: dict[str, int] = before,
        ) -> ProduceRequest:
            transactions.sequences = dict(before)
            return transactions.drawn(again, ids, version)

        one, other = await both.each(
            chance.random(), produce, version, stalls=chance.random() < 0.1
        )
        assert one == other
    assert both.usual > REQUESTS // 4
