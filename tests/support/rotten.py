"""A data directory with bit rot: made once, then copied with one bit of one file flipped.

`make` runs a broker on a disk in memory through two lives. It writes a topic with several
segments, all codecs, an idempotent producer, two leader epochs and deleted records, and a second
topic. `flips` chooses the bits to flip in each region: each header field of several batches, with
the 21 bytes that no CRC covers, the records, and every other file. `outcome` starts a broker on a
copy with one bit flipped and reports what it serves.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.record_batch import HEADER_SIZE, batches, read_header
from storage.errors import StorageError
from storage.files import filenames
from tests.support import data_directory
from tests.support.life_client import LifeClient
from tests.support.memory_broker import DATA, NOW_MS, MemoryBroker
from tests.support.memory_filesystem import MemoryFileSystem

BATCHES = 24
DELETED_BEFORE = 7  # in the second batch
# (name, first byte, end) of each header field of a batch; the CRC does not cover the first four.
FIELDS = (
    ("base offset", 0, 8), ("batch length", 8, 12), ("leader epoch", 12, 16), ("magic", 16, 17),
    ("crc", 17, 21), ("attributes", 21, 23), ("last offset delta", 23, 27),
    ("base timestamp", 27, 35), ("max timestamp", 35, 43), ("producer id", 43, 51),
    ("producer epoch", 51, 53), ("base sequence", 53, 57), ("record count", 57, 61),
)  # fmt: skip
assert FIELDS[-1][2] == HEADER_SIZE


@dataclass(frozen=True)
class Flip:
    """One bit: its file, its position, and the field that holds it."""

    path: str  # below the data directory
    position: int
    bit: int
    region: str
    batch_offset: int = -1  # of a log file: the base offset of the batch

    def __str__(self) -> str:
        return f"{self.path} at {self.position}, bit {self.bit} ({self.region})"


@dataclass
class Original:
    """A sound directory: its files, and the batches that it must serve."""

    files: dict[str, bytes]
    batches: dict[str, dict[int, bytes]] = field(default_factory=dict)  # topic -> offset -> bytes
    deleted_before: dict[str, int] = field(default_factory=dict)

    def file_system(self, flip: Flip | None = None) -> MemoryFileSystem:
        """Return a disk in memory with the directory, with one bit flipped if given."""
        filesystem = MemoryFileSystem()
        filesystem.mkdir(DATA)
        for path, content in self.files.items():
            folder, _, _name = path.rpartition("/")
            if folder and not filesystem.exists(f"{DATA}/{folder}"):
                filesystem.mkdir(f"{DATA}/{folder}")
            data = turned(content, flip) if flip is not None and flip.path == path else content
            filesystem.open(f"{DATA}/{path}", create=True).pwrite(data, 0)
        return filesystem

    def write_to(self, place: Path) -> None:
        """Write the directory to a real disk."""
        for path, content in self.files.items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_bytes(content)


def turned(content: bytes, flip: Flip) -> bytes:
    """Return the content with the flip's bit flipped."""
    data = bytearray(content)
    data[flip.position] ^= 1 << flip.bit
    return bytes(data)


def make(ending: str) -> Original:
    """Return a directory whose broker was stopped cleanly, or killed after a full checkpoint."""
    filesystem = MemoryFileSystem()
    client = LifeClient()
    for number in range(2):
        broker = client.broker = MemoryBroker(filesystem, started_ms=NOW_MS + number * 1_000)
        broker.start()
        broker.run(_live(client, number))
        if number and ending == "clean":
            assert broker.run(broker.stop())
        else:
            broker.run(broker.duty("checkpoints"))
            broker.services.logs.abandon()
        broker.end()
        filesystem.kill()
    original = Original(dict(files_of(filesystem)))
    for path, content in original.files.items():
        folder, _, name = path.rpartition("/")
        topic = folder.removesuffix("-0")
        if name.endswith(".log") and not folder.startswith("__"):
            for position, header in batches(content):
                whole = content[position : position + header.size]
                original.batches.setdefault(topic, {})[header.base_offset] = whole
    original.deleted_before = {"plain": DELETED_BEFORE, "idem": 0}
    return original


