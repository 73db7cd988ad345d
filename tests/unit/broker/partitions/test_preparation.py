"""Batches that are decoded before the append: which ones, in which thread, in which order."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker.partitions.preparation import INLINE_BYTES_MAX, is_quick, preparation, target_of
from config.topic import TopicConfig
from protocol.errors import ErrorCode
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.recompression import Target
from protocol.record_batch import HEADER_SIZE, batches, write_crc
from protocol.record_errors import RecordsWithoutKey
from protocol.records import read_records
from tests.support.broker_rig import Rig, batch
from tests.support.rig_client import create, produce


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, None),
        ({"compression_type": "uncompressed"}, Target(0)),
        ({"compression_type": "gzip"}, Target(1)),
        ({"compression_type": "gzip", "compression_gzip_level": 3}, Target(1, 3)),
        ({"compression_type": "snappy"}, Target(2)),
        ({"compression_type": "lz4", "compression_lz4_level": 12}, Target(3)),
        ({"compression_type": "zstd"}, Target(4, 3)),
    ],
)
def test_the_topic_decides_the_compression_of_its_batches(settings: Any, wanted: Any) -> None:
    assert target_of(TopicConfig(**settings)) == wanted


def test_most_batches_are_stored_as_they_came() -> None:
    def made(records: memoryview, *, validates: bool = False, **settings: Any) -> Any:
        return preparation(records, TopicConfig(**settings), 1 << 20, validates=validates)

    assert made(batch(b"a", codec=4)) is None
    assert made(batch(b"a", codec=4), compression_type="zstd") is None
    assert made(memoryview(b"short"), cleanup_policy=("compact",), validates=True) is None
    assert made(batch(b"a"), compression_type="zstd") is not None
    assert made(batch(b"a"), validates=True) is not None
    checked = made(batch(b"a"), cleanup_policy=("compact", "delete"))
    with pytest.raises(RecordsWithoutKey):
        checked()


def test_the_event_loop_decodes_only_small_uncompressed_batches() -> None:
    assert is_quick(batch(b"a"), INLINE_BYTES_MAX)
    assert not is_quick(batch(bytes(INLINE_BYTES_MAX)), INLINE_BYTES_MAX)
    assert not is_quick(batch(b"a"), 20)
    assert not is_quick(batch(b"a", codec=1), INLINE_BYTES_MAX)
    assert is_quick(memoryview(b"short"), INLINE_BYTES_MAX)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    made = Rig(tmp_path / "data")
    yield made
    assert await made.close()


def stored(rig: Rig) -> list[tuple[int, bytes | None]]:
    """Codec and first value of each batch in the log."""
    log = rig.services.partitions.get("t", 0).log
    data = log.segments.active.log_file.read(0, log.segments.active.size)
    found = []
    for position, header in batches(data):
        first = next(iter(read_records(data, position, size_max=1 << 22)))
        found.append((header.codec, None if first.value is None else bytes(first.value)[:5]))
    return found


async def test_pipelined_idempotent_batches_stay_in_order_slow_or_fast(rig: Rig) -> None:
    await create(rig, "t", compression_type="zstd")
    large = random.Random(1).randbytes(400_000)
    requests = []
    for sequence in range(20):
        name = f"{sequence:05}".encode()
        slow = sequence % 2 == 0
        records = batch(
            name + (large if slow else b""),
            codec=1 if slow else 4,
            producer_id=77,
            producer_epoch=0,
            base_sequence=sequence,
        )
        data = [PartitionProduceData(index=0, records=records)]
        body = ProduceRequest(
            acks=-1,
            timeout_ms=5_000,
            topic_data=[TopicProduceData(name="t", partition_data=data)],
        )
        requests.append(asyncio.ensure_future(rig.call(body, 9)))
        await asyncio.sleep(0)
    answers = [one.responses[0].partition_responses[0] for one in await asyncio.gather(*requests)]
    assert [answer.error_code for answer in answers] == [0] * 20
    assert [answer.base_offset for answer in answers] == list(range(20))
    assert stored(rig) == [(4, f"{n:05}".encode()) for n in range(20)]


async def test_damaged_records_are_refused(rig: Rig) -> None:
    await create(rig, "t", compression_type="uncompressed")
    damaged = bytearray(batch(b"value" * 50, codec=1))
    damaged[HEADER_SIZE + 12] ^= 0xFF
    write_crc(damaged, 0)
    with pytest.raises(AssertionError, match=f"{ErrorCode.CORRUPT_MESSAGE.name}|INVALID_RECORD"):
        await produce(rig, memoryview(damaged))
    assert await produce(rig, batch(b"value", codec=1)) == 0
    assert stored(rig) == [(0, b"value")]
