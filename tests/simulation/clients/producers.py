"""Producers without idempotence: they never retry, so each batch is in the log at most once.

An operation is `ok` with its offset, `fail` if the code says that nothing was written (`SURE`), and
`info` otherwise: no answer, a time-out, a failed disk, acks=0. Requests are pipelined; operations
are noted in the order of their requests. After a lost connection the client is a new process, as
the broker may still append what it has from the old one.

`PartingProducer` sends what nobody answers, and closes its side at once: the broker must take all
that came before the end (`Record.parted`).

Some batches are bad, each in one way (`clients.batches`); the broker must refuse them with the code
that belongs to it. All values are unique: they begin with the record key, for compacted topics.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from tests.simulation.clients import batches
from tests.simulation.clients.client import MsgpackClient, runs
from tests.simulation.clients.idempotent import IdempotentProducer
from tests.simulation.clients.producing import BY_ID, IN_FLIGHT_MAX, SURE, InFlight, Producer, Sent
from tests.simulation.clients.topics import SEGMENT_BYTES_LEAST, Topic
from tests.simulation.clients.wire import Disconnected
from tests.simulation.plan import PER_ADDRESS
from tests.support.history_checker import FAIL, INFO, OK

PARTED_MS: Final = 3_000  # in which a broker that is well takes what it was sent, and closes
FRAME_DEADLINE: Final = "barnabas.frame.deadline.ms"
FRAME_DEADLINE_MS: Final = 30_000  # by default
STALLS_MAX: Final = 2  # of the network within one frame
BATCH_BYTES: Final = 61  # before its records
RECORD_BYTES: Final = 40  # beside its value, about

if TYPE_CHECKING:
    from tests.simulation.context import Context
    from tests.simulation.plan import ClientPlan


class PlainProducer(Producer):
    """See the module."""

    bad_chance = 0.05

    def __init__(self, context: Context, plan: ClientPlan) -> None:
        super().__init__(context, plan)
        self.depth = self.chance.choice((1, 1, 2, IN_FLIGHT_MAX))
        self.acks = self.chance.choice(((-1,), (-1, 1), (-1, 1, 0), (0,)))
        self.in_flight: deque[InFlight] = deque()

    async def live(self) -> None:
        """Send, `depth` requests at a time."""
        for _ in range(self.steps):
            version, group = await self.new_batches()
            if not self.wire.is_open:
                await self.settle_all()
                await self.connected()
            self.in_flight.append(self.send(group, self.chance.choice(self.acks), version))
            while len(self.in_flight) >= self.depth:
                await self.settle_oldest()
            if self.chance.random() < 0.3:
                await self.pause(0.1, 1, 10, 50)
        await self.settle_all()

    async def new_batches(self) -> tuple[int, list[Sent]]:
        """Return a version and batches for one request: mostly one, no partition twice."""
        topics = [await self.topic() for _ in range(self.chance.choice((1, 1, 1, 2, 4)))]
        version = self.version_for(topics)
        group: list[Sent] = []
        for topic in topics:
            is_bad = self.chance.random() < self.bad_chance
            sent = self.bad(topic) if is_bad else self.make(topic, version)
            if all(sent.key != other.key for other in group):
                group.append(sent)
        return version, group

    def bad(self, topic: Topic) -> Sent:
        """Return a batch that must be refused."""
        values = self.values(topic)
        partition = self.chance.randrange(topic.partition_count)
        if topic.needs_keys and self.chance.random() < 0.5:
            records, codes = batches.build_without_keys(self.chance)
        elif topic.is_timed and self.chance.random() < 0.5:
            records, codes = batches.build_mistimed(self.chance, values, self.now_ms)
        else:
            records, codes = batches.build_bad(self.chance, values, self.now_ms)
        return Sent(topic, partition, values, records, wanted=codes)

    async def settle_all(self) -> None:
        """Wait for everything in flight."""
        while self.in_flight:
            await self.settle_oldest()

    async def settle_oldest(self) -> None:
        """Wait for the oldest request, and note its outcomes."""
        flight = self.in_flight.popleft()
        try:
            found = await self.answers(flight)
        except Disconnected:
            for sent in flight.batches:
                self.settled(flight.process, sent, INFO)
            return
        for number, sent in enumerate(flight.batches):
            if not found:  # acks=0
                self.settled(flight.process, sent, FAIL if sent.wanted else INFO)
            elif found[number].error_code == 0:
                self.settled(flight.process, sent, OK, found[number].base_offset)
            else:
                is_sure = found[number].error_code in SURE
                self.settled(flight.process, sent, FAIL if is_sure else INFO)


class BadProducer(PlainProducer):
    """Half of its batches are bad."""

    bad_chance = 0.5


CONNECTIONS_MANY: Final = 1_000  # more than any history has


class PartingProducer(Producer):
    """Sends batches with acks=0 behind one that must be answered, and half-closes."""

    timeouts_ms = (30_000,)
    may_be_encrypted = False  # TLS has no half-closed connections

    async def live(self) -> None:
        """Come, send, and part."""
        for _ in range(self.steps):
            await self.part()
            await self.pause()

    async def part(self) -> None:
        """Send, close one side, and note what must be in the log when the other side closes."""
        topics = [await self.topic() for _ in range(self.chance.randint(2, 5))]
        await self.connected()
        version = self.version_for(topics)
        group = [self.make(topic, version) for topic in topics]
        flights = [
            self.send([sent], 0 if place else -1, BY_ID if sent.topic.may_be_gone else version)
            for place, sent in enumerate(group)
        ]
        self.wire.half_close()
        life = self.context.life
        await self.world.sleep_ms(PARTED_MS)
        has_closed = self.wire.has_ended_well
        is_taken = flights[0].waiter.set_ns > 0 or not self._may_be_one_too_many()
        self.wire.close()
        for flight, sent in zip(flights, group, strict=True):
            self.settled(flight.process, sent, INFO)
        # One that is refused ends the connection, and with it what is behind it.
        is_refused = any(one.may_be_gone or one.is_limited or one.is_timed for one in topics)
        is_refused |= any(_stored_bytes_max(sent) > SEGMENT_BYTES_LEAST for sent in group)
        is_refused |= self.context.clock.jumped_ms < 0  # the records' times are far in its future
        is_refused |= self._may_be_late() or not is_taken
        if is_refused or life is None or life is not self.context.life:
            return
        if has_closed and not life.told_to_stop_ns:
            self.record.parted += [(self.name, sent.key, sent.values) for sent in group]

    def _may_be_one_too_many(self) -> bool:
        """Whether the broker may have closed the connection unread, as one above a limit."""
        settings = self.context.plan.settings
        is_few = int(settings.get("max.connections") or CONNECTIONS_MANY) < CONNECTIONS_MANY
        return is_few or PER_ADDRESS in settings

    def _may_be_late(self) -> bool:
        """Whether the network may stop for longer than the broker waits for a whole frame."""
        plan = self.context.plan
        network, deadline_ms = plan.shape.network, plan.settings.get(FRAME_DEADLINE)
        is_long = STALLS_MAX * network.stall_ms >= int(deadline_ms or FRAME_DEADLINE_MS)
        return bool(network.stall_chance) and is_long


def _stored_bytes_max(sent: Sent) -> int:
    """Return how large a batch may be in the log, where a topic may want it without compression."""
    unpacked = BATCH_BYTES + sum(RECORD_BYTES + len(value) for value in sent.values)
    return max(len(sent.records), unpacked)


class MsgpackProducer(MsgpackClient, PlainProducer):
    """Sends records as maps, and whole batches."""

    def version_for(self, topics: list[Topic]) -> int:
        """The dialect has one version."""
        return BY_ID

    def make(
        self, topic: Topic, version: int, partition: int | None = None, **producer: int
    ) -> Sent:
        """Return a batch, or the maps of its records."""
        if self.chance.random() < 0.3:
            return super().make(topic, BY_ID, partition, **producer)
        values = self.values(topic)
        records = batches.maps(self.chance, values, self.now_ms)
        return Sent(topic, self.chance.randrange(topic.partition_count), values, records)


KINDS: Final = {
    "producer": runs(PlainProducer),
    "bad producer": runs(BadProducer),
    "msgpack producer": runs(MsgpackProducer),
    "parting producer": runs(PartingProducer),
    "idempotent": runs(IdempotentProducer),
}
