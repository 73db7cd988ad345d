"""Transactional clients of all kinds at once, with the readers that watch them.

    transactors, rivals, passers-by, copiers    (`tests.faults.transactors`)
    reader       polls committed records, from each partition all
    onlooker     polls whatever there is, committed or not
    watcher      looks at the committed offsets of groups
    straggler    sends EndTxn of TV2 again, long after its answer, on a connection of its own; now
                 and then with the other outcome

They write what they were told and what they saw to a `TransactionHistory`.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field

from tests.faults import transaction_wire as wire
from tests.faults.clients import RETRY_S, Clients
from tests.faults.transactors import SEQUENCES, UNSTABLE, Copier, PasserBy, Transactor
from tests.faults.wire import Connection
from tests.support.history_checker import Key
from tests.support.log_ledger import HIGH_WATERMARK, batches_in
from tests.support.transaction_history import (
    CommittedRead,
    OffsetRead,
    SentOffset,
    TransactionHistory,
)

LAST_STABLE, COMMITTED = "last stable offset", "committed offset"
LATE_MAX = 40  # that the straggler keeps
TIMEOUTS_MS = (300, 600, 1_000)

SOURCES: list[Key] = [("source", 0), ("source", 1)]
COPIES: list[list[Key]] = [[("copies", n), ("notes", n)] for n in range(2)]
LEDGERS: list[Key] = [("left", 0), ("left", 1), ("right", 0), ("right", 1), ("packed", 0)]
KEYS: list[Key] = [*LEDGERS, *SOURCES, *COPIES[0], *COPIES[1]]
COPIERS = "copiers"  # their group


@dataclass(slots=True, kw_only=True)
class TransactionalLoad(Clients):
    """See the module."""

    history: TransactionHistory
    life: int = 0  # of the broker
    is_sound: bool = True  # the disk, in this life
    gaps: frozenset[int] = frozenset()  # errors of a producer whose batch was lost
    ended: int = 0  # transactions
    late: deque[wire.Producer] = field(default_factory=lambda: deque(maxlen=LATE_MAX))
    read: dict[Key, list[tuple[int, bytes]]] = field(default_factory=lambda: {k: [] for k in KEYS})
    positions: dict[Key, int] = field(default_factory=lambda: dict.fromkeys(KEYS, 0))
    groups: list[tuple[str, Key]] = field(default_factory=list)

    def may_lose(self) -> None:
        """Note that the disk may lose what nobody waited for."""
        self.gaps = SEQUENCES

    def runs(self) -> Sequence[Awaitable[None]]:
        """Return the work of every client."""
        clients = self._producers()
        places = {(one.group, one.keys[0]) for one in clients if not isinstance(one, Copier)}
        self.groups = sorted(place for place in places if place[0])
        self.groups += [(COPIERS, key) for key in SOURCES]
        works = [*(one.work for one in clients), self._reader, self._onlooker, self._watcher]
        return [self.while_connected(work) for work in (*works, self._straggler)]

    def _producers(self) -> list[Transactor]:
        made: list[Transactor] = []
        for name, is_tv2, group, shared in (
            ("one", True, "of-one", ""),
            ("two", True, "", ""),
            ("old", False, "of-old", ""),
            ("rival-1", True, "of-rivals", "rivals"),
            ("rival-2", True, "of-rivals", "rivals"),
            ("mixed-1", True, "", "mixed"),
            ("mixed-2", False, "", "mixed"),
        ):
            timeout_ms = self.chance.choice(TIMEOUTS_MS)
            made.append(
                Transactor(
                    self,
                    name,
                    LEDGERS,
                    is_tv2=is_tv2,
                    timeout_ms=timeout_ms,
                    group=group,
                    transactional_id=shared,
                )
            )
        for name, is_tv2 in (("passer-by", True), ("old-passer-by", False)):
            made.append(PasserBy(self, name, LEDGERS, is_tv2=is_tv2, timeout_ms=400))
        made.append(Transactor(self, "feeder", SOURCES * 2, is_tv2=True, timeout_ms=600))
        for name, number, is_tv2, shared in (
            ("copier-1", 0, True, "copiers-0"),
            ("copier-2", 0, True, "copiers-0"),
            ("copier-3", 1, False, ""),
        ):
            made.append(
                Copier(
                    self,
                    name,
                    SOURCES[number],
                    keys=COPIES[number],
                    is_tv2=is_tv2,
                    timeout_ms=600,
                    group=COPIERS,
                    transactional_id=shared,
                )
            )
        return made

    # -- readers ------------------------------------------------------------------------------

    async def _reader(self, connection: Connection) -> None:
        while True:
            for key in KEYS:
                got = await wire.fetch_committed(
                    connection, key, self.positions[key], wait_ms=2, size_max=1 << 18
                )
                if got.error:
                    await asyncio.sleep(RETRY_S)
                    continue
                self.saw_stable(key, got.last_stable_offset)
                values = [value for _, value in got.records]
                at_ns = time.monotonic_ns()
                self.history.reads.append(CommittedRead(at_ns, "reader", key, values))
                self.read[key] += got.records
                if got.batches:
                    self.positions[key] = got.batches[-1].last_offset + 1

    def saw_stable(self, key: Key, offset: int) -> None:
        """Note a last stable offset: it never goes back."""
        self.ledger.saw_mark(key, LAST_STABLE, offset)

    async def _onlooker(self, connection: Connection) -> None:
        positions = dict.fromkeys(KEYS, 0)
        while True:
            for key in KEYS:
                got = await connection.fetch(*key, positions[key], wait_ms=2)
                if got.error:
                    await asyncio.sleep(RETRY_S)
                    continue
                self.ledger.saw_mark(key, HIGH_WATERMARK, got.high_watermark)
                for batch in batches_in(got.records):
                    self.ledger.saw_batch(key, batch)
                    positions[key] = batch.last_offset + 1

    async def _watcher(self, connection: Connection) -> None:
        while True:
            for group, key in self.groups:
                await self.look_at(connection, group, key)
                await asyncio.sleep(self.chance.random() * 0.01)

    async def look_at(self, connection: Connection, group: str, key: Key) -> tuple[int, int]:
        """Note the committed offset of a group: it never goes back. Return error and offset."""
        code, offset = await wire.committed_offset(connection, group, key)
        if code == 0:
            self.ledger.saw_mark((f"{group}: {key[0]}", key[1]), COMMITTED, offset)
            read = OffsetRead(time.monotonic_ns(), "watcher", SentOffset(group, key, offset))
            self.history.offset_reads.append(read)
        elif code not in (UNSTABLE, 14, 15, 16):
            await asyncio.sleep(RETRY_S)
        return code, offset

    # -- requests that come late --------------------------------------------------------------

    async def _straggler(self, connection: Connection) -> None:
        while self.gate.is_set():
            await asyncio.sleep(self.chance.random() * 0.05)
            if self.late:
                producer = self.late[self.chance.randrange(len(self.late))]
                is_commit = self.chance.random() < 0.5
                version, body = wire.end_body(producer, is_commit=is_commit)
                await connection.call(wire.END_TXN, version, body)
