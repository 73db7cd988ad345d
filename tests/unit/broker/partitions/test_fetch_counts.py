"""Counts of real requests: records, bytes, requests, failures and codes are exactly what was sent.

Test files of `broker.partitions.fetch_asked` and `fetch_counts`: a whole broker without sockets.
"""

from pathlib import Path

import pytest

from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from storage.segments.cold import Cold, Pulled
from tests.support import raw_batches
from tests.support.broker_rig import Rig
from tests.support.rig_fetch import look_up_always


def batch(count: int) -> bytearray:
    return bytearray(raw_batches.batch([b"x" * 10] * count))


async def produce(rig: Rig, topic: str, records: bytearray, acks: int = -1) -> int:
    data = PartitionProduceData(index=0, records=memoryview(records))
    asked = TopicProduceData(name=topic, partition_data=[data])
    answer = await rig.call(ProduceRequest(acks=acks, timeout_ms=9_000, topic_data=[asked]), 9)
    return int(answer.responses[0].partition_responses[0].error_code)


async def fetch(rig: Rig, topic: str, offset: int = 0) -> tuple[int, int]:
    """Return the error code and how many bytes of records came."""
    asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    body = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=1 << 20,
        topics=[FetchTopic(topic=topic, partitions=[asked])],
    )  # fmt: skip
    answer = await rig.call(body, 11)
    data = answer.responses[0].partitions[0]
    return int(data.error_code), len(data.records or b"")


async def test_the_counts_are_exactly_what_was_done(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data")
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    await rig.call(CreateTopicsRequest(topics=[topic]), 7)
    sizes = []
    for count in (1, 2, 3):
        records = batch(count)
        sizes.append(len(records))
        assert await produce(rig, "t", records) == 0
    torn = batch(1)
    torn[-1] ^= 1
    assert await produce(rig, "t", torn) == 2
    assert await produce(rig, "unknown", batch(1)) == 3
    assert await fetch(rig, "t") == (0, sum(sizes))
    assert await fetch(rig, "t", 6) == (0, 0)
    assert await fetch(rig, "t", 7) == (1, 0)
    assert await fetch(rig, "unknown") == (3, 0)
    partition = rig.services.partitions.get("t", 0)
    log, traffic = partition.log, rig.services.metrics.traffic
    assert log.end_offset - log.opened_at == 6
    assert (log.appended_bytes, log.read_bytes) == (sum(sizes), sum(sizes))
    assert (partition.produces, partition.fetches) == (4, 3)
    assert (traffic.failed_produces, traffic.failed_fetches) == (2, 2)
    assert traffic.topics["t"].failed_produces == traffic.topics["t"].failed_fetches == 1
    assert traffic.batches_corrupt == 1
    assert traffic.errors == {(0, 2): 1, (0, 3): 1, (1, 1): 1, (1, 3): 1}
    produces, fetches = traffic.requests[0], traffic.requests[1]
    assert (produces[9], fetches[11]) == (5, 4)
    assert sum(traffic.fsyncs.counts) == rig.services.metrics.flushes > 0
    assert traffic.fsyncs.sum > 0
    await rig.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=9_000), 6)
    gone = traffic.gone
    assert (gone.records, gone.bytes_in, gone.bytes_out) == (6, sum(sizes), sum(sizes))
    assert (gone.produces, gone.fetches) == (4, 3)
    assert traffic.topics == {}
    assert await rig.close()


class NotInMemory(Cold):
    """What a look-up misses, and a thread finds."""

    def __init__(self) -> None:
        pass

    def pull(self) -> None:
        pass

    def keep(self, pulled: Pulled) -> None:
        pass


async def test_a_reading_that_is_repeated_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look-up of the second partition finds its bytes not in memory, once."""
    look_up_always(monkeypatch)
    rig = Rig(tmp_path / "data")
    topic = CreatableTopic(name="t", num_partitions=2, replication_factor=1)
    await rig.call(CreateTopicsRequest(topics=[topic]), 7)
    for number in (0, 1):
        data = PartitionProduceData(index=number, records=memoryview(batch(2)))
        asked = TopicProduceData(name="t", partition_data=[data])
        await rig.call(ProduceRequest(acks=-1, timeout_ms=9_000, topic_data=[asked]), 9)
    logs = [rig.services.partitions.get("t", number).log for number in (0, 1)]
    is_cold = [True]
    read = type(logs[0]).read

    def cold_once(log: object, *args: object, **how: object) -> object:
        if log is logs[1] and is_cold:
            is_cold.clear()
            raise NotInMemory
        return read(log, *args, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(type(logs[0]), "read", cold_once)
    body = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=1 << 20,
        topics=[
            FetchTopic(
                topic="t",
                partitions=[
                    FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1 << 20)
                    for number in (0, 1)
                ],
            )
        ],
    )  # fmt: skip
    answer = await rig.call(body, 11)
    sizes = [len(data.records) for data in answer.responses[0].partitions]
    assert not is_cold
    assert [log.read_bytes for log in logs] == sizes
    assert await rig.close()
