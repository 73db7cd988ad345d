"""An idempotent producer: every batch is in the log once, whatever is lost on the way.

It keeps up to five batches in flight, numbers them for each partition, and sends all that are not
acknowledged again, in their order, after a lost connection or an error that may pass. So a batch
that it gives up is the only one whose outcome it does not know; it is a new producer then, with a
new id. Sometimes it sends a batch again that was acknowledged long ago, as a slow network would:
the broker must answer as it did before.

It begins some numbers near 2^31, where they wrap. For a producer that it does not know the broker
accepts any number, as Kafka does; so nothing follows a first batch before its answer.

`OutOfOrder` for the oldest batch means that the broker has lost one before it. That is a failure,
but where records may be lost or forgotten: acks=1, write.caching, topics that are trimmed. After
its clock has leapt by days, a broker has forgotten all producers; nothing is sent again then. A
flipped bit may hide what a producer has sent; its number 0, new or after a wrap, is accepted then.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.wire import ZERO_UUID
from tests.simulation.clients.client import Over
from tests.simulation.clients.producing import (
    BY_ID,
    IN_FLIGHT_MAX,
    SURE,
    InFlight,
    Producer,
    Sent,
)
from tests.simulation.clients.wire import Disconnected
from tests.simulation.world import TimedOut
from tests.support.history_checker import FAIL, INFO, OK, Key

if TYPE_CHECKING:
    from tests.simulation.context import Context
    from tests.simulation.plan import ClientPlan

SEQUENCE_CODES: Final = {45, 46, 47, 59}  # out of order, duplicate, old epoch, unknown producer
SEQUENCE_COUNT: Final = 1 << 31
TRIES_MAX: Final = 12
LATE_CHANCE: Final = 0.08
BUMP_CHANCE: Final = 0.06
OLD_EPOCH: Final = 47
OLD_MS: Final = 50 * 86_400_000  # more than producer.id.expiration.ms


@dataclass(slots=True, eq=False)
class Tried:
    """A batch that is not acknowledged: how often it was sent, and its present request."""

    sent: Sent
    sequence: int
    began_ns: int
    tries: int = 0
    flight: InFlight | None = None


class IdempotentProducer(Producer):
    """See the module."""

    is_one_process = True

    def __init__(self, context: Context, plan: ClientPlan) -> None:
        super().__init__(context, plan)
        self.depth = self.chance.choice((1, 2, IN_FLIGHT_MAX, IN_FLIGHT_MAX))
        self.acks = self.chance.choice((-1, -1, -1, 1))
        self.age_ms = self.chance.choice((0, 0, 0, OLD_MS))
        self.producer_id = -1
        self.epoch = 0  # clients raise it by themselves (KIP-360)
        self.clock_leaps = 0  # of the broker's clock, when the id was given
        self.sequences: dict[Key, int] = {}
        self.waiting: deque[Tried] = deque()
        self.begun: set[Key] = set()  # partitions with an acknowledged batch
        self.done: dict[Key, deque[tuple[Sent, int]]] = {}  # the last acknowledged, with offsets

    async def live(self) -> None:
        """Send, and send again."""
        for _ in range(self.steps):
            if self.producer_id < 0 and not await self.new_id():
                await self.pause()
                continue
            if self.chance.random() < LATE_CHANCE:
                await self.send_late()
            if self.chance.random() < BUMP_CHANCE:
                await self.bump()
            await self.fill()
            await self.settle_first()
            if self.chance.random() < 0.2:
                await self.pause(0.1, 1, 10, 50)
        while self.waiting:
            await self.reconnect()
            await self.settle_first()

    # -- Identity -----------------------------------------------------------------------------

    async def new_id(self) -> bool:
        """Ask for a producer id."""
        self.clock_leaps = self.context.clock_leaps
        body = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000)
        answer = await self.ask(body, self.chance.randrange(6))
        if answer is None:
            return False
        if answer.error_code:
            self.note(f"gets no id: code {answer.error_code}")
            return False
        self.note(f"is producer {answer.producer_id}")
        if answer.producer_epoch != 0:
            self.record.fail(self.name, f"a new producer has epoch {answer.producer_epoch}")
        self.record.ledger.saw_producer_id(answer.producer_id)
        self.producer_id = answer.producer_id
        self.epoch = 0
        self.process = self.record.new_process()
        self._begin_sequences()
        return True

    def _begin_sequences(self) -> None:
        self.sequences.clear()
        self.begun.clear()
        self.done.clear()

    async def bump(self) -> None:
        """Raise the epoch if nothing waits; or send a batch of the epoch before, in vain."""
        if self.waiting or not self.wire.is_open:
            return
        if self.epoch == 0 or self.chance.random() < 0.3:
            self.epoch += 1
            self._begin_sequences()
            return
        known = [done[-1][0] for done in self.done.values() if not self.may_forget(done[-1][0])]
        if known:
            await self._send_old(self.chance.choice(known))

    async def _send_old(self, like: Sent) -> None:
        """Send a batch of the epoch before to a partition that has one of this epoch."""
        sent = self.make(
            like.topic,
            BY_ID,
            like.partition,
            producer_id=self.producer_id,
            producer_epoch=self.epoch - 1,
            base_sequence=0,
        )
        sent.wanted = frozenset({OLD_EPOCH})
        flight = self.send([sent], self.acks, BY_ID)
        try:
            (answer,) = await self.answers(flight)
        except Disconnected:
            self.settled(self.process, sent, INFO)
        else:
            self.settled(self.process, sent, FAIL if answer.error_code == OLD_EPOCH else INFO)

    def give_up(self, outcome: str = INFO) -> None:
        """Forget all that waits. `outcome` is that of the oldest, the others' is not known."""
        self.note(f"gives up {len(self.waiting)} batches")
        for tried in self.waiting:
            tried.sent.began_ns = tried.began_ns
            self.settled(self.process, tried.sent, outcome)
            outcome = INFO
        self.waiting.clear()
        self.producer_id = -1

    # -- Sending ------------------------------------------------------------------------------

    async def reconnect(self) -> None:
        """Connect if need be, and send all that waits again."""
        if self.wire.is_open:
            return
        try:
            await self.connected()
        except Over:
            self.give_up()
            raise
        self.resend()

    async def fill(self) -> None:
        """Send new batches until enough are in flight."""
        while len(self.waiting) < self.depth:
            topic = await self.topic()
            await self.reconnect()
            if self.is_forgotten or self.producer_id < 0:
                self.give_up()
                return
            version = self.version_for([topic])
            partition = self.chance.randrange(topic.partition_count)
            key = topic.key(partition)
            if key not in self.begun and any(tried.sent.key == key for tried in self.waiting):
                return
            sequence = self.sequences.get(key)
            if sequence is None:
                sequence = self.chance.choice((0, 0, 0 if self.epoch else SEQUENCE_COUNT - 5))
            sent = self.make(
                topic,
                version,
                partition,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                base_sequence=sequence,
            )
            self.sequences[sent.key] = (sequence + len(sent.values)) % SEQUENCE_COUNT
            tried = Tried(sent, sequence, self.world.now_ns)
            self.waiting.append(tried)
            self.transmit(tried)

    def transmit(self, tried: Tried) -> None:
        """Send a batch, again or for the first time."""
        sent = tried.sent
        version = BY_ID if sent.topic.may_be_gone else self.chance.choice((7, 9, 12, BY_ID))
        assert version < BY_ID or sent.topic_id != ZERO_UUID
        tried.tries += 1
        tried.flight = self.send([sent], self.acks, version)

    def resend(self) -> None:
        """Send all that waits again, in its order, but a first batch alone."""
        if self.is_forgotten:
            self.give_up()
            return
        alone: set[Key] = set()
        for tried in self.waiting:
            tried.flight = None
            if tried.sent.key not in alone:
                self.transmit(tried)
            if tried.sent.key not in self.begun:
                alone.add(tried.sent.key)

    # -- Settling -----------------------------------------------------------------------------

    async def settle_first(self) -> None:
        """Wait for the oldest batch."""
        if not self.waiting:
            return
        first = self.waiting[0]
        code = await self.code_of(first)
        if code == 0:
            self.waiting.popleft()
            return
        is_first_try = first.tries == 1
        if code in SURE and is_first_try:
            self.give_up(FAIL)
        elif code in SEQUENCE_CODES or code in SURE:
            if code in SEQUENCE_CODES and not self.may_forget(first.sent):
                where = f"{first.sent.key} from {first.sequence}"
                self.record.fail(self.name, f"code {code} for the oldest batch, {where}")
            self.give_up()
        elif (
            first.tries >= TRIES_MAX
            or first.sent.topic.is_trimmed
            or (code is not None and first.sent.topic.may_be_gone)
        ):
            self.give_up()
        else:
            await self.try_again(first.sent.key)

    async def code_of(self, tried: Tried) -> int | None:
        """Wait for a batch; note it if it is acknowledged. None: there was no answer."""
        if tried.flight is None:
            return None
        try:
            (answer,) = await self.answers(tried.flight)
        except Disconnected:
            return None
        sent = tried.sent
        if answer.error_code == 0:
            sent.began_ns = tried.began_ns
            self.settled(self.process, sent, OK, answer.base_offset)
            self.begun.add(sent.key)
            self.done.setdefault(sent.key, deque(maxlen=5)).append((sent, answer.base_offset))
        return int(answer.error_code)

    async def try_again(self, key: Key) -> None:
        """Take what else was acknowledged, and send the rest again after a pause."""
        refused = {key}
        for tried in list(self.waiting)[1:]:
            if tried.sent.key in refused:
                if tried.flight is not None and self.wire.is_open:
                    await self._ended(tried.flight)
            elif await self.code_of(tried) == 0:
                self.waiting.remove(tried)
            else:
                refused.add(tried.sent.key)
        await self.pause()
        if self.wire.is_open:
            self.resend()
        else:
            await self.reconnect()

    async def _ended(self, flight: InFlight) -> None:
        """Wait until a request has any answer, so that it is not in the broker any more."""
        try:
            await self.world.wait(flight.waiter, 90_000)
        except (Disconnected, TimedOut):
            self.wire.close()

    @property
    def is_forgotten(self) -> bool:
        """Whether the broker's clock has made it forget this producer."""
        return self.clock_leaps != self.context.clock_leaps

    def may_forget(self, sent: Sent) -> bool:
        """Whether a broker may rightly not know the batch before this one."""
        topic = sent.topic
        is_damaged = f"{topic.name}-{sent.partition}" in self.context.damaged
        has_lost_files = self.context.has_lost_files and topic.is_compacted
        if self.is_forgotten or is_damaged or has_lost_files:
            return True
        return self.acks != -1 or topic.is_volatile or topic.is_trimmed or topic.may_be_gone

    def is_excused(self, sent: Sent, code: int) -> bool:
        """Sequence errors are judged where it is known what was sent before."""
        return code in SEQUENCE_CODES or super().is_excused(sent, code)

    async def send_late(self) -> None:
        """Send an acknowledged batch again; the answer must be the same."""
        idle = [
            key
            for key, done in self.done.items()
            if all(tried.sent.key != key for tried in self.waiting)
            and not self.may_forget(done[-1][0])
        ]
        if not idle or self.waiting or not self.wire.is_open:
            return
        sent, offset = self.chance.choice(list(self.done[self.chance.choice(idle)]))
        self.note(f"sends a batch from {offset} again")
        again = Tried(sent, 0, self.world.now_ns)
        self.transmit(again)
        assert again.flight is not None
        try:
            (answer,) = await self.answers(again.flight)
        except Disconnected:
            return
        if self.is_forgotten:
            return
        if answer.error_code in SEQUENCE_CODES:
            self.record.fail(self.name, f"{sent.key}: code {answer.error_code} for a duplicate")
        elif answer.error_code == 0 and answer.base_offset != offset:
            told = f"{sent.key}: a duplicate at {answer.base_offset}, it was at {offset}"
            self.record.fail(self.name, told)
