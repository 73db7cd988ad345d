"""Transactional producers, in both versions of the protocol (TV1, TV2).

    transactor   a producer with an id of its own
    rival        one of several with the same id, which fence each other

A transaction writes to some partitions of the ledgers, and may commit offsets of a group. It is
committed or aborted, or left open: until its time is over, until its client begins anew, or until
somebody else does. Lost answers are asked for again. With TV2 an EndTxn may also be sent twice, or
once more when the next transaction is open already.

With TV1 a request that a network delays may take effect in the producer's next transaction
(docs/transactions.md). So after a lost answer the client begins a new epoch, as Java's does. After
a lost answer to EndTxn it often does so at once: to ask again would mend what a crash has torn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from protocol.errors import ErrorCode
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.find_coordinator import TRANSACTION, FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from tests.simulation.clients.client import Over, runs
from tests.simulation.clients.committed_reads import committed_in
from tests.simulation.clients.transactional_writes import LOST, PASSING, TransactionalWriter
from tests.simulation.transaction_events import ABORTED_CODE
from tests.support.transaction_history import Instance, Outcome, Transaction

if TYPE_CHECKING:
    from tests.simulation.context import Context
    from tests.simulation.plan import ClientPlan

TIMEOUTS_MS: Final = (300, 1_000, 4_000)
SHARED_ID: Final = "shared"
REQUESTS_A_TRANSACTION: Final = 5  # in the mean: a client has so many steps for each
END_TRIES: Final = 8
INIT_TRIES: Final = 40
LEAVES_CHANCE: Final = 0.5  # that an EndTxn without an answer is not sent again
EXPIRES_SOON_MS: Final = 60_000
LATE_CHANCE: Final = 0.1  # that an id that expires soon is not used for long
FIND_VERSIONS, INIT_VERSIONS, OLD_ENDS = range(1, 7), range(6), range(5)
END_VERSION: Final = 5  # of TV2
NAMED_SINCE: Final = 3  # InitProducerId with the epoch that the producer has
FETCH_VERSION: Final = 18
# EndTxn may have taken effect, or may yet.
UNSURE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
FENCED: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
ANSWERS: Final = FENCED | {
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.TRANSACTION_ABORTABLE,
}


class Transactor(TransactionalWriter):
    """See the module."""

    shares_id: ClassVar[bool] = False
    writing: ClassVar[float] = 0.7  # how often it writes, and does not commit offsets

    def __init__(self, context: Context, plan: ClientPlan) -> None:
        super().__init__(context, plan)
        self.transactional_id = SHARED_ID if self.shares_id else self.name
        self.timeout_ms = self.chance.choice(TIMEOUTS_MS)
        self.ended: tuple[int, int] | None = None  # the id and epoch of the last EndTxn of TV2
        # Whether anybody else may end its transactions.
        self.has_others = self.shares_id or any(
            one.kind == "marker" for one in context.plan.clients
        )

    async def live(self) -> None:
        """Run transactions."""
        await self.find()
        for _ in range(self.steps // REQUESTS_A_TRANSACTION + 1):
            if self.needs_id and not await self.new_epoch():
                raise Over
            self.begin()
            if not await self.fill():
                self.note("leaves in mid-transaction")
                return
            await self.finish()
            if self.chance.random() < 0.3:
                await self.pause(1, 20, 200)
            await self.let_expire()

    async def let_expire(self) -> None:
        """Sometimes let the id expire, and go on as if nothing had happened."""
        expires_ms = self.context.lives[0].loaded.config.transactional_id_expiration_ms
        if expires_ms < EXPIRES_SOON_MS and self.chance.random() < LATE_CHANCE:
            self.note("lets its id expire")
            await self.pause(expires_ms, 2 * expires_ms)

    # -- Identity -----------------------------------------------------------------------------

    async def find(self) -> None:
        """Ask for the coordinator: the first who does creates its topic."""
        for _ in range(INIT_TRIES):
            key = self.transactional_id
            body = FindCoordinatorRequest(key=key, key_type=TRANSACTION, coordinator_keys=[key])
            version = self.chance.choice(FIND_VERSIONS)
            answer = await self.ask(body, version, key)
            if answer is not None:
                found = answer if version < 4 else answer.coordinators[0]
                if found.error_code == 0:
                    return
                self.expect("FindCoordinator", found.error_code, PASSING)
            await self.pause(20, 100, 400)
        raise Over

    async def new_epoch(self) -> bool:
        """Become the id's producer; return whether that worked."""
        is_again = self.producer_id >= 0 and self.chance.random() < 0.4
        for _ in range(INIT_TRIES):
            began_ns = self.world.now_ns
            version = self.chance.choice(INIT_VERSIONS[NAMED_SINCE if is_again else 0 :])
            body = InitProducerIdRequest(
                transactional_id=self.transactional_id,
                transaction_timeout_ms=self.timeout_ms,
                producer_id=self.producer_id if is_again else -1,
                producer_epoch=self.epoch if is_again else -1,
            )
            answer = await self.ask(body, version, self.transactional_id)
            if answer is not None and answer.error_code == 0:
                ids = answer.producer_id, answer.producer_epoch
                self.is_now(ids, began_ns, is_init=True, is_again=is_again)
                return True
            if answer is not None:
                self.expect("InitProducerId", answer.error_code, PASSING | FENCED)
                is_again = is_again and answer.error_code not in FENCED
                await self.pause(5, 20, 100, 400)
        return False

    def is_now(self, ids: tuple[int, int], began_ns: int, *, is_init: bool, is_again: bool) -> None:
        """Go on with a producer id and epoch that were answered."""
        self.producer_id, self.epoch = ids
        self.used_ns = began_ns
        self.note(f"is producer {ids[0]}, epoch {ids[1]}")
        self.needs_id = False
        self.sequences.clear()
        self.process = self.record.new_process()
        times = (began_ns, self.world.now_ns)
        self.record.instances.append(
            Instance(self.name, self.transactional_id, *ids, *times, is_init, is_again)
        )

    # -- A transaction ------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a transaction: nothing is sent for that."""
        self.added.clear()
        self.is_spoilt = False
        self.open = Transaction(
            self.name, self.transactional_id, self.producer_id, self.epoch, self.world.now_ns
        )
        self.record.transactions.append(self.open)

    async def fill(self) -> bool:
        """Write, and commit offsets; return whether the client stays."""
        chance = self.chance
        for _ in range(chance.choice((1, 1, 2, 3))):
            writes = chance.random() < self.writing
            await (self.write if writes else self.commit_offsets)()
            if self.is_spoilt:
                break
            if self.ended is not None and chance.random() < 0.15:
                await self.end_late(*self.ended)
            if chance.random() < 0.2:
                await self.pause(1, 20, 200)
        return chance.random() > 0.04

    async def finish(self) -> None:
        """End the transaction, or do not."""
        draw = self.chance.random()
        if draw < 0.08:
            self.note("leaves its transaction open")
            self.needs_id = True
            await self.pause(0, 20, 2 * self.timeout_ms)
            return
        if draw < 0.16:
            await self.pause(0.9 * self.timeout_ms, 2 * self.timeout_ms)
        await self.end(is_commit=self.chance.random() < (0.3 if self.is_spoilt else 0.75))

    async def end(self, *, is_commit: bool) -> None:
        """End the transaction, learn how, and look at once for what is committed."""
        life = self.life
        await self._end(is_commit=is_commit)
        is_committed = self.open.outcome is Outcome.COMMITTED
        if is_committed and life == self.life and self.chance.random() < 0.5:
            await self.look(self.open)

    async def _end(self, *, is_commit: bool) -> None:
        one, is_unsure = self.open, False
        version = END_VERSION if self.is_tv2 else self.chance.choice(OLD_ENDS)
        if is_commit:
            one.outcome, one.commit_asked_ns = Outcome.UNKNOWN, self.world.now_ns
        for _ in range(END_TRIES):
            await self.connected()
            asked_ns, life = self.world.now_ns, self.life
            code, ids = await self._ask_end(version, is_commit=is_commit)
            if is_commit:
                one.commit_lives.add(life if life == self.life else None)
            if code == 0:
                one.done_asked_ns = self.used_ns = asked_ns
                one.life = life if life == self.life else None
                self._has_ended(ids, asked_ns, is_commit=is_commit)
                return
            is_unsure = is_unsure or code in UNSURE or code == LOST
            if code == LOST:
                self.needs_id = self.needs_id or not self.is_tv2
                if self.chance.random() < LEAVES_CHANCE:
                    break
                continue
            self.expect("EndTxn", code, PASSING | ANSWERS)
            if code in ANSWERS:
                break
            await self.pause(5, 20, 100, 400)
        self.needs_id = True
        if not is_commit or not is_unsure:
            self._is_aborted()

    async def _ask_end(self, version: int, *, is_commit: bool) -> tuple[int, tuple[int, int]]:
        """Return the code of an EndTxn, and the next id and epoch; it may be sent twice."""
        body = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=is_commit,
        )
        what = f"{self.transactional_id} {self.epoch} {'commit' if is_commit else 'abort'}"
        self.record.ending(is_commit and len({one.key for one in self.open.written}) > 1)
        waiters = []
        if self.is_tv2 and self.chance.random() < 0.15:
            await self.connected()
            waiters.append(self.wire.send(body, version, what))
        last = await self.ask(body, version, what)
        answers = [last] if last is not None else []
        if last is not None:  # the other's answer came before
            answers += [await waiter for waiter in waiters]
        for answer in answers:
            if answer.error_code == 0:
                ids = getattr(answer, "producer_id", -1), getattr(answer, "producer_epoch", -1)
                return 0, ids
        codes = [int(answer.error_code) for answer in answers]
        unsure = [code for code in codes if code in UNSURE]
        return (unsure or codes or [LOST])[0], (-1, -1)

    def _has_ended(self, ids: tuple[int, int], asked_ns: int, *, is_commit: bool) -> None:
        one = self.open
        before = self.producer_id, self.epoch
        if self.is_tv2:
            self.ended = before
            self.is_now(ids, asked_ns, is_init=False, is_again=True)
            self.begins_in = -1 if self.has_others else self.life
        elif self.is_spoilt:
            self.needs_id = True
        if is_commit:
            one.outcome = Outcome.COMMITTED
            for event in one.offsets:
                event.answered(self.world.now_ns, 0)
        else:
            self._is_aborted()

    def _is_aborted(self) -> None:
        self.open.outcome = Outcome.ABORTED
        for event in self.open.offsets:
            event.answered(self.world.now_ns, ABORTED_CODE)

    async def end_late(self, producer_id: int, epoch: int) -> None:
        """Send the EndTxn of the transaction before, late: it must not end this one."""
        body = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=self.chance.random() < 0.5,
        )
        is_open = any(one.base is not None and self.is_sure(one) for one in self.open.written)
        answer = await self.ask(body, END_VERSION, f"late, of epoch {epoch}")
        if answer is not None and answer.error_code == 0 and is_open:
            self.record.fail(self.name, f"a late EndTxn of epoch {epoch} has ended the next")

    async def look(self, one: Transaction) -> None:
        """Read one partition of a committed transaction: it is there, for all to see."""
        known = [
            written
            for written in one.written
            if written.base is not None and (self.is_sure(written) or written.life == self.life)
        ]
        if not known:
            return
        written = self.chance.choice(known)
        key, base = written.key, written.base
        if key[0] not in self.topics or self.topics[key[0]].is_trimmed:
            return  # it may be made anew, or deleted
        first = min(each.base for each in known if each.key == key and each.base is not None)
        topic = self.topics[key[0]]
        asked = FetchPartition(partition=key[1], fetch_offset=base, partition_max_bytes=1 << 20)
        body = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            isolation_level=1,
            topics=[FetchTopic(topic_id=topic.topic_id, partitions=[asked])],
        )
        life = self.life
        answer = await self.ask(body, FETCH_VERSION, f"{key} at {base}, committed")
        if answer is None or life != self.life or not self.is_sound:
            return
        part = answer.responses[0].partitions[0]
        if part.error_code or f"{key[0]}-{key[1]}" in self.context.damaged:
            return
        if part.last_stable_offset == first:
            self.record.fail(self.name, f"{key} at {first}: committed, and still open to readers")
        elif part.last_stable_offset > base:
            seen = {
                value for _, value in committed_in(part.records, part.aborted_transactions, base)
            }
            if not (topic.is_compacted or seen.issuperset(written.values)):
                self.record.fail(self.name, f"{key} at {base}: committed, and not served")


class Rival(Transactor):
    """One of several producers with the same id."""

    shares_id = True


KINDS: Final = {"transactor": runs(Transactor), "rival": runs(Rival)}
