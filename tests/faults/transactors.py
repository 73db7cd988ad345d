"""Transactional producers that outlive their broker, in both versions of the protocol (TV1, TV2).

    transactor   a producer with a group whose offsets it commits, too
    rival        one of several with the same id, which fence each other
    passer-by    has a new id for each transaction: the old ones expire
    copier       consumes committed records, and produces and commits in one transaction

A transaction writes to some partitions, and may commit offsets of a group. It is committed or
aborted, or left open: until its time is over, or until a producer with its id begins anew. What was
not answered is sent again on the next connection, to the same broker or the next. With TV2, an
EndTxn may be sent twice, and goes to the straggler (`tests.faults.transactional_load`), which sends
it again when later transactions are open.

With TV1 a request that is delayed may take effect in the next transaction (docs/transactions.md).
So after a lost answer to EndTxn the client begins a new epoch, as Java's does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.faults import transaction_wire as wire
from tests.faults.clients import RETRY_S
from tests.faults.transaction_wire import Producer
from tests.faults.wire import Connection
from tests.support.history_checker import Anomaly, Key
from tests.support.raw_batches import batch, record
from tests.support.transaction_history import (
    Instance,
    OffsetRead,
    Outcome,
    SentOffset,
    Transaction,
    Written,
)

if TYPE_CHECKING:
    from tests.faults.transactional_load import TransactionalLoad

NONE: Final = 0
CONCURRENT: Final = 51
UNSTABLE: Final = 88
# What may pass by itself: UNKNOWN_SERVER_ERROR is none of them.
PASSING: Final = frozenset({7, 14, 15, 16, 19, CONCURRENT, 56})
FENCED: Final = frozenset({47, 90})
# The transaction is over, or can only be aborted.
OVER: Final = FENCED | {48, 49, 120}
SEQUENCES: Final = frozenset({45, 59})  # after a batch was lost whose client did not wait
UNSURE: Final = frozenset({7, 15, CONCURRENT, 56})  # EndTxn may have taken effect, or may yet
TRANSACTIONAL: Final = 0x10
TRIES: Final = 30
FORGETS: Final = 0.12  # of the writes of TV1: a partition is not added
REST_S: Final = 0.004
BACK_OFF_S: Final = 0.15
PADDING: Final = b"x" * 90


@dataclass(slots=True)
class _Unanswered:
    """A batch that is sent until it is answered."""

    written: Written
    data: bytes


class Transactor:
    """See the module. `group` is whose offsets it commits; an id that `is_shared` has rivals."""

    def __init__(
        self,
        load: TransactionalLoad,
        name: str,
        keys: Sequence[Key],
        *,
        is_tv2: bool,
        timeout_ms: int,
        group: str = "",
        transactional_id: str = "",
    ) -> None:
        self.load = load
        self.name = name
        self.keys = keys
        self.group = group
        self.timeout_ms = timeout_ms
        self.is_shared = bool(transactional_id)
        self.me = Producer(transactional_id or name, -1, -1, is_tv2)
        self.open: Transaction | None = None
        self._needs_id = True
        self._is_found = False
        self._sequences: dict[Key, int] = {}
        self._added: set[Key] = set()
        self._unanswered: dict[Key, _Unanswered] = {}
        self._offset: SentOffset | None = None  # without an answer
        self._has_added_group = False
        self._is_spoilt = False  # something was refused, or its outcome is not known
        self._ending: bool | None = None  # an EndTxn without an answer, a commit or not
        self._is_unsure = False  # whether it has taken effect
        self._begins_in = -1  # the life that answered the EndTxn before this transaction

    async def work(self, connection: Connection) -> None:
        """Run transactions until the connection ends."""
        await self._find(connection)
        while True:
            if self._ending is not None:
                await self._end(connection, is_commit=self._ending)
            if self._needs_id and not await self._init(connection):
                continue
            if self.open is None:
                self._begin()
            await self._fill(connection)
            await self._finish(connection)
            await asyncio.sleep(REST_S)

    async def _find(self, connection: Connection) -> None:
        """Ask for the coordinator: the first who does creates its topic."""
        if not self._is_found:
            await self._until_passed(
                "FindCoordinator",
                lambda: wire.find_coordinator(connection, self.me.transactional_id),
            )
            self._is_found = True

    def _begin(self) -> None:
        self._added.clear()
        self._has_added_group = False
        self._is_spoilt = False
        self._is_unsure = False
        self.open = Transaction(
            self.name,
            self.me.transactional_id,
            self.me.producer_id,
            self.me.epoch,
            time.monotonic_ns(),
        )
        self.load.history.transactions.append(self.open)

    def _object(self, name: str, detail: str) -> None:
        self.load.found.append(Anomaly(name, f"{self.name}: {detail}"))

    def _refused(self, what: str, code: int, allowed: frozenset[int]) -> None:
        """Note a code that cannot be right."""
        if code not in allowed:
            self._object("refused", f"{what} of {self.me}: error {code}")
        is_first = self._begins_in == self.load.life and self.me.is_tv2 and not self.is_shared
        if code == CONCURRENT and is_first and self.load.is_sound:
            self._object("refused", f"{what} of {self.me}: the one before has ended, and is busy")

    async def _until_passed(self, what: str, ask: Callable[[], Awaitable[int]]) -> int:
        """Ask until the answer is not one that may pass; return it."""
        for _ in range(TRIES * 10):
            code = await ask()
            if code not in PASSING:
                if code:
                    self._refused(what, code, OVER)
                return code
            await asyncio.sleep(RETRY_S)
        if self.load.is_sound:  # a log that has failed stays so until the next start
            self._object("hanging", f"{what} of {self.me}: error {code} for ever")
        return code

    # -- identity -----------------------------------------------------------------------------

    async def _init(self, connection: Connection) -> bool:
        """Become the id's producer; return whether that worked."""
        began_ns, ids = time.monotonic_ns(), (-1, -1)

        async def ask() -> int:
            nonlocal ids
            code, *ids = await wire.init_producer_id(
                connection, self.me.transactional_id, self.timeout_ms
            )
            return code

        self._begins_in = -1
        if await self._until_passed("InitProducerId", ask) != NONE:
            await asyncio.sleep(RETRY_S)
            return False
        self.open = None
        self._become((ids[0], ids[1]), began_ns, is_init=True)
        return True

    def _become(self, ids: tuple[int, int], began_ns: int, *, is_init: bool) -> None:
        """Go on with a producer id and epoch that were answered."""
        self.me = self.me._replace(producer_id=ids[0], epoch=ids[1])
        self._needs_id = False
        self._sequences.clear()
        self._unanswered.clear()
        self._offset = None
        self.load.acknowledged += 1
        self.load.history.instances.append(
            Instance(
                self.name,
                self.me.transactional_id,
                *ids,
                began_ns,
                time.monotonic_ns(),
                is_init,
                not is_init,
            )
        )

    # -- a transaction ------------------------------------------------------------------------

    async def _fill(self, connection: Connection) -> None:
        """Write, and commit offsets; first what was not answered."""
        chance = self.load.chance
        if self._unanswered:
            await self._send(connection)
        if self._offset is not None:
            await self._send_offset(connection)
        for _ in range(chance.choice((1, 1, 2, 3))):
            if self._is_spoilt:
                return
            if self.group and chance.random() < 0.3:
                offset = self.load.next_number()
                self._offset = SentOffset(self.group, self.keys[0], offset)
                await self._send_offset(connection)
            else:
                keys = chance.sample(self.keys, chance.choice((1, 2, 2, 3)))
                await self.write(connection, {key: self._values(key) for key in keys})

    def _values(self, key: Key) -> list[bytes]:
        chance = self.load.chance
        size = chance.randrange(len(PADDING))
        count = chance.choice((1, 1, 2, 5))
        return [b"%d:%s" % (self.load.next_number(), PADDING[:size]) for _ in range(count)]

    async def write(self, connection: Connection, values: dict[Key, list[bytes]]) -> None:
        """Send a batch to each of some partitions."""
        assert self.open is not None
        chance = self.load.chance
        forgets = not self.me.is_tv2 and chance.random() < FORGETS
        if not self.me.is_tv2 and not forgets and not await self._add(connection, list(values)):
            return
        acks = chance.choice((-1, -1, -1, 1))
        for key, some in values.items():
            written = Written(key, some, acks, time.monotonic_ns())
            self.open.written.append(written)
            self._unanswered[key] = _Unanswered(written, self._batch(key, some))
            self._sequences[key] = self._sequences.get(key, 0) + len(some)
        await self._send(connection)

    def _batch(self, key: Key, values: list[bytes]) -> bytes:
        body = b"".join(
            record(value, key=value.partition(b":")[0], offset_delta=number)
            for number, value in enumerate(values)
        )
        return batch(
            values,
            body=body,
            attributes=TRANSACTIONAL,
            producer_id=self.me.producer_id,
            producer_epoch=self.me.epoch,
            base_sequence=self._sequences.get(key, 0),
        )

    async def _send(self, connection: Connection) -> None:
        """Send what is not answered, until it is."""
        for _ in range(TRIES):
            waiting = self._unanswered
            acks = next(iter(waiting.values())).written.acks
            batches = {key: one.data for key, one in waiting.items()}
            answer = await wire.produce(connection, self.me, batches, acks)
            for key, (code, base) in answer.items():
                if code == NONE:
                    written = waiting.pop(key).written
                    written.base, written.life = base, self.load.life
                    if not self.me.is_tv2 and key not in self._added:
                        self._object("not-added", f"{key} takes a batch of {self.me}")
                elif code not in PASSING:
                    self._refused("Produce", code, OVER | self.load.gaps)
                    self._is_spoilt = True
                else:
                    self._refused("Produce", code, PASSING)
            self._begins_in = -1
            if not waiting or self._is_spoilt:
                break
            await asyncio.sleep(RETRY_S)
        self._is_spoilt = self._is_spoilt or bool(self._unanswered)
        self._unanswered.clear()

    async def _add(self, connection: Connection, keys: Sequence[Key]) -> bool:
        """Add partitions that are not in the transaction (TV1); return whether all are."""
        new = [key for key in keys if key not in self._added]
        for _ in range(TRIES):
            codes = await wire.add_partitions(connection, self.me, new) if new else {NONE}
            if codes == {NONE}:
                self._added.update(new)
                return True
            if not codes <= PASSING:
                self._refused("AddPartitionsToTxn", max(codes - PASSING), OVER)
                break
            await asyncio.sleep(RETRY_S)
        self._is_spoilt = True
        return False

    async def _send_offset(self, connection: Connection) -> None:
        """Send the offset that is not answered, until it is."""
        assert self.open is not None
        assert self._offset is not None
        group, key, offset = self._offset
        for _ in range(TRIES):
            if self.me.is_tv2 or self._has_added_group:
                code = await wire.commit_offset(connection, self.me, group, key, offset)
                if code == NONE:
                    self.open.offsets.append(self._offset)
                    self._offset = None
                    self._begins_in = -1
                    return
            else:
                code = await wire.add_offsets(connection, self.me, group)
                self._has_added_group = code == NONE
            if code and code not in PASSING:
                self._refused("TxnOffsetCommit", code, OVER)
                break
            self._refused("TxnOffsetCommit", code, PASSING | {NONE})
            self._begins_in = -1
            await asyncio.sleep(RETRY_S if code else 0)
        self._is_spoilt = True
        self._offset = None

    # -- its end ------------------------------------------------------------------------------

    async def _finish(self, connection: Connection) -> None:
        """End the transaction, or do not."""
        chance = self.load.chance
        draw = chance.random()
        if draw < 0.05:
            self._needs_id = True  # the next producer of this id aborts it
            await asyncio.sleep(chance.random() * 0.1)
            return
        if draw < 0.09:
            await asyncio.sleep(chance.uniform(0.8, 1.3) * self.timeout_ms / 1000)
        is_commit = not self._is_spoilt and chance.random() < 0.75
        await self._end(connection, is_commit=is_commit)

    async def _end(self, connection: Connection, *, is_commit: bool) -> None:
        """End the transaction, learn how, and look at once for what is committed."""
        one = self.open
        assert one is not None
        self._ending = is_commit
        if is_commit and one.commit_asked_ns is None:
            one.outcome, one.commit_asked_ns = Outcome.UNKNOWN, time.monotonic_ns()
        code = NONE
        for _ in range(TRIES):
            asked_ns, was_unsure = time.monotonic_ns(), self._is_unsure
            self._is_unsure = True  # unless there is an answer
            code, ids = await self._ask_end(connection, is_commit=is_commit)
            self._is_unsure = was_unsure or code in UNSURE
            if code == NONE or code not in PASSING:
                break
            await asyncio.sleep(RETRY_S)
        self._ending, self.open = None, None
        if code == NONE:
            one.done_asked_ns, one.life = asked_ns, self.load.life
            one.outcome = Outcome.COMMITTED if is_commit else Outcome.ABORTED
            self.load.committed += len(one.offsets) if is_commit else 0
            self._has_ended(ids, asked_ns, was_lost=was_unsure)
            if is_commit and self.load.chance.random() < 0.5:
                await self._look(connection, one)
            return
        self._refused("EndTxn", code, OVER | PASSING)
        self._needs_id = True
        if not is_commit or not self._is_unsure:
            one.outcome = Outcome.ABORTED
        if code in FENCED and self.is_shared:
            await asyncio.sleep(self.load.chance.random() * BACK_OFF_S)

    def _has_ended(self, ids: tuple[int, int], asked_ns: int, *, was_lost: bool) -> None:
        self.load.acknowledged += 1
        self.load.ended += 1
        if self.me.is_tv2:
            self.load.late.append(self.me)
            self._become(ids, asked_ns, is_init=False)
            self._begins_in = self.load.life
        elif was_lost or self._is_spoilt:
            self._needs_id = True

    async def _ask_end(
        self, connection: Connection, *, is_commit: bool
    ) -> tuple[int, tuple[int, int]]:
        """Return the error of an EndTxn, and the next ids; it may be sent twice."""
        version, body = wire.end_body(self.me, is_commit=is_commit)
        is_doubled = self.me.is_tv2 and self.load.chance.random() < 0.15
        sent = [connection.send(wire.END_TXN, version, body) for _ in range(1 + is_doubled)]
        answers = [wire.ended(await each, version) for each in sent]
        code, *ids = next((one for one in answers if one[0] == NONE), answers[0])
        return code, (ids[0], ids[1])

    async def _look(self, connection: Connection, one: Transaction) -> None:
        """Read a part of a transaction whose commit was answered: it is there, for all to see."""
        life = self.load.life
        known = [written for written in one.written if written.base is not None]
        for written in known[:1]:
            assert written.base is not None
            got = await wire.fetch_committed(connection, written.key, written.base)
            where = f"{written.key} at {written.base}"
            is_judged = life == self.load.life and self.load.is_sound
            if not is_judged or got.error or written.life != life:
                continue
            if got.last_stable_offset == min(
                other.base for other in known if other.key == written.key
            ):
                self._object("not-readable", f"{where} is committed, and open to readers")
            elif got.last_stable_offset > written.base:
                values = {value for _, value in got.records}
                if not values.issuperset(written.values):
                    self._object("not-readable", f"{where} is committed, and not served")
        for sent in one.offsets[-1:]:
            code, offset = await wire.committed_offset(connection, sent.group, sent.key)
            if code == UNSTABLE and self.is_shared:
                continue
            if life != self.load.life or not self.load.is_sound or code in PASSING:
                continue
            if code or offset < sent.offset:
                self._object("not-readable", f"{sent} is committed: error {code}, offset {offset}")