async def _live(client: LifeClient, number: int) -> None:
    broker = client.broker
    if not number:
        for name in ("plain", "idem"):
            await client.create(name)
    half = BATCHES // 2
    for index in range(number * half, (number + 1) * half):
        await send(broker, "plain", data_directory.batch(index))
        if index % 3 == 0:
            await send(broker, "idem", data_directory.batch(index // 3 * 2 + 1))
    if number:
        asked = DeleteRecordsPartition(partition_index=0, offset=DELETED_BEFORE)
        topic = DeleteRecordsTopic(name="plain", partitions=[asked])
        await broker.call(DeleteRecordsRequest(topics=[topic], timeout_ms=5_000), 1)


async def send(broker: MemoryBroker, topic: str, records: bytearray) -> Any:
    """Produce one batch to partition 0 and return the answer."""
    data = PartitionProduceData(index=0, records=memoryview(records))
    body = ProduceRequest(
        acks=-1,
        timeout_ms=5_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )
    return (await broker.call(body, 9)).responses[0].partition_responses[0]


def files_of(filesystem: MemoryFileSystem, folder: str = DATA) -> Iterator[tuple[str, bytes]]:
    for name in filesystem.list(folder):
        path = f"{folder}/{name}"
        if filesystem.is_directory(path):
            yield from files_of(filesystem, path)
        else:
            yield path.removeprefix(f"{DATA}/"), filesystem.live_bytes(path)


# -- The choice of bits ---------------------------------------------------------------------------


def flips(
    original: Original, chance: random.Random, *, per_field: int, per_file: int
) -> list[Flip]:
    """Return bits of every region: `per_field` per header field, `per_file` per other file."""
    found: list[Flip] = []
    for path, content in original.files.items():
        if not content:
            continue
        if path.endswith(".log") and not path.startswith("__"):
            found += _log_flips(path, content, chance, per_field)
            continue
        region = _region(path)
        count = min(per_file, len(content) * 8)
        for at in sorted(chance.sample(range(len(content) * 8), count)):
            found.append(Flip(path, at // 8, at % 8, region))
    return found


def _log_flips(path: str, content: bytes, chance: random.Random, per_field: int) -> list[Flip]:
    found = []
    places = list(batches(content))
    chosen = {0, len(places) // 2, len(places) - 1}
    for index in sorted(chosen):
        position, header = places[index]
        regions = (*FIELDS, ("records", HEADER_SIZE, header.size))
        for name, start, end in regions:
            chosen_bits = chance.sample(
                range(start * 8, end * 8), min(per_field, (end - start) * 8)
            )
            found += [
                Flip(path, position + at // 8, at % 8, f"log: {name}", header.base_offset)
                for at in sorted(chosen_bits)
            ]
    return found


def _region(path: str) -> str:
    if path.startswith(filenames.METADATA_DIRECTORY):
        return "metadata: " + path.rpartition(".")[2]
    name = path.rpartition("/")[2]
    parsed = filenames.parse(name)
    assert parsed is not None, path
    return parsed.file


# -- The outcome ----------------------------------------------------------------------------------


@dataclass
class Outcome:
    """The behaviour of a broker on a directory with bit rot."""

    refused: str = ""  # the reason if it did not start
    start_offset: dict[str, int] = field(default_factory=dict)
    codes: dict[str, dict[int, int]] = field(default_factory=dict)  # of the fetch of each batch
    wrong: list[str] = field(default_factory=list)
    retry: tuple[int, int] = (0, -1)  # code and offset of an idempotent batch sent again
    appended: dict[str, int] = field(default_factory=dict)  # code of one more batch
    reports: list[str] = field(default_factory=list)
    files: dict[str, int] = field(default_factory=dict)  # at the end: path -> size


def outcome(original: Original, flip: Flip | None) -> Outcome:
    """Start on the directory with the bit flipped, fetch every batch, and append."""
    filesystem = original.file_system(flip)
    broker = MemoryBroker(filesystem, started_ms=NOW_MS + 10_000)
    found = Outcome()
    try:
        broker.start()
        broker.run(_ask(broker, original, found))
        found.reports = [
            line for report in broker.services.logs.reports for line in report.lines()
        ] + broker.services.logs.warnings
        assert not broker.surprises, broker.surprises
    except (StorageError, OSError) as error:
        found.refused = str(error)
    finally:
        broker.end()
    filesystem.kill()
    found.files = {path: len(content) for path, content in files_of(filesystem)}
    return found


async def fetch_all(broker: MemoryBroker, original: Original, found: Outcome) -> None:
    """Fetch every batch, and note the start offsets of the logs."""
    for topic, known in original.batches.items():
        codes = found.codes[topic] = {}
        for offset in sorted(known):
            codes[offset] = await _fetch(broker, original, topic, offset, found)
    found.start_offset = {log.topic: log.start_offset for log in broker.services.logs.all()}


async def _ask(broker: MemoryBroker, original: Original, found: Outcome) -> None:
    await fetch_all(broker, original, found)
    last = (BATCHES // 2 * 2 - 3) // 3 * 2 + 1
    answer = await send(broker, "idem", data_directory.batch(last))
    found.retry = (answer.error_code, answer.base_offset)
    for topic in original.batches:
        found.appended[topic] = (await send(broker, topic, data_directory.batch(0))).error_code


async def _fetch(
    broker: MemoryBroker, original: Original, topic: str, offset: int, found: Outcome
) -> int:
    """Fetch some batches from a batch's last record on; compare them with the original."""
    known = original.batches[topic]
    wanted_offset = offset + read_header(known[offset]).last_offset_delta
    wanted = FetchPartition(partition=0, fetch_offset=wanted_offset, partition_max_bytes=900)
    topics = [FetchTopic(topic=topic, partitions=[wanted])]
    answer = await broker.call(FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics), 11)
    part = answer.responses[0].partitions[0]
    if part.error_code:
        return int(part.error_code)
    data = bytes(part.records or b"")
    if not data:
        return -1
    first = True
    for position, header in batches(data):
        whole = data[position : position + header.size]
        if first and header.base_offset != offset:
            found.wrong.append(f"{topic}: offset {wanted_offset} answered by {header.base_offset}")
        if known.get(header.base_offset) != whole:
            found.wrong.append(
                f"{topic}: the batch at {header.base_offset} is not what was written"
            )
        first = False
    return 0
