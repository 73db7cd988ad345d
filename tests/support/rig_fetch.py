"""Fetches from a rig: short ways to build requests and to read their answers."""

from collections.abc import Sequence
from typing import Any

import pytest

from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.records import batches, read_records
from protocol.wire import ZERO_UUID
from storage.log import Log
from tests.support.broker_rig import Rig, batch
from tests.support.rig_client import ask, create, produce

MANY = 1_000_000
VALUE = bytes(1_000)
BATCH_BYTES = len(batch(VALUE))


def look_up_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no fetch read on: each looks up where its records are."""
    monkeypatch.setattr(Log, "read_on", lambda *_: None)


def of(partition: int, offset: int, size_max: int = MANY, **epochs: int) -> FetchPartition:
    """Return a request's part for one partition; `epochs` are further fields."""
    return FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=size_max, **epochs
    )


def fetch(*partitions: FetchPartition, topic: str = "t", **fields: Any) -> FetchRequest:
    """Return a request for partitions of one topic that does not wait unless `fields` say so."""
    topic_id = fields.pop("topic_id", ZERO_UUID)
    fields = {"max_wait_ms": 0, "min_bytes": 1, **fields}
    wanted = FetchTopic(topic=topic, topic_id=topic_id, partitions=list(partitions))
    return FetchRequest(topics=[wanted], **fields)


async def read(rig: Rig, body: FetchRequest, version: int = 12) -> list[Any]:
    """Return the partitions of an answer that has one topic and no error of its own."""
    response = await ask(rig, body, version)
    assert (response.error_code, response.session_id) == (0, 0)
    (topic,) = response.responses
    partitions: list[Any] = topic.partitions
    return partitions


async def read_one(rig: Rig, body: FetchRequest, version: int = 12) -> Any:
    """Return the one partition of an answer."""
    (partition,) = await read(rig, body, version)
    return partition


def values(answer: Any) -> list[bytes]:
    """Return the values of all fetched records."""
    found = []
    for position, header in batches(answer.records):
        end = position + header.size
        found += [
            bytes(record.value or b"")
            for record in read_records(answer.records[position:end], size_max=MANY)
        ]
    return found


def sizes(answers: Sequence[Any]) -> list[int]:
    """Return how many bytes were fetched from each partition."""
    return [len(answer.records) for answer in answers]


async def fill(rig: Rig, count: int = 1) -> None:
    """Append the offsets 0 to 6 in four batches: 0-1, 2, 3-5, 6."""
    await create(rig, count=count)
    for chunk in ((b"0", b"1"), (b"2",), (b"3", b"4", b"5"), (b"6",)):
        await produce(rig, batch(*chunk))
