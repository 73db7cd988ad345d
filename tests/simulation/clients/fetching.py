"""The fetcher: follows some partitions, each from its own position, with every kind of fetch.

From time to time it jumps: to the start, the end, an offset that it has passed, or one that does
not exist. What it gets is checked at once for what needs no other knowledge (`clients.served`) and
noted for the history: one poll for each partition. Requests vary in version, limits, patience,
isolation, epochs and sessions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.simulation.clients.client import STORAGE, TIMED_OUT, Client
from tests.simulation.clients.served import Served, served, text_of
from tests.simulation.clients.topics import Topic
from tests.simulation.clients.wire import Disconnected
from tests.simulation.record import Corrupt, LongPoll
from tests.simulation.world import TimedOut, Waiter
from tests.support.history_checker import Key, Poll
from tests.support.log_ledger import HIGH_WATERMARK, START

if TYPE_CHECKING:
    from tests.simulation.context import Context
    from tests.simulation.plan import ClientPlan

BY_ID, SESSIONS, EPOCHS, STARTS, DIVERGENCE = 13, 7, 9, 5, 12
VERSIONS: Final = range(4, 19)
ZSTD_SINCE: Final = 10
EARLIEST, LATEST = -2, -1
OUT_OF_RANGE, UNKNOWN_TOPIC, NO_SESSION, FENCED, UNKNOWN_EPOCH, UNKNOWN_ID = 1, 3, 70, 74, 75, 100
CORRUPT, TOO_LARGE, UNSUPPORTED_CODEC = 2, 10, 76
PARTITIONS_MAX: Final = 4
NO_EPOCH_YET: Final = 1_000_000  # that a leader may have


@dataclass(slots=True, eq=False)
class Reading:
    """A partition that is read, and from where."""

    topic: Topic
    partition: int
    key: Key
    topic_id: bytes
    position: int = 0
    seeks: bool = True
    epoch: int = -1  # of the last batch that was read


@dataclass(slots=True, eq=False)
class Asking:
    """A fetch on its way: what was asked, with the position of each partition."""

    waiter: Waiter
    version: int
    asked: list[tuple[Reading, int]]
    began_ns: int
    max_bytes: int
    partition_bytes: int
    is_in_session: bool
    wrong_epoch: int  # of the leader; -1: none
    connection_process: int
    is_raw: bool = True
    wait_ms: int = 0  # for any byte; 0: it does not wait, or for more


class Fetcher(Client):
    """See the module."""

    is_one_process = True

    def __init__(self, context: Context, plan: ClientPlan) -> None:
        super().__init__(context, plan)
        self.readings: list[Reading] = []
        self.versions = self.chance.choice((VERSIONS, VERSIONS, (4, 11, 12), (18,)))

    async def live(self) -> None:
        """Fetch."""
        for _ in range(self.steps):
            await self.choose()
            await self.connected()
            asking = self.fetch()
            if asking is not None:
                await self.settle(asking)
            if self.chance.random() < 0.3:
                await self.pause(0.1, 1, 10, 50)

    # -- What to read -------------------------------------------------------------------------

    async def choose(self) -> None:
        """Follow another partition from time to time, and jump."""
        chance = self.chance
        if not self.readings or (len(self.readings) < PARTITIONS_MAX and chance.random() < 0.2):
            topic = await self.topic()
            partition = chance.randrange(topic.partition_count)
            key = topic.key(partition)
            if all(reading.key != key for reading in self.readings):
                self.readings.append(Reading(topic, partition, key, topic.topic_id))
        if chance.random() < 0.1:
            reading = chance.choice(self.readings)
            known = max(self.record.last_mark(reading.key, HIGH_WATERMARK), 0)
            self.seek(reading, chance.choice((0, 0, known, chance.randrange(known + 1), known + 3)))
        self.readings = [
            reading for reading in self.readings
            if not reading.topic.may_be_gone or reading.topic.topic_id == reading.topic_id
        ]  # fmt: skip
        if not self.readings:
            await self.pause()

    def seek(self, reading: Reading, offset: int) -> None:
        """Go on from an offset."""
        self.note(f"goes to {offset} of {reading.key[0]}-{reading.partition}")
        reading.position, reading.seeks, reading.epoch = offset, True, -1

    # -- Asking -------------------------------------------------------------------------------

    def version_for(self, readings: list[Reading]) -> int:
        """Choose a version; a topic that may be made anew is named by its id."""
        if any(reading.topic.may_be_gone for reading in readings):
            return self.chance.choice(range(BY_ID, 19))
        return self.chance.choice(self.versions)

    def fetch(
        self, *, max_wait_ms: int | None = None, min_bytes: int | None = None
    ) -> Asking | None:
        """Send a fetch from some of the partitions."""
        chance = self.chance
        if not self.readings:
            return None
        readings = chance.sample(self.readings, chance.randint(1, len(self.readings)))
        version = self.version_for(readings)
        if max_wait_ms is None:
            max_wait_ms = chance.choice((0, 0, 5, 100, 500, 3_000))
        if min_bytes is None:
            min_bytes = chance.choice((0, 1, 1, 1, 200, 100_000))
        partition_bytes = chance.choice((0, 1, 100, 600, 1 << 20))
        is_in_session = version >= SESSIONS and chance.random() < 0.05
        is_wrong = version >= EPOCHS and chance.random() < 0.05
        wrong_epoch = chance.choice((0, NO_EPOCH_YET)) if is_wrong else -1
        body = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=chance.choice((1, 300, 2_000, 2**31 - 1)),
            isolation_level=chance.choice((0, 1)),
            topics=self._topics(readings, version, partition_bytes, wrong_epoch),
        )
        if version >= SESSIONS:
            self._add_session(body, readings, is_in_session=is_in_session)
        asking = Asking(
            waiter=self.world.waiter(),
            version=version,
            asked=[(reading, reading.position) for reading in readings],
            began_ns=self.world.now_ns,
            max_bytes=body.max_bytes,
            partition_bytes=partition_bytes,
            is_in_session=is_in_session,
            wrong_epoch=wrong_epoch,
            connection_process=self.process,
            wait_ms=max_wait_ms if min_bytes == 1 and partition_bytes else 0,
        )
        what = " ".join(f"{r.topic.name}-{r.partition}@{r.position}" for r in readings)
        self._send(asking, body, f"{what} wait={max_wait_ms} min={min_bytes}")
        return asking

    def _send(self, asking: Asking, body: FetchRequest, what: str) -> None:
        asking.waiter = self.wire.send(body, asking.version, what, wait_ms=body.max_wait_ms)

    def _topics(
        self, readings: list[Reading], version: int, size_max: int, wrong_epoch: int
    ) -> list[FetchTopic]:
        topics: dict[bytes, FetchTopic] = {}
        for reading in readings:
            named = topics.setdefault(
                reading.topic_id,
                FetchTopic(topic=reading.topic.name, topic_id=reading.topic_id),
            )
            asked = FetchPartition(
                partition=reading.partition,
                fetch_offset=reading.position,
                partition_max_bytes=size_max,
            )
            if wrong_epoch >= 0:
                asked.current_leader_epoch = wrong_epoch
            elif version >= DIVERGENCE and not reading.topic.is_volatile:
                asked.last_fetched_epoch = reading.epoch
            named.partitions.append(asked)
        return list(topics.values())

    def _add_session(
        self, body: FetchRequest, readings: list[Reading], *, is_in_session: bool
    ) -> None:
        """Ask for a session, for none, or pretend to be within one, which there cannot be."""
        chance = self.chance
        body.session_epoch = chance.choice((0, -1))
        if is_in_session:
            body.session_id, body.session_epoch = chance.choice((0, 77)), chance.choice((1, 9))
            reading = chance.choice(readings)
            body.forgotten_topics_data = [
                ForgottenTopic(
                    topic=reading.topic.name,
                    topic_id=reading.topic_id,
                    partitions=[reading.partition],
                )
            ]

    # -- Answers ------------------------------------------------------------------------------

    async def settle(self, asking: Asking) -> None:
        """Wait for the answer of a fetch, and note what it holds."""
        try:
            answer = await self.world.wait(asking.waiter, 60_000)
        except Disconnected:
            await self.pause()
            return
        except TimedOut:
            self.note("has waited long enough")
            self.wire.close()
            return
        if asking.is_in_session:
            if answer.error_code != NO_SESSION:
                self.record.fail(self.name, f"a session that is none: code {answer.error_code}")
            return
        if answer.error_code == TIMED_OUT and not asking.is_raw:
            return  # a broker that stops opens no more batches
        if asking.version >= SESSIONS and (answer.error_code or answer.session_id):
            self.record.fail(self.name, f"code {answer.error_code}, session {answer.session_id}")
            return
        if asking.wait_ms:
            places = [(reading.key, position) for reading, position in asking.asked]
            poll = LongPoll(self.name, asking.began_ns, self.world.now_ns, places)
            self.record.long_polls.append(poll)
        found = {
            (part_of.topic_id if asking.version >= BY_ID else part_of.topic, part.partition_index):
            part
            for part_of in answer.responses
            for part in part_of.partitions
        }  # fmt: skip
        if len(found) != len(asking.asked):
            self.record.fail(self.name, f"{len(found)} partitions, not {len(asking.asked)}")
        total = sum(len(part.records or b"") for part in found.values()) if asking.is_raw else 0
        for reading, position in asking.asked:
            name = reading.topic_id if asking.version >= BY_ID else reading.topic.name
            part = found.get((name, reading.partition))
            if part is None:
                self.record.fail(self.name, f"no answer for {reading.key}")
            elif part.error_code:
                await self.refused_fetch(asking, reading, part)
            else:
                self.take(asking, reading, position, part, total)

    def take(self, asking: Asking, reading: Reading, position: int, part: Any, total: int) -> None:
        """Note what was read from one partition."""
        key, times = reading.key, (asking.began_ns, self.world.now_ns)
        if asking.wrong_epoch == NO_EPOCH_YET:
            self.wrong(reading, f"served in epoch {NO_EPOCH_YET}")
        self.record.saw_mark(key, HIGH_WATERMARK, part.high_watermark, times)
        if asking.version >= STARTS:
            self.record.saw_mark(key, START, part.log_start_offset, times)
        if part.last_stable_offset not in (-1, part.high_watermark):
            self.wrong(reading, f"last stable offset {part.last_stable_offset}")
        if getattr(part, "diverging_epoch", None) is not None:
            diverging = part.diverging_epoch
            if not reading.topic.is_volatile and diverging.end_offset >= 0:
                self.wrong(reading, f"diverges at {diverging.end_offset}, read to {position}")
            reading.epoch = -1
            return
        if reading.position != position:
            return  # it has moved meanwhile
        if asking.is_raw:
            self.take_batches(asking, reading, part, total)
        else:
            self.take_maps(asking, reading, part)

    def take_batches(self, asking: Asking, reading: Reading, part: Any, total: int) -> None:
        """Check and note batches."""
        position, key = reading.position, reading.key
        found = served(part.records, position, is_compacted=reading.topic.is_compacted)
        if found.wrong:
            self.wrong(reading, found.wrong)
        if found.next_offset > part.high_watermark:
            self.wrong(reading, f"served to {found.next_offset}, mark {part.high_watermark}")
        self._check_size(asking, reading, found, total)
        for batch in found.batches:
            self.record.saw_batch(key, batch, asking.began_ns)
        records = [one for batch in found.batches for one in batch.records if one[0] >= position]
        self.polled(asking, reading, records, found.next_offset)
        if found.batches:
            reading.epoch = found.batches[-1].epoch
        if found.corrupt:
            at = max(reading.position, position)
            self.note(f"finds {key} corrupt at {at}")
            now_ns = self.world.now_ns
            self.record.corrupt.append(Corrupt(now_ns, self.name, key, at, found.corrupt))
            self.seek(reading, at + 1)

    def take_maps(self, asking: Asking, reading: Reading, part: Any) -> None:
        """Check and note records that came as maps."""
        records = [(one.offset, text_of(one.key, one.value)) for one in part.records]
        offsets = [offset for offset, _ in records]
        if any(offset < reading.position or offset >= part.next_offset for offset in offsets):
            self.wrong(reading, f"{offsets} for {reading.position} to {part.next_offset}")
        self.polled(asking, reading, records, part.next_offset if records else -1)
        reading.epoch = -1  # maps do not tell it
        if not records and part.next_offset > reading.position:
            reading.position = part.next_offset

    def polled(
        self, asking: Asking, reading: Reading, records: list[tuple[int, bytes]], next_offset: int
    ) -> None:
        """Note one poll, and move on."""
        times = (asking.began_ns, self.world.now_ns)
        poll = Poll(reading.key, reading.position, records)
        self.record.polled(self.process, poll, times, seeks=reading.seeks)
        if records:
            reading.seeks = False
        if next_offset >= 0:
            reading.position = next_offset

    def _check_size(self, asking: Asking, reading: Reading, found: Served, total: int) -> None:
        """Beyond its first batch, a partition keeps its limit; so does the answer."""
        if not found.sizes:
            return
        size = sum(found.sizes)
        if size > max(asking.partition_bytes, found.sizes[0]):
            self.wrong(reading, f"{size} bytes, asked for {asking.partition_bytes}")
        if total == size and size > max(asking.max_bytes, found.sizes[0]):
            self.wrong(reading, f"{size} bytes in all, asked for {asking.max_bytes}")

    def wrong(self, reading: Reading, what: str) -> None:
        """Note what is wrong by itself."""
        self.record.fail(self.name, f"{reading.key[0]}-{reading.partition}: {what}")

    async def refused_fetch(self, asking: Asking, reading: Reading, part: Any) -> None:
        """Go on after an error code of one partition."""
        code = part.error_code
        if code in (FENCED, UNKNOWN_EPOCH) and asking.wrong_epoch >= 0:
            return
        self.refused("fetch", reading.topic, reading.partition, code)
        if code == OUT_OF_RANGE:
            await self.reset(reading)
        elif code in (UNKNOWN_TOPIC, UNKNOWN_ID):
            if not reading.topic.may_be_gone:
                self.wrong(reading, f"is unknown now: {code}")
            if reading in self.readings:  # an earlier answer may have said it
                self.readings.remove(reading)
        elif code == CORRUPT:
            self.record.corrupt.append(
                Corrupt(self.world.now_ns, self.name, reading.key, reading.position, "code 2")
            )
            self.seek(reading, reading.position + 1)
        elif code == UNSUPPORTED_CODEC and asking.version < ZSTD_SINCE:
            self.seek(reading, reading.position + 1)
        elif code == STORAGE:
            await self.pause()
        else:
            self.wrong(reading, f"code {code} for a fetch")

    async def reset(self, reading: Reading) -> None:
        """Go to the start or the end of a log after an offset that it does not have."""
        place = self.chance.choice((EARLIEST, EARLIEST, LATEST))
        offset = await self.list_offset(reading, place)
        if offset is not None:
            self.seek(reading, offset)

    async def list_offset(self, reading: Reading, place: int) -> int | None:
        """Return the start or the end of a log, None if it was not told."""
        asked = ListOffsetsPartition(partition_index=reading.partition, timestamp=place)
        topic = ListOffsetsTopic(name=reading.topic.name, partitions=[asked])
        body = ListOffsetsRequest(replica_id=-1, topics=[topic], timeout_ms=5_000)
        answer = await self.ask(body, self.chance.choice(range(1, 12)), f"{place}")
        if answer is None:
            return None
        part = answer.topics[0].partitions[0]
        if part.error_code:
            self.refused("list offsets", reading.topic, reading.partition, part.error_code)
            return None
        return int(part.offset)
