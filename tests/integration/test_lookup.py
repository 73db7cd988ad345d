"""One record, found three ways: by its offset, by its timestamp, and by reading everything.

The log spans several segments and both plain and compressed batches, so that the ways meet index
entries, segment bounds and the insides of batches. Batches are made and opened by other hands than
the product's (tests/support/raw_batches.py, aiokafka).
"""

import gzip
import itertools
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiokafka.record.memory_records import MemoryRecords

from tests.support import raw_batches, raw_client
from tests.support.broker_process import BrokerProcess
from tests.support.raw_client import RawClient
from tests.support.under_test import against_kafka, broker_on

TOPIC = "times"
BATCHES, RECORDS, VALUE_BYTES = 420, 20, 500
STEP_MS = 7
GZIP = 1
# ListOffsets' special timestamps
LATEST, EARLIEST = -1, -2


@dataclass
class Stored:
    """A served log, and what a scan of it gave."""

    broker: BrokerProcess
    data: Path
    first_timestamp: int
    batches: list[bytes] = field(default_factory=list)
    records: dict[int, tuple[int, bytes]] = field(default_factory=dict)  # offset -> ts, value

    def batch_of(self, offset: int) -> tuple[int, bytes]:
        """(first offset, bytes) of the batch that holds `offset`, from the scan."""
        first = offset // RECORDS * RECORDS
        return first, self.batches[offset // RECORDS]


def one_batch(number: int, first_timestamp: int, chance: random.Random) -> bytes:
    """RECORDS records with growing timestamps; every third batch is compressed."""
    base = first_timestamp + number * RECORDS * STEP_MS
    body = b"".join(
        raw_batches.record(
            b"%d:" % (number * RECORDS + n) + chance.randbytes(VALUE_BYTES),
            offset_delta=n,
            timestamp_delta=n * STEP_MS,
        )
        for n in range(RECORDS)
    )
    attributes = 0
    if number % 3 == 2:
        body, attributes = gzip.compress(body, 1, mtime=0), GZIP
    return raw_batches.batch(
        [None] * RECORDS,
        body=body,
        attributes=attributes,
        timestamp=base,
        max_timestamp=base + (RECORDS - 1) * STEP_MS,
    )


def split(fetched: bytes) -> Iterator[bytes]:
    """Yield the whole batches of an answer."""
    position = 0
    while position + 12 <= len(fetched):
        size = 12 + int.from_bytes(fetched[position + 8 : position + 12], "big")
        if position + size > len(fetched):
            return
        yield fetched[position : position + size]
        position += size


def records_in(batch: bytes) -> list[tuple[int, int, bytes]]:
    """(offset, timestamp, value) of a batch, by aiokafka."""
    opened = MemoryRecords(batch).next_batch()
    return [(record.offset, record.timestamp, record.value) for record in opened]


def by_timestamp(client: RawClient, timestamp: int) -> tuple[int, int]:
    """(timestamp, offset) that ListOffsets, version 1, answers for partition 0."""
    asked = raw_client.int32(0) + raw_client.int64(timestamp)
    topics = raw_client.array(raw_client.string(TOPIC) + raw_client.array(asked))
    answer = client.call(raw_client.LIST_OFFSETS, 1, raw_client.int32(-1) + topics)
    assert answer.number(4) == 1
    answer.string()
    assert (answer.number(4), answer.number(4), answer.number(2)) == (1, 0, 0)
    return answer.number(8), answer.number(8)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    """A log of several segments, scanned once from its start."""
    place = tmp_path_factory.mktemp("lookup")
    broker = broker_on(place, {"log.segment.bytes": str(1 << 20)})
    broker.start()
    chance = random.Random(5)
    result = Stored(broker, broker.data, int(time.time() * 1000) - 3_600_000)
    try:
        with RawClient(broker.host, broker.port) as client:
            assert client.create_topic(TOPIC) == 0
            for number in range(BATCHES):
                sent = one_batch(number, result.first_timestamp, chance)
                while (told := client.produce(TOPIC, sent)).error in (3, 6) and against_kafka():
                    time.sleep(0.05)
                assert (told.error, told.base_offset) == (0, number * RECORDS)
            offset = 0
            while offset < BATCHES * RECORDS:
                found = list(split(client.fetch(TOPIC, offset, size_max=300_000).records))
                assert found
                for batch in found:
                    result.batches.append(batch)
                    for at, timestamp, value in records_in(batch):
                        assert at == offset
                        result.records[offset] = (timestamp, value)
                        offset += 1
        yield result
    finally:
        broker.kill()


@pytest.fixture
def client(stored: Stored) -> Iterator[RawClient]:
    """A connection."""
    with RawClient(stored.broker.host, stored.broker.port) as one:
        yield one


def sample(stored: Stored) -> list[int]:
    """Offsets to look up: the ends, both sides of every segment boundary, and some at random."""
    bases = sorted(int(path.stem) for path in (stored.data / f"{TOPIC}-0").glob("*.log"))
    assert len(bases) > 3, f"expected several segments, found {bases}"
    near = [offset for base in bases for offset in (base - 1, base, base + 1) if offset >= 0]
    chance = random.Random(6)
    return [*near, *(chance.randrange(BATCHES * RECORDS) for _ in range(150))]


def test_the_scan_gives_what_was_sent(stored: Stored) -> None:
    chance = random.Random(5)
    for number, batch in enumerate(stored.batches):
        sent = one_batch(number, stored.first_timestamp, chance)
        # the broker sets base offset and leader epoch; the producer set everything under the CRC
        assert batch[16:] == sent[16:]
        assert int.from_bytes(batch[:8], "big") == number * RECORDS


def test_a_lookup_returns_the_batch_of_the_scan(stored: Stored, client: RawClient) -> None:
    for offset in sample(stored):
        _, wanted = stored.batch_of(offset)
        found = next(split(client.fetch(TOPIC, offset, size_max=40_000).records))
        assert found == wanted, f"offset {offset}"
        by_lookup = {at: (timestamp, value) for at, timestamp, value in records_in(found)}
        assert by_lookup[offset] == stored.records[offset]


def test_a_fetch_inside_a_batch_returns_the_whole_batch(stored: Stored, client: RawClient) -> None:
    first, wanted = stored.batch_of(BATCHES // 2 * RECORDS)
    for offset in range(first, first + RECORDS):
        # even when not a single batch fits the limit (KIP-74)
        for size_max in (1, len(wanted), 300_000):
            answer = client.fetch(TOPIC, offset, size_max=size_max)
            assert next(split(answer.records)) == wanted, f"offset {offset}, limit {size_max}"


def test_a_timestamp_finds_the_record_of_the_scan(stored: Stored, client: RawClient) -> None:
    for offset in sample(stored):
        timestamp, _ = stored.records[offset]
        assert by_timestamp(client, timestamp) == (timestamp, offset)
        # between two records: the later one
        assert by_timestamp(client, timestamp - STEP_MS + 1) == (timestamp, offset)


def test_the_ends_of_time(stored: Stored, client: RawClient) -> None:
    last = BATCHES * RECORDS - 1
    last_timestamp, _ = stored.records[last]
    assert by_timestamp(client, 0) == (stored.first_timestamp, 0)
    assert by_timestamp(client, last_timestamp) == (last_timestamp, last)
    assert by_timestamp(client, last_timestamp + 1) == (-1, -1)
    assert by_timestamp(client, EARLIEST) == (-1, 0)
    assert by_timestamp(client, LATEST) == (-1, last + 1)


def test_the_three_ways_agree_after_the_indexes_are_deleted(stored: Stored) -> None:
    """I4: any index may be deleted while stopped; the answers stay (and so does all above)."""
    broker = stored.broker
    broker.stop()
    folder = stored.data / f"{TOPIC}-0"
    for path in itertools.chain(folder.glob("*.index"), folder.glob("*.timeindex")):
        path.unlink()
    broker.start()
    with RawClient(broker.host, broker.port) as client:
        while client.fetch(TOPIC, 0).error in (3, 6) and against_kafka():
            time.sleep(0.05)
        test_a_lookup_returns_the_batch_of_the_scan(stored, client)
        test_a_timestamp_finds_the_record_of_the_scan(stored, client)
