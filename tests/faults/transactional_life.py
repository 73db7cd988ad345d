"""The life of a data directory with transactions: its topics, and how its history is judged.

After each crash every partition is read twice: as it is, and as a reader of committed records is
served. The second must be what the markers in the first say, up to the last stable offset
(`served-otherwise`), and what the reader was served before (`vanished`).

Now and then, and at the end, the checker waits until all transactions are over, by their timeouts:
the last stable offset must reach the end of every partition, and the offsets of groups become
stable (`hanging`). Then the whole history is judged (`tests.support.transaction_checker`).
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.faults import transaction_wire as wire
from tests.faults.base_life import COMPACTING, SETTINGS, SMALL, BaseLife
from tests.faults.transactional_load import (
    COPIERS,
    COPIES,
    KEYS,
    SOURCES,
    TIMEOUTS_MS,
    TransactionalLoad,
)
from tests.faults.wire import Connection
from tests.support.committed_records import Settled, batches_of
from tests.support.history_checker import Anomaly, Key
from tests.support.log_ledger import Ledger
from tests.support.patience import Limit
from tests.support.raw_client import LATEST
from tests.support.transaction_checker import check, check_copies, check_offsets, duplicates
from tests.support.transaction_history import TransactionHistory

LOOKS_EVERY_MS = 100
ROLLING = {"internal.segment.bytes": "16384", **SMALL}
PACKED = {**COMPACTING, "delete.retention.ms": "500"}
TOPICS = {
    "left": (2, ROLLING),
    "right": (2, {"index.interval.bytes": "512"}),
    "packed": (1, PACKED),
    "source": (2, ROLLING),
    "copies": (2, {}),
    "notes": (2, ROLLING),
}
INTERNAL = {"__consumer_offsets": (2, PACKED), "__transaction_state": (2, PACKED)}
INTERNAL_KEYS: list[Key] = [(name, number) for name in INTERNAL for number in range(2)]
SETTLES = 0.4  # of the looks
STUCK_S = 20.0  # without any change, on an idle machine


class TransactionalLife(BaseLife):
    """See the module."""

    topics = {**TOPICS, **INTERNAL}  # noqa: RUF012
    settings = {  # noqa: RUF012
        **SETTINGS,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(LOOKS_EVERY_MS),
        "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
        "transactional.id.expiration.ms": "3000",
    }
    acknowledged_wanted = 40  # producer ids, and ends of transactions

    def __init__(self, directory: Path, seed: int, *, shape: str = "", broken: str = "") -> None:
        self.history = TransactionHistory()
        self.served: dict[Key, list[tuple[int, bytes]]] = {}
        self.offsets: dict[tuple[str, Key], int] = {}
        self._is_settled = False
        ledger = Ledger((), {("packed", 0), *INTERNAL_KEYS})
        super().__init__(directory, seed, ledger, shape=shape, broken=broken)

    def _clients(self, address: tuple[str, int]) -> TransactionalLoad:
        self.load = TransactionalLoad(
            address=address, history=self.history, ledger=self.ledger, chance=self.chance
        )
        return self.load

    def _harden(self) -> None:
        """Nothing is volatile here; but a stop under load has left nothing to object to."""
        self.load.found += [Anomaly("H8", what) for what in self._verify()]

    async def _read_all(self, connection: Connection) -> None:
        faults = () if self.crash is None else (*self.crash.serving, *self.crash.recovering)
        self.load.life += 1
        self.load.is_sound = not any(fault.startswith(("eio", "enospc")) for fault in faults)
        if not self.load.is_sound or self._was_cut:
            self.load.may_lose()
        must_settle = self.crash is None or self.broker.broken or self.chance.random() < SETTLES
        self._is_settled = must_settle and self.load.is_sound and await self._settle(connection)
        ends = {}
        for key in (*KEYS, *INTERNAL_KEYS):
            _, ends[key] = await connection.offset_at(*key, LATEST)
        if self._was_cut:
            self.ledger.cut(ends)
            self._was_cut = False
        for key in INTERNAL_KEYS:
            await self._read(connection, key, ends[key])
        for key in KEYS:
            await self._compare(connection, key, ends[key])
        self.offsets = {}
        for group, key in self.load.groups:
            code, offset = await self.load.look_at(connection, group, key)
            if code == 0:
                self.offsets[group, key] = offset

    async def _settle(self, connection: Connection) -> bool:
        """Wait until all transactions are over; return whether they are."""
        bound_s = (max(TIMEOUTS_MS) + 2 * LOOKS_EVERY_MS) / 1000 + STUCK_S
        limit, before = Limit(bound_s), [""]
        while True:
            left: list[str] = []
            for key in KEYS:
                stable = await wire.stable_end(connection, key)
                _, end = await connection.offset_at(*key, LATEST)
                left += [f"{key}: stable up to {stable} of {end}"] if stable != end else []
            for group, key in self.load.groups:
                code, _ = await wire.committed_offset(connection, group, key)
                left += [f"offsets of {group}: error {code}"] if code else []
            if not left:
                self.tally.settled += 1
                return True
            if left != before:
                limit, before = Limit(bound_s), left
            if limit.is_over:
                self.load.found.append(Anomaly("hanging", f"{left[0]}, and {len(left) - 1} more"))
                return False
            await asyncio.sleep(0.05)

    async def _compare(self, connection: Connection, key: Key, end: int) -> None:
        """Hold what a reader of committed records is served against the markers in the log."""
        served: list[tuple[int, bytes]] = []
        position, stable = 0, 0
        while True:
            got = await wire.fetch_committed(connection, key, position, size_max=4 << 20)
            if got.error:
                self.load.found.append(Anomaly("unreadable", f"{key} at {position}: {got.error}"))
                return
            stable = got.last_stable_offset
            self.load.saw_stable(key, stable)
            served += got.records
            if not got.batches:
                break
            position = got.batches[-1].last_offset + 1
        _, end = await connection.offset_at(*key, LATEST)
        raw: list[bytes] = []
        await self._read(connection, key, end, raw)
        settled = Settled.of(batch for data in raw for batch in batches_of(data))
        expected = [one for one in settled.records if one[0] < stable]
        open_below = [offset for one in settled.open.values() for offset, _ in one]
        if position != stable or sorted(served) != expected:
            odd = sorted(set(served) ^ set(expected))[:2]
            what = f"{key}: up to {position} of {stable}: {odd}"
            self.load.found.append(Anomaly("served-otherwise", what))
        if min(open_below, default=stable) < stable:
            what = f"{key}: {min(open_below)} is open, and the last stable offset is {stable}"
            self.load.found.append(Anomaly("open-below", what))
        before = self.load.read[key]
        if before != [one for one in served if one[0] < self.load.positions[key]]:
            odd = sorted(set(before) ^ set(served[: len(before)]))[:2]
            self.load.found.append(Anomaly("vanished", f"{key}: the reader was served {odd}"))
        self.served[key] = served

    def _judge(self) -> list[Anomaly]:
        self.tally.transactions = self.load.ended
        if not self._is_settled:
            return []
        values = {key: [value for _, value in served] for key, served in self.served.items()}
        seen = {key: {v: at for at, v in served} for key, served in self.served.items()}
        found = check(self.history, seen, may_lose=bool(self.load.gaps))
        found += check_offsets(self.history, seen, self.offsets)
        found += duplicates(values)
        for source, copies in zip(SOURCES, COPIES, strict=True):
            for key in copies:
                name, offset = f"{source} in {key}", max(self.offsets.get((COPIERS, source), 0), 0)
                originals = [value.rpartition(b"|")[0] for value in values[key]]
                found += check_copies(self.served[source], originals, offset, name)
        return found
