"""Topics with a codec of their own: what is packed anew, where, and in which order it is stored."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker.recompression import INLINE_BYTES_MAX, preparation, target_of
from config.topic import TopicConfig
from protocol.errors import ErrorCode
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.recompression import Target
from protocol.record_batch import HEADER_SIZE, batches, write_crc
from protocol.records import Record, build, read_records
from tests.support.broker_rig import Rig, batch
from tests.support.rig_client import create, produce


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"compression_type": "uncompressed"}, Target(0)),
        ({"compression_type": "gzip"}, Target(1)),
        ({"compression_type": "gzip", "compression_gzip_level": 3}, Target(1, 3)),
        ({"compression_type": "snappy"}, Target(2)),
        ({"compression_type": "lz4", "compression_lz4_level": 12}, Target(3)),
        ({"compression_type": "zstd"}, Target(4, 3)),
    ],
)
def test_the_topic_says_what_its_batches_are_packed_as(settings: Any, wanted: Any) -> None:
    assert target_of(TopicConfig(**settings)) == wanted


def test_only_small_plain_batches_are_packed_on_the_loop() -> None:
    config = TopicConfig(compression_type="zstd")
    large = build([Record(0, 1, None, bytes(INLINE_BYTES_MAX))])
    cases = [
        (batch(b"a"), True),
        (memoryview(large), False),
        (batch(b"a", codec=1), False),
    ]
    for one, is_quick in cases:
        prepare, says_quick = preparation(one, config, 1 << 20)
        assert prepare is not None
        assert says_quick is is_quick
    for one in (batch(b"a", codec=4), memoryview(b"short")):
        assert preparation(one, config, 1 << 20)[0] is None


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
