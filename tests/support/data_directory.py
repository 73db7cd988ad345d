"""A small data directory on the real disk with all kinds of files, written by the broker's code.

Topic `t`, partition 0: several segments of uncompressed and compressed batches with keys and
headers, from a plain and an idempotent producer. Partition 1: one short segment.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from broker.metadata.topic_rules import NewTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records import Record, build
from tests.support.broker_rig import Rig

TIME_MS = 1_700_000_000_000
BATCHES = 40
RECORDS_PER_BATCH = 5
SETTINGS = {"internal.segment.bytes": "4000", "index.interval.bytes": "300"}


def batch(number: int) -> bytearray:
    """Return batch `number` of partition 0: five records; some are compressed or idempotent."""
    records = [
        Record(
            0,
            TIME_MS + number * 10 + index,
            None if index == 1 else b"key-%d" % index,
            None if index == 2 else b"value-%d-%d " % (number, index) * 6,
            (("header", b"%d" % number), ("none", None)) if index == 3 else (),
        )
        for index in range(RECORDS_PER_BATCH)
    ]
    options: dict[str, Any] = {"codec": number % 5}
    if number % 2:
        sequence = number // 2 * RECORDS_PER_BATCH
        options |= {"producer_id": 4000, "producer_epoch": 0, "base_sequence": sequence}
    return build(records, **options)


async def _produce(rig: Rig, partition: int, records: bytearray) -> None:
    data = PartitionProduceData(index=partition, records=memoryview(records))
    answer = await rig.call(
        ProduceRequest(
            acks=-1,
            timeout_ms=5_000,
            topic_data=[TopicProduceData(name="t", partition_data=[data])],
        ),
        9,
    )
    assert answer.responses[0].partition_responses[0].error_code == 0


async def _fill(path: Path) -> None:
    rig = Rig(path)
    topic = NewTopic(name="t", partition_count=2, configs=SETTINGS)
    await rig.services.topics.create([topic])
    for number in range(BATCHES):
        await _produce(rig, 0, batch(number))
    await _produce(rig, 1, build([Record(0, TIME_MS, None, b"one")]))
    assert await rig.close()


def make(path: Path) -> Path:
    """Make the directory at `path`, stopped cleanly, and return it."""
    asyncio.run(_fill(path))
    return path
