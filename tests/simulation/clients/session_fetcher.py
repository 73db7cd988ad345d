"""A fetcher within a session (KIP-227): after its first fetch it names only what has changed.

It keeps of the session what Kafka's clients keep: its id, its next epoch, and what the broker knows
of each partition. An answer tells of partitions with news only, so what is missing in it is judged
by what comes later: a partition that sleeps for ever is not read to the end of what a fetch must
find, and the broker's own count of lost wake-ups must stay 0 (`panel`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from tests.simulation.clients.fetching import (
    BY_ID,
    DIVERGENCE,
    NO_SESSION,
    TIMED_OUT,
    Fetcher,
)
from tests.simulation.clients.readings import Asking, Reading
from tests.simulation.clients.unserved import look_at_answer, look_at_refusal
from tests.simulation.clients.wire import Disconnected
from tests.simulation.record import LongPoll
from tests.simulation.world import TimedOut

if TYPE_CHECKING:
    from tests.simulation.context import Context
    from tests.simulation.plan import ClientPlan
    from tests.support.history_checker import Key

VERSIONS: Final = range(7, 19)
LAST_EPOCH: Final = 2**31 - 1
INCONSISTENT_ID: Final = 103
State = tuple[bytes, int, int, int]  # topic id, position, epoch and bytes, as the broker knows them


class SessionFetcher(Fetcher):
    """See the module."""

    def __init__(self, context: Context, plan: ClientPlan) -> None:
        super().__init__(context, plan)
        self._begin()

    def _begin(self) -> None:
        """Forget the session: the next fetch begins another."""
        self.session_id = self.session_epoch = 0
        self.known: dict[Key, tuple[Reading, State]] = {}
        self.session_version = self.chance.choice(VERSIONS)
        self.bytes_max = self.chance.choice((100, 600, 1 << 20))
        self.isolation = self.chance.choice((0, 1))

    async def live(self) -> None:
        """Fetch, mostly within a session."""
        for _ in range(self.steps):
            await self.choose()
            if len(self.readings) > 1 and self.chance.random() < 0.1:
                self.readings.remove(self.chance.choice(self.readings))
            if self.chance.random() < 0.05:
                self._begin()
            await self.connected()
            if self.readings:
                await self._within(self._asking())
            if self.chance.random() < 0.3:
                await self.pause(0.1, 1, 10, 50)

    # -- Asking -------------------------------------------------------------------------------

    def _asking(self) -> tuple[Asking, FetchRequest]:
        if self.session_version < BY_ID and any(one.topic.may_be_gone for one in self.readings):
            self._begin()
            self.session_version = self.chance.choice(range(BY_ID, 19))
        chance, version = self.chance, self.session_version
        wait_ms, min_bytes = chance.choice((0, 5, 100, 500, 3_000)), chance.choice((0, 1, 1, 1))
        if chance.random() < 0.05:  # another level wakes all partitions
            self.isolation = 1 - self.isolation
        now = {reading.key: (reading, self._state(reading)) for reading in self.readings}
        body = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=min_bytes,
            max_bytes=chance.choice((300, 2_000, 2**31 - 1)),
            isolation_level=self.isolation,
            session_id=self.session_id,
            session_epoch=self.session_epoch,
            topics=self._changed(now),
            forgotten_topics_data=self._forgotten(now),
        )
        self.known = now
        asking = Asking(
            waiter=self.world.waiter(),
            version=version,
            asked=[(reading, reading.position) for reading in self.readings],
            began_ns=self.world.now_ns,
            max_bytes=body.max_bytes,
            partition_bytes=self.bytes_max,
            is_in_session=False,
            wrong_epoch=-1,
            connection_process=self.process,
            begins_session=self.session_epoch == 0,
            is_committed=body.isolation_level == 1,
            wait_ms=wait_ms if min_bytes else 0,
        )
        if asking.is_committed and any(reading.topic.is_ledger for reading in self.readings):
            asking.wait_ms = 0  # it waits for the end of a transaction
        return asking, body

    def _state(self, reading: Reading) -> State:
        return reading.topic_id, reading.position, reading.epoch, self.bytes_max

    def _changed(self, now: dict[Key, tuple[Reading, State]]) -> list[FetchTopic]:
        """Return what the broker does not know yet, or otherwise."""
        topics: dict[bytes, FetchTopic] = {}
        for key, (reading, state) in now.items():
            if key in self.known and self.known[key][1] == state:
                continue
            asked = FetchPartition(
                partition=reading.partition,
                fetch_offset=reading.position,
                partition_max_bytes=self.bytes_max,
            )
            if self.session_version >= DIVERGENCE and not reading.topic.is_volatile:
                asked.last_fetched_epoch = reading.epoch
            named = FetchTopic(topic=reading.topic.name, topic_id=reading.topic_id)
            topics.setdefault(reading.topic_id, named).partitions.append(asked)
        return list(topics.values())

    def _forgotten(self, now: dict[Key, tuple[Reading, State]]) -> list[ForgottenTopic]:
        return [
            ForgottenTopic(
                topic=reading.topic.name, topic_id=state[0], partitions=[reading.partition]
            )
            for key, (reading, state) in self.known.items()
            if key not in now
        ]

    # -- Answers ------------------------------------------------------------------------------

    async def _within(self, asked: tuple[Asking, FetchRequest]) -> None:
        """Send a fetch, and take its answer; a session whose fetch gets none is over."""
        asking, body = asked
        what = f"session {self.session_id}.{self.session_epoch} " + " ".join(
            f"{one.topic.name}-{one.partition}@{one.position}" for one in self.readings
        )
        if self.session_id and self.chance.random() < 0.08:
            await self._leave(body, asking.version, what)
            return
        try:
            waiter = self.wire.send(body, asking.version, what, wait_ms=body.max_wait_ms)
            answer = await self.world.wait(waiter, 60_000)
        except (Disconnected, TimedOut) as error:
            if isinstance(error, TimedOut):
                self.wire.close()
            self._begin()
            await self.pause()
            return
        if answer.error_code:
            if answer.error_code not in (NO_SESSION, TIMED_OUT) or (
                answer.error_code == NO_SESSION and asking.begins_session
            ):
                self.record.fail(self.name, f"code {answer.error_code} within a session")
            self._begin()
            return
        if not asking.begins_session and answer.session_id != self.session_id:
            self.record.fail(self.name, f"session {answer.session_id}, not {self.session_id}")
        await self._take_all(asking, answer)
        self.session_id = answer.session_id
        if self.session_id:
            self.session_epoch = self.session_epoch % LAST_EPOCH + 1
        else:  # none was given
            self._begin()

    async def _leave(self, body: FetchRequest, version: int, what: str) -> None:
        """Send this fetch and those of the next epochs, and be gone before their answers."""
        body = replace(body, max_wait_ms=3_000, min_bytes=1 << 20)
        for _ in range(self.chance.choice((1, 2, 3, 4))):
            self.wire.send(body, version, what, wait_ms=body.max_wait_ms)
            body = replace(body, session_epoch=body.session_epoch % LAST_EPOCH + 1, topics=[])
        await self.pause(0, 0.1, 1, 10)
        self.wire.close()
        self._begin()

    async def refused_fetch(self, asking: Asking, reading: Reading, part: Any) -> None:
        """Go on after an error code: a session outlives a topic, whose name another one may get."""
        if part.error_code != INCONSISTENT_ID or not reading.topic.may_be_gone:
            await super().refused_fetch(asking, reading, part)
            return
        self.refused("fetch", reading.topic, reading.partition, INCONSISTENT_ID)
        if reading in self.readings:
            self.readings.remove(reading)

    async def _take_all(self, asking: Asking, answer: Any) -> None:
        if asking.wait_ms:
            places = [(reading.key, position) for reading, position in asking.asked]
            poll = LongPoll(self.name, asking.began_ns, self.world.now_ns, places)
            self.record.long_polls.append(poll)
        positions = {
            (
                one.topic_id if asking.version >= BY_ID else one.topic.name,
                one.partition,
            ): (one, position)
            for one, position in asking.asked
        }
        parts = [part for topic in answer.responses for part in topic.partitions]
        look_at_answer(self.name, self.record, asking, parts, self.world.now_ns)
        told = 0
        for topic in answer.responses:
            for part in topic.partitions:
                name = topic.topic_id if asking.version >= BY_ID else topic.topic
                place = positions.get((name, part.partition_index))
                if place is None:
                    self.record.fail(self.name, f"an answer of {name}-{part.partition_index}")
                    continue
                told += 1
                await self._take(asking, place[0], place[1], part)
        if asking.begins_session and told != len(asking.asked):
            self.record.fail(self.name, f"{told} partitions, not {len(asking.asked)}")

    async def _take(self, asking: Asking, reading: Reading, position: int, part: Any) -> None:
        if part.error_code:
            place = reading, position, part.error_code
            start = self.context.start_of(reading.topic.name, reading.partition)
            look_at_refusal(self.name, self.record, asking, place, self.world.now_ns, start)
            await self.refused_fetch(asking, reading, part)
        else:
            self.take(asking, reading, position, part)