class PasserBy(Transactor):
    """See the module."""

    def _begin(self) -> None:
        super()._begin()
        self._needs_id = True  # for the next one

    async def _init(self, connection: Connection) -> bool:
        if self.load.chance.random() < 0.7:
            number = self.load.next_number()
            self.me = Producer(f"{self.name}-{number}", -1, -1, self.me.is_tv2)
            self.open = None
        return await super()._init(connection)


class Copier(Transactor):
    """See the module. It copies one partition of `source` to the partitions `keys`."""

    def __init__(self, load: TransactionalLoad, name: str, source: Key, **more) -> None:
        super().__init__(load, name, **more)
        self.source = source
        self._position: int | None = None

    async def work(self, connection: Connection) -> None:
        """Copy. After a failure, whatever it was, the group's offset says where to go on."""
        await self._find(connection)
        self._needs_id, self._ending = True, None
        while True:
            if self._needs_id:
                self.open = self._position = None
                if not await self._init(connection):
                    continue
            if self._position is None:
                await self._seek(connection)
            else:
                await self._copy(connection, self._position)
            await asyncio.sleep(REST_S)

    async def _seek(self, connection: Connection) -> None:
        code, offset = await wire.committed_offset(connection, self.group, self.source)
        if code == NONE:
            self._position = max(offset, 0)
            read = OffsetRead(
                time.monotonic_ns(), self.name, SentOffset(self.group, self.source, offset)
            )
            self.load.history.offset_reads.append(read)
        elif code not in PASSING | {UNSTABLE}:
            self._object("refused", f"OffsetFetch of {self.group}: error {code}")
        else:
            await asyncio.sleep(RETRY_S)

    async def _copy(self, connection: Connection, position: int) -> None:
        got = await wire.fetch_committed(connection, self.source, position, wait_ms=20)
        if got.error or not got.batches:
            await asyncio.sleep(RETRY_S if got.error else 0)
            return
        self._position = got.batches[-1].last_offset + 1
        values = [value for _, value in got.records]
        if not values:
            return
        self._begin()
        one = self.open
        assert one is not None
        number = self.load.next_number()  # each attempt writes other values
        copies = [b"%s|%d" % (value, number) for value in values]
        await self.write(connection, dict.fromkeys(self.keys, copies))
        if not self._is_spoilt:
            self._offset = SentOffset(self.group, self.source, self._position)
            await self._send_offset(connection)
        await self._finish(connection)
        if one.outcome is not Outcome.COMMITTED:
            self._position = None
        if self._needs_id and self.is_shared:
            await asyncio.sleep(self.load.chance.random() * BACK_OFF_S)
