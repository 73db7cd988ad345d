"""The last client: reads every partition back from its start to its end, when faults are over.

It takes part in the history as a consumer that seeks to the start of each partition. Whatever a
well-behaved reader cannot read now is a failure, but for batches with a flipped bit: whether the
broker serves or refuses them, they are passed over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.simulation.bit_flip import found_again, refused_from
from tests.simulation.clients.client import STORAGE
from tests.simulation.clients.fetching import EARLIEST, Fetcher
from tests.simulation.clients.readings import Reading
from tests.simulation.clients.topics import Topic
from tests.simulation.clients.unserved import OUT_OF_RANGE
from tests.simulation.plan import ClientPlan
from tests.support.history_checker import Key, Poll
from tests.support.log_ledger import HIGH_WATERMARK, START, SeenBatch

if TYPE_CHECKING:
    from tests.simulation.context import Context

TRIES_MAX: Final = 40
VERSION: Final = 18
METADATA_VERSION: Final = 12
UNKNOWN_TOPIC: Final = 3


class ReadLog(NamedTuple):
    """A whole log: its start, and its batches in order."""

    start_offset: int
    batches: list[SeenBatch]
    hidden: list[tuple[int, int]]  # what flipped bits hide, from an offset to another


async def read_back(context: Context, name: str = "reader") -> dict[Key, ReadLog]:
    """Return every log of the topics that the clients know. Failures go to the record."""
    reader = _Reader(context, ClientPlan(name, "reader", 0))
    await reader.run()
    return reader.logs


async def look_again(context: Context, name: str = "looker") -> None:
    """Learn which topics are there now, of those that may have been made anew."""
    await _Looker(context, ClientPlan(name, "reader", 0)).run()


class _Reader(Fetcher):
    def __init__(self, context: Context, plan: ClientPlan) -> None:
        super().__init__(context, plan)
        self.logs: dict[Key, ReadLog] = {}

    async def live(self) -> None:
        for topic in self.topics.values():
            if topic.topic_id == bytes(16) or not await self.is_there(topic):
                continue
            for number in range(topic.partition_count):
                await self._read(Reading(topic, number, topic.key(number), topic.topic_id))

    async def is_there(self, topic: Topic) -> bool:
        """Learn a topic as it is now; return whether it is there."""
        asked = [MetadataRequestTopic(name=topic.name)]
        body = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        for _ in range(TRIES_MAX):
            answer = await self.ask(body, METADATA_VERSION, topic.name)
            if answer is None:
                continue
            (found,) = answer.topics
            if found.error_code == UNKNOWN_TOPIC and topic.may_be_gone:
                return False
            if found.error_code == 0:
                self.topics.learned(topic, found.topic_id, len(found.partitions))
                return True
            await self.pause(100)
        self.record.fail(self.name, f"{topic.name} cannot be described any more")
        return False

    async def _begin(self, reading: Reading, before: ReadLog | None) -> ReadLog | None:
        """Go to the start of a log; `before` if it begins there still. None: it is not told."""
        for _ in range(TRIES_MAX):
            start = await self.list_offset(reading, EARLIEST)
            if start is not None:
                if before is not None and before.start_offset >= start:
                    return before
                self.seek(reading, start)
                self.process = self.record.new_process()
                return ReadLog(start, [], [])
            await self.pause(100)
        return before

    async def _read(self, reading: Reading) -> None:
        log = await self._begin(reading, None)
        if log is None:
            self.wrong(reading, "its start cannot be found")
            return
        tries = 0
        while tries < TRIES_MAX:
            began_ns = self.world.now_ns
            answer = await self.ask(self._fetch(reading), VERSION, f"{reading.key} all")
            part = None if answer is None else answer.responses[0].partitions[0]
            if part is None or part.error_code:
                if part is not None:
                    self.refused("fetch", reading.topic, reading.partition, part.error_code)
                    if part.error_code == STORAGE and self._passes_flip(reading, log):
                        continue
                    if part.error_code == OUT_OF_RANGE and reading.topic.is_trimmed:
                        log = await self._begin(reading, log) or log
                tries += 1
                await self.pause(100)
                continue
            if self._take(reading, part, log, (began_ns, self.world.now_ns)):
                self.logs[reading.key] = log
                return
        self.wrong(reading, f"cannot be read from {reading.position} on")

    def _passes_flip(self, reading: Reading, log: ReadLog) -> bool:
        """Go on behind the batch with a flipped bit, if this is its place.

        In a compacted log the batch may begin behind the place. The bit may hide batches behind it,
        too, up to a place that the broker has noted.
        """
        at, root = reading.position, self.context.disk.directory("/")
        for flip in sorted(self.flips_in(reading), key=lambda one: one.base_offset):
            begins = flip.base_offset
            if reading.topic.is_compacted:
                begins = refused_from(root, flip, self.context.flips)
            if begins <= at < max(flip.next_offset, found_again(root, flip)):
                self.seek(reading, max(flip.next_offset, at + 1))
                log.hidden.append((at, reading.position))
                return True
        return False

    def _reappear(self, log: ReadLog, position: int, batches: list[SeenBatch]) -> None:
        """Add batches to the log, without what is hidden of the first.

        The broker may find the last record of a batch, and not its first ones.
        """
        first = batches[0] if batches else None
        if first is not None and log.hidden and first.base_offset < position == log.hidden[-1][1]:
            records = [one for one in first.records if one[0] >= position]
            batches = [first._replace(base_offset=position, records=records), *batches[1:]]
        log.batches.extend(batches)

    def _fetch(self, reading: Reading) -> FetchRequest:
        asked = FetchPartition(
            partition=reading.partition,
            fetch_offset=reading.position,
            partition_max_bytes=1 << 20,
        )
        topic = FetchTopic(topic_id=reading.topic_id, partitions=[asked])
        return FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic])

    def _take(self, reading: Reading, part: Any, log: ReadLog, times: tuple[int, int]) -> bool:
        """Note what was read; return whether that was the end."""
        key, position = reading.key, reading.position
        self.record.saw_mark(key, HIGH_WATERMARK, part.high_watermark, times)
        self.record.saw_mark(key, START, part.log_start_offset, times)
        found = self.served(reading, part, position)
        self._reappear(log, position, found.batches)
        for batch in found.batches:
            self.record.saw_batch(key, batch, times[0])
        records = [one for batch in found.batches for one in batch.records if one[0] >= position]
        poll = Poll(key, position, records)
        self.record.polled(self.process, poll, times, seeks=reading.seeks)
        reading.seeks = False
        if found.batches:
            reading.position = found.next_offset
        if found.flip is not None:
            self.go_behind(reading, found.flip)
        elif found.corrupt:
            self.found_corrupt(reading, found.corrupt)
        elif not found.batches and position < part.high_watermark:
            self.wrong(reading, f"nothing at {position}, below {part.high_watermark}")
            return True
        return bool(reading.position >= part.high_watermark)


class _Looker(_Reader):
    async def live(self) -> None:
        for topic in self.topics.values():
            if topic.may_be_gone and topic.topic_id != bytes(16):
                await self.is_there(topic)
