"""The fetcher: follows some partitions, each from its own position, with every kind of fetch.

From time to time it jumps: to the start, the end, an offset that it has passed, or one that does
not exist. What it gets is checked at once for what needs no other knowledge (`clients.served`) and
noted for the history: one poll for each partition. Requests vary in version, limits, patience,
isolation, epochs and sessions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.simulation.bit_flip import holds
from tests.simulation.clients.client import STORAGE, TIMED_OUT, Client
from tests.simulation.clients.committed_reads import committed_in
from tests.simulation.clients.readings import Asking, Reading
from tests.simulation.clients.served import Served, looks_of, served, text_of
from tests.simulation.clients.unserved import (
    OUT_OF_RANGE,
    diverges,
    look_at_answer,
    look_at_refusal,
    too_large,
)
from tests.simulation.clients.wire import Disconnected
from tests.simulation.record import Corrupt, LongPoll
from tests.simulation.transaction_events import STABLE
from tests.simulation.world import TimedOut
from tests.support.history_checker import Poll
from tests.support.log_ledger import HIGH_WATERMARK, START
from tests.support.transaction_history import CommittedRead

if TYPE_CHECKING:
    from tests.simulation.bit_flip import Flip
    from tests.simulation.context import Context
    from tests.simulation.plan import ClientPlan

BY_ID, SESSIONS, EPOCHS, STARTS, DIVERGENCE = 13, 7, 9, 5, 12
VERSIONS: Final = range(4, 19)
ZSTD_SINCE: Final = 10
EARLIEST, LATEST = -2, -1
UNKNOWN_TOPIC, NO_SESSION, FENCED, UNKNOWN_EPOCH, UNKNOWN_ID = 3, 70, 74, 75, 100
CORRUPT, TOO_LARGE, UNSUPPORTED_CODEC = 2, 10, 76
PARTITIONS_MAX: Final = 4
NO_EPOCH_YET: Final = 1_000_000  # that a leader may have


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
            begins_session=version >= SESSIONS and body.session_epoch == 0,
            wrong_epoch=wrong_epoch,
            connection_process=self.process,
            is_committed=body.isolation_level == 1,
            wait_ms=max_wait_ms if min_bytes == 1 and partition_bytes else 0,
        )
        if asking.is_committed and any(reading.topic.is_ledger for reading in readings):
            asking.wait_ms = 0  # it waits for the end of a transaction
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
        if self._is_refused(asking, answer):
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
        if asking.is_raw:
            look_at_answer(self.name, self.record, asking, list(found.values()), self.world.now_ns)
        for reading, position in asking.asked:
            name = reading.topic_id if asking.version >= BY_ID else reading.topic.name
            part = found.get((name, reading.partition))
            if part is None:
                self.record.fail(self.name, f"no answer for {reading.key}")
            elif part.error_code:
                place = reading, position, part.error_code
                start = self.context.start_of(reading.topic.name, reading.partition)
                look_at_refusal(self.name, self.record, asking, place, self.world.now_ns, start)
                await self.refused_fetch(asking, reading, part)
            else:
                self.take(asking, reading, position, part)

    def _is_refused(self, asking: Asking, answer: Any) -> bool:
        """Whether a fetch is refused as a whole; note it if that is wrong."""
        if asking.is_in_session:
            if answer.error_code != NO_SESSION:
                self.record.fail(self.name, f"a session that is none: code {answer.error_code}")
            return True
        if answer.error_code == TIMED_OUT and not asking.is_raw:
            return True  # a broker that stops opens no more batches
        is_wrong = answer.error_code or (answer.session_id and not asking.begins_session)
        if asking.version >= SESSIONS and is_wrong:
            self.record.fail(self.name, f"code {answer.error_code}, session {answer.session_id}")
            return True
        return False

    def take(self, asking: Asking, reading: Reading, position: int, part: Any) -> None:
        """Note what was read from one partition."""
        key, times = reading.key, (asking.began_ns, self.world.now_ns)
        if asking.wrong_epoch == NO_EPOCH_YET:
            self.wrong(reading, f"served in epoch {NO_EPOCH_YET}")
        start = self.record.mark_before(key, START, asking.began_ns)
        if position < start and not diverges(part):
            self.wrong(reading, f"served from {position}, it was told to begin at {start}")
        self.record.saw_mark(key, HIGH_WATERMARK, part.high_watermark, times)
        if asking.version >= STARTS:
            self.record.saw_mark(key, START, part.log_start_offset, times)
        self.look_at_stable(reading, part, times)
        if diverges(part):
            diverging = part.diverging_epoch
            if not reading.topic.is_volatile and diverging.end_offset >= 0:
                self.wrong(reading, f"diverges at {diverging.end_offset}, read to {position}")
            reading.epoch = -1
            return
        if reading.position != position:
            return  # it has moved meanwhile
        if asking.is_raw:
            self.take_batches(asking, reading, part)
        else:
            self.take_maps(asking, reading, part)

    def look_at_stable(self, reading: Reading, part: Any, times: tuple[int, int]) -> None:
        """Check and note the last stable offset: only transactions hold it back."""
        stable, mark = part.last_stable_offset, part.high_watermark
        if stable > mark or (stable not in (-1, mark) and not reading.topic.is_ledger):
            self.wrong(reading, f"last stable offset {stable}, mark {mark}")
        is_damaged = f"{reading.topic.name}-{reading.partition}" in self.context.damaged
        if stable >= 0 and not is_damaged:
            self.record.saw_mark(reading.key, STABLE, stable, times)

    def take_batches(self, asking: Asking, reading: Reading, part: Any) -> None:
        """Check and note batches."""
        position, key = reading.position, reading.key
        found = self.served(reading, part, position)
        if asking.is_committed:
            self.take_committed(reading, part, found)
        if what := too_large(asking.partition_bytes, found):
            self.wrong(reading, what)
        for batch in found.batches:
            self.record.saw_batch(key, batch, asking.began_ns)
        records = [one for batch in found.batches for one in batch.records if one[0] >= position]
        self.polled(asking, reading, records, found.next_offset)
        if found.batches:
            reading.epoch = found.batches[-1].epoch
        if found.flip is not None:
            self.look_at_flip(asking, reading, found.flip)
            self.go_behind(reading, found.flip)
        elif found.corrupt:
            self.found_corrupt(reading, found.corrupt)

    def look_at_flip(self, asking: Asking, reading: Reading, flip: Flip) -> None:
        """Object to a batch that a start has found in the file, with a CRC that does not fit."""
        life = self.context.life
        if life is not None and flip.shows and flip.since_ns < life.began_ns < asking.began_ns:
            self.wrong(reading, f"what {flip} was there at the start, and is served")

    def served(self, reading: Reading, part: Any, position: int) -> Served:
        """Return what a partition's answer to a fetch from a position holds; say what is wrong."""
        size_bytes = len(part.records or b"")
        found = served(
            part.records,
            position,
            part.high_watermark,
            is_compacted=reading.topic.is_compacted,
            flips=self.flips_in(reading),
            looks=looks_of(self.context.plan.tiny, size_bytes, is_copied=self.is_copied),
        )
        if found.wrong:
            self.wrong(reading, found.wrong)
        return found

    def take_committed(self, reading: Reading, part: Any, found: Served) -> None:
        """Note what a reader of committed records sees of a ledger."""
        if found.next_offset > part.last_stable_offset >= 0:
            self.wrong(reading, f"served to {found.next_offset}, LSO {part.last_stable_offset}")
        if reading.topic.is_ledger and not (self.flips_in(reading) or found.corrupt):
            aborted = part.aborted_transactions or ()
            values = [one for _, one in committed_in(part.records, aborted, reading.position)]
            read = CommittedRead(self.world.now_ns, self.name, reading.key, values)
            self.record.committed_reads.append(read)

    def flips_in(self, reading: Reading) -> list[Flip]:
        """Return the bits that have flipped in files of a partition."""
        return self.context.flips_in(reading.topic.name, reading.partition, reading.topic_id)

    def go_behind(self, reading: Reading, flip: Flip) -> None:
        """Go on behind a batch with a flipped bit, which was served as it is."""
        self.note(f"is served what {flip}")
        self.seek(reading, max(flip.next_offset, reading.position))

    def found_corrupt(self, reading: Reading, what: str) -> None:
        """Note a batch that is not what was written, and go on behind its first record."""
        self.note(f"finds {reading.key} corrupt at {reading.position}")
        corrupt = Corrupt(self.world.now_ns, self.name, reading.key, reading.position, what)
        self.record.corrupt.append(corrupt)
        self.seek(reading, reading.position + 1)

    def take_maps(self, asking: Asking, reading: Reading, part: Any) -> None:
        """Check and note records that came as maps."""
        records = [(one.offset, text_of(one.key, one.value)) for one in part.records]
        flip = next((flip for flip in self.flips_in(reading) if flip.is_in(records)), None)
        if flip is not None:
            if not reading.topic.is_compacted:
                self.wrong(reading, f"it {flip}, and is served")
            self.go_behind(reading, flip)
            return
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
            flip = self.flip_at(reading)
            if flip is None:
                self.found_corrupt(reading, "code 2")
            else:
                self.seek(reading, max(flip.next_offset, reading.position + 1))
        elif code == UNSUPPORTED_CODEC and asking.version < ZSTD_SINCE:
            self.seek(reading, reading.position + 1)
        elif code == STORAGE:
            await self.pause()
        else:
            self.wrong(reading, f"code {code} for a fetch")

    def flip_at(self, reading: Reading) -> Flip | None:
        """Return a flipped bit that is still there, in the batch that is read next."""
        at = reading.position
        for flip in self.flips_in(reading):
            begins = 0 if reading.topic.is_compacted else flip.base_offset
            if begins <= at < flip.next_offset and holds(self.context.disk.directory("/"), flip):
                return flip
        return None

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
