"""Clients of all kinds at once, and the history of the answers they got.

    idempotent    acks=all, up to five batches in flight, retried in order until acknowledged:
                  across errors, lost connections and dead brokers
    plain         acks=1, one batch at a time, never retried
    careless      acks=0
    consumer      polls its keys in turn, each from its position
    trimmer       DeleteRecords, every now and then
    admin         creates topics and asks for producer ids
    members       of groups (`tests.faults.group_members`)
    security      changes users, ACLs and quotas (`tests.faults.security_changes`)

They outlive the broker (`tests.faults.clients`). Only the idempotent producer retries, and no
library retries unseen.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections import deque
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.faults import group_members, group_wire
from tests.faults.clients import RETRY_S, Clients
from tests.faults.security_changes import SecurityChanges
from tests.faults.wire import Connection
from tests.support.history_checker import FAIL, INFO, OK, Anomaly, History, Key, Op, Poll, Send
from tests.support.log_ledger import HIGH_WATERMARK, START, batches_in
from tests.support.raw_batches import batch, record
from tests.support.raw_client import EARLIEST, Closed, produced

IN_FLIGHT_MAX = 5  # the limit of Kafka's clients, and of the broker's producer state
NONE, OFFSET_OUT_OF_RANGE = 0, 1
SEQUENCE_ERRORS = {45, 46, 47, 59}  # out of order, duplicate, old epoch, unknown producer
SURE_FAILURES = {2, 10, 18, 32, 87}  # refused before anything was written
PADDING = b"x" * 120  # so that segments fill
REST_S = 0.003  # pause of a producer after each batch: a crash needs load, not the maximum


@dataclass(slots=True)
class Plan:
    """Which client writes and reads which keys."""

    idempotent: Sequence[Sequence[Key]]
    plain: Sequence[Sequence[Key]]
    careless: Sequence[Sequence[Key]]
    consumers: Sequence[Sequence[Key]]
    trimmed: Sequence[Key] = ()
    keyed: frozenset[Key] = frozenset()  # records have keys: compacted


@dataclass(slots=True)
class _InFlight:
    key: Key
    values: list[bytes]
    batch: bytes
    invoked_s: float
    future: asyncio.Future | None = None  # type: ignore[type-arg]


@dataclass(slots=True, kw_only=True)
class Workload(Clients):
    """All clients of one data directory that use no transactions."""

    plan: Plan
    history: History
    security: SecurityChanges = field(init=False)

    def __post_init__(self) -> None:
        self.security = SecurityChanges(self)

    def runs(self) -> Sequence[Awaitable[None]]:
        """Return the work of every client."""
        return [
            *map(self._idempotent, self.plan.idempotent),
            *(self._plain(keys, acks=1) for keys in self.plan.plain),
            *(self._plain(keys, acks=0) for keys in self.plan.careless),
            *map(self._consumer, self.plan.consumers),
            *map(self._trimmer, self.plan.trimmed),
            self._admin(),
            self.security.run(),
            *(self.while_connected(one.work) for one in group_members.members(self)),
            self.while_connected(functools.partial(group_members.commit_alone, self)),
        ]

    def _values(self, key: Key) -> list[bytes]:
        """Values for one batch; each is unique, and carries its record key if it has one."""
        values = []
        for _ in range(self.chance.choice((1, 1, 2, 5, 20))):
            number = self.next_number()
            padding = PADDING[: self.chance.randrange(len(PADDING))]
            values.append(b"k%d:%d %s" % (self.chance.randrange(20), number, padding))
        return values

    def _batch(self, key: Key, values: Sequence[bytes], **producer: int) -> bytes:
        body = b"".join(
            record(
                value,
                key=value.partition(b":")[0] if key in self.plan.keyed else None,
                offset_delta=number,
            )
            for number, value in enumerate(values)
        )
        now_ms = int(time.time() * 1000) - self.chance.randrange(200)
        return batch(values, body=body, timestamp=now_ms, **producer)

    # -- producers ----------------------------------------------------------------------------

    async def _idempotent(self, keys: Sequence[Key]) -> None:
        process = self.new_process()
        sequences = dict.fromkeys(keys, 0)
        unacknowledged: deque[_InFlight] = deque()
        begun: set[Key] = set()  # keys with an acknowledged batch
        producer_id = -1

        async def work(connection: Connection) -> None:
            nonlocal producer_id
            if producer_id < 0:
                producer_id = await self._new_producer_id(connection)
            for sent in unacknowledged:
                sent.future = connection.produce(*sent.key, sent.batch, -1)
            while True:
                while len(unacknowledged) < IN_FLIGHT_MAX:
                    key = self.chance.choice(keys)
                    if key not in begun and any(sent.key == key for sent in unacknowledged):
                        # For a producer id it does not know the broker accepts any sequence, as
                        # Kafka does: if it refused the first batch, it would accept the second.
                        break
                    values = self._values(key)
                    data = self._batch(
                        key,
                        values,
                        producer_id=producer_id,
                        producer_epoch=0,
                        base_sequence=sequences[key],
                    )
                    sequences[key] += len(values)
                    sent = _InFlight(key, values, data, time.monotonic())
                    sent.future = connection.produce(*key, data, -1)
                    unacknowledged.append(sent)
                first = unacknowledged[0]
                if await self._settle_first(process, unacknowledged):
                    begun.add(first.key)
                    await asyncio.sleep(REST_S)
                else:
                    await asyncio.sleep(RETRY_S)
                    return  # the unacknowledged batches are sent again, in order

        await self.while_connected(work)

    async def _settle_first(self, process: int, unacknowledged: deque[_InFlight]) -> bool:
        """Wait for the oldest batch and return whether it was acknowledged; collect the others."""
        first = unacknowledged[0]
        assert first.future is not None
        async with asyncio.timeout(30):
            answer = produced(await first.future)
        if answer.error == NONE:
            unacknowledged.popleft()
            self._sent(process, OK, first, answer.base_offset)
            self.acknowledged += 1
            return True
        if answer.error in SEQUENCE_ERRORS:
            # The client has sent every batch before it, so the broker must have them all.
            self.found.append(
                Anomaly("sequence-refused", f"{first.key}: error {answer.error} for a retry")
            )
            unacknowledged.popleft()
            return True
        refused = {first.key}
        for sent in list(unacknowledged)[1:]:
            assert sent.future is not None
            later = produced(await sent.future)
            if later.error == NONE and sent.key not in refused:
                unacknowledged.remove(sent)
                self._sent(process, OK, sent, later.base_offset)
            else:
                refused.add(sent.key)
        return False

    def _sent(
        self, process: int, outcome: str, sent: _InFlight, base: int | None, *, acks: int = -1
    ) -> None:
        sends = [
            Send(sent.key, value, None if base is None else base + number)
            for number, value in enumerate(sent.values)
        ]
        self.history.ops.append(
            Op(
                process,
                outcome,
                sends=sends,
                invoked_s=sent.invoked_s,
                completed_s=time.monotonic(),
                is_volatile=acks != -1,
            )
        )

    async def _new_producer_id(self, connection: Connection) -> int:
        producer_id = await connection.producer_id()
        if producer_id < 0:
            raise Closed("no producer id")
        self.ledger.saw_producer_id(producer_id)
        return producer_id

    async def _plain(self, keys: Sequence[Key], acks: int) -> None:
        async def work(connection: Connection) -> None:
            process = self.new_process()
            while True:
                key = self.chance.choice(keys)
                values = self._values(key)
                sent = _InFlight(key, values, self._batch(key, values), time.monotonic())
                outcome, base = INFO, None
                try:
                    answer = await connection.produce(*key, sent.batch, acks)
                    if acks:
                        told = produced(answer)
                        outcome = FAIL if told.error in SURE_FAILURES else INFO
                        if told.error == NONE:
                            outcome, base = OK, told.base_offset
                finally:
                    self._sent(process, outcome, sent, base, acks=acks)
                await asyncio.sleep(REST_S)
                if outcome != OK and acks:
                    return  # the outcome is unknown: a new process continues

        await self.while_connected(work)

    # -- consumers ----------------------------------------------------------------------------

    async def _consumer(self, keys: Sequence[Key]) -> None:
        process = self.new_process()
        positions = dict.fromkeys(keys, 0)
        sought = set(keys)

        async def work(connection: Connection) -> None:
            while True:
                for key in keys:
                    await self.poll(connection, process, key, positions, sought)

        await self.while_connected(work)

    async def poll(
        self,
        connection: Connection,
        process: int,
        key: Key,
        positions: dict[Key, int],
        sought: set[Key],
    ) -> None:
        """Fetch from a key once, from its position, and note the records."""
        position, invoked_s = positions[key], time.monotonic()
        answer = await connection.fetch(*key, position, wait_ms=5)
        if answer.error == OFFSET_OUT_OF_RANGE:
            error, positions[key] = await connection.offset_at(*key, EARLIEST)
            if error:
                positions[key] = 0
            sought.add(key)
            return
        if answer.error:
            await asyncio.sleep(RETRY_S)
            return
        self.ledger.saw_mark(key, HIGH_WATERMARK, answer.high_watermark)
        records: list[tuple[int, bytes]] = []
        for seen in batches_in(answer.records):
            self.ledger.saw_batch(key, seen)
            records += [found for found in seen.records if found[0] >= position]
            positions[key] = seen.last_offset + 1
        self.history.ops.append(
            Op(
                process,
                OK,
                polls=[Poll(key, position, records)],
                invoked_s=invoked_s,
                completed_s=time.monotonic(),
                seeks=key in sought,
            )
        )
        sought.discard(key)

    async def commit(
        self,
        connection: Connection,
        group: str,
        member: tuple[str, int],
        offsets: Mapping[Key, int],
    ) -> set[int]:
        """Commit offsets of a group, note it, and return the errors."""
        for key, offset in offsets.items():
            self.ledger.sent_commit(group, key, offset)
        errors = await group_wire.commit(connection, group, member, offsets)
        if errors == {NONE}:
            self.committed += 1
            for key, offset in offsets.items():
                self.ledger.saw_committed(group, key, offset, str(offset))
        return errors

    # -- others -------------------------------------------------------------------------------

    async def _trimmer(self, key: Key) -> None:
        async def work(connection: Connection) -> None:
            while True:
                _, start = await connection.offset_at(*key, EARLIEST)
                answer = await connection.fetch(*key, max(start, 0), size_max=1)
                if answer.error == NONE and answer.high_watermark > start:
                    offset = self.chance.randint(start, answer.high_watermark)
                    error, left = await connection.delete_records(*key, offset)
                    if error == NONE:
                        self.ledger.saw_mark(key, START, left)
                await asyncio.sleep(self.chance.random() * 0.2)

        await self.while_connected(work)

    async def _admin(self) -> None:
        async def work(connection: Connection) -> None:
            while True:
                name = f"made-{len(self.topics)}-{self.chance.randrange(10**6)}"
                if await connection.create_topic(name, 1, {}) == NONE:
                    self.topics.add(name)
                for _ in range(5):
                    await self._new_producer_id(connection)
                    await asyncio.sleep(self.chance.random() * 0.1)

        await self.while_connected(work)
