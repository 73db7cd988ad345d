"""The life of a data directory without transactions: its topics, and how its history is judged.

`tests.support.scripted_life` differs: there the broker runs in this process, one fixed sequence of
requests repeats, and a fault meets each file call in turn. Here a process runs under a random load.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from tests.faults import group_members, security_changes
from tests.faults.base_life import COMPACTING, LOAD_S_MAX, SETTINGS, SMALL, BaseLife
from tests.faults.wire import Connection
from tests.faults.workload import Plan, Workload
from tests.support.history_checker import OK, Anomaly, FinalLog, History, Key, Op, Poll, check
from tests.support.log_ledger import Ledger, SeenBatch
from tests.support.patience import stretch
from tests.support.raw_client import EARLIEST, LATEST

TOPICS = {
    "orders": (3, {"index.interval.bytes": "512"}),
    "rolls": (2, {"internal.segment.bytes": "16384", "retention.bytes": "150000", **SMALL}),
    "trimmed": (1, {"internal.segment.bytes": "8192", **SMALL}),
    "compacted": (1, COMPACTING),
    "cached": (1, {"internal.segment.bytes": "65536", "write.caching": "true", **SMALL}),
}
GROUP_TOPIC = ("__consumer_offsets", (2, COMPACTING))  # its records are not the workload's
GROUP_KEYS: list[Key] = [(GROUP_TOPIC[0], number) for number in range(GROUP_TOPIC[1][0])]
KEYS: list[Key] = [(name, n) for name, (count, _) in TOPICS.items() for n in range(count)]
VOLATILE = frozenset({("cached", 0)})
COMPACTED = frozenset({("compacted", 0), *GROUP_KEYS})
PLAN = Plan(
    idempotent=[
        [("orders", 0), ("rolls", 0)],
        [("orders", 0), ("orders", 1)],
        [("rolls", 1), ("trimmed", 0), ("compacted", 0)],
    ],
    # A power cut may lose the producer state of a key with write.caching.
    plain=[
        [("orders", 2), ("rolls", 1), ("compacted", 0)],
        [("cached", 0), ("trimmed", 0)],
        [("cached", 0)],
    ],
    careless=[[("orders", 1), ("orders", 2)]],
    consumers=[KEYS[:3], KEYS[3:], KEYS],
    trimmed=[("trimmed", 0)],
    keyed=frozenset({("compacted", 0)}),
)


class Life(BaseLife):
    """See the module."""

    topics = {**TOPICS, GROUP_TOPIC[0]: GROUP_TOPIC[1]}  # noqa: RUF012
    settings = {**SETTINGS, **group_members.SETTINGS, **security_changes.SETTINGS}  # noqa: RUF012
    rots = KEYS[:3]

    def __init__(self, directory: Path, seed: int, *, shape: str = "", broken: str = "") -> None:
        self.history = History(volatile_keys=VOLATILE, compacted_keys=COMPACTED)
        super().__init__(directory, seed, Ledger(VOLATILE, COMPACTED), shape=shape, broken=broken)

    def _clients(self, address: tuple[str, int]) -> Workload:
        self.workload = Workload(
            address=address,
            plan=PLAN,
            history=self.history,
            ledger=self.ledger,
            chance=self.chance,
        )
        return self.workload

    def _harden(self) -> None:
        self.history.harden()

    def _judge(self) -> list[Anomaly]:
        verdict = check(self.history)
        self.tally.lag_s_max = max(self.tally.lag_s_max, verdict.lag_s_max)
        return verdict.anomalies

    async def _read_all(self, connection: Connection) -> None:
        ends = {}
        for key in (*KEYS, *GROUP_KEYS):
            _, ends[key] = await connection.offset_at(*key, LATEST)
        if self._was_cut:
            self.history.cut(ends)
            self.ledger.cut(ends)
            self._was_cut = False
        for key, end in ends.items():
            start, batches = await self._read(connection, key, end)
            if key in KEYS:
                await self._note_records(connection, key, start, batches)
        await group_members.look(self.workload, connection, LOAD_S_MAX * stretch())
        await self.workload.security.look(connection)
        missing = self.workload.topics - await connection.topics()
        self.ledger.found += [Anomaly("lost-topic", name) for name in sorted(missing)]

    async def _note_records(
        self, connection: Connection, key: Key, start: int, batches: Sequence[SeenBatch]
    ) -> None:
        """Add the batches to the history, and look up the offsets of some timestamps."""
        records = [seen for one in batches for seen in one.records if seen[0] >= start]
        self.history.final[key] = FinalLog(start, records)
        now_s = time.monotonic()
        self.history.ops.append(
            Op(
                0,
                OK,
                polls=[Poll(key, start, records)],
                invoked_s=now_s,
                completed_s=now_s,
                seeks=True,
            )
        )
        if not batches or self.rotten or key in COMPACTED:
            return
        for _ in range(2):
            asked = self.chance.choice(batches).timestamp + self.chance.randint(-1, 1)
            _, told = await connection.offset_at(*key, asked)
            _, start_now = await connection.offset_at(*key, EARLIEST)
            if start_now == start:  # unless retention ran meanwhile
                self.ledger.saw_offset_of_time(key, start, batches, asked, told)
