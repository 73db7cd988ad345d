"""Group members that read, commit and outlive the broker, and the answers they got.

    classic     two members of one group; the leader sometimes reassigns the partitions
    consumer    two members of a KIP-848 group, which sometimes leave and rejoin
    alone       commits without a membership, one after the other

These hold at any time and over every crash. The committed offset of a partition is never below an
acknowledged or fetched commit, and never above the highest that was sent. It comes with the
metadata that was sent with it. Generations and epochs do not go back. A member whose join was
acknowledged is never unknown. No member gets an error that it cannot recover from. The session
timeouts are long enough that no slow member is ever removed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tests.faults import group_wire
from tests.faults.group_wire import NOBODY
from tests.faults.wire import Connection
from tests.support.history_checker import Anomaly, Key
from tests.support.raw_client import Closed

if TYPE_CHECKING:
    from tests.faults.workload import Workload

TOPIC, PARTITIONS = "orders", range(3)
KEYS: Sequence[Key] = [(TOPIC, number) for number in PARTITIONS]
CLASSIC, CONSUMER, ALONE = GROUPS = ("classic", "consumer", "alone")
SESSION_MS = 300_000
SETTINGS = {
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.max.session.timeout.ms": str(SESSION_MS),
}
MOVES = 0.03  # how likely a member moves partitions in each of its rounds
REST_S = 0.01

UNKNOWN_MEMBER_ID, MEMBER_ID_REQUIRED = 25, 79
LOADING, NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16
TRY_AGAIN = {LOADING, NOT_AVAILABLE, NOT_COORDINATOR}
JOIN_AGAIN = {22, 27, 110, 113}  # illegal generation, rebalance, fenced and stale epoch


class Member:
    """What both kinds of members have in common; `settle` differs."""

    group: str

    def __init__(self, workload: Workload, number: int) -> None:
        self.workload = workload
        self.number = number
        self.member_id = ""
        self.epoch = 0  # or generation; 0: joins
        self.is_known = False  # its join was acknowledged
        self.process = workload.new_process()
        self.positions: dict[Key, int] = {}  # of what it was assigned
        self.sought: set[Key] = set()

    async def work(self, connection: Connection) -> None:
        """Be a member for as long as the connection lasts."""
        self._took(await group_wire.find_coordinator(connection, self.group))
        while True:
            if await self.settle(connection):
                for key in tuple(self.positions):
                    await self._consume(connection, key)
            await asyncio.sleep(REST_S)

    async def settle(self, connection: Connection) -> bool:
        """Take a step towards membership; return whether the member may consume its partitions."""
        raise NotImplementedError

    def _took(self, error: int) -> bool:
        """Return whether a request succeeded; if not, adjust the membership to the error."""
        if error == 0:
            return True
        if error in TRY_AGAIN:
            raise Closed(f"error {error}")
        if error == UNKNOWN_MEMBER_ID:
            if self.is_known:
                self._found("lost-member", f"{self.member_id} is unknown")
            self.is_known = False
            self.forget()
        elif error not in JOIN_AGAIN:
            self._found("group-refused", f"error {error} for member {self.number}")
        self.epoch = 0
        return False

    def forget(self) -> None:
        """Drop a member id that the broker does not know."""

    def _found(self, name: str, detail: str) -> None:
        self.workload.found.append(Anomaly(name, f"group {self.group}: {detail}"))

    def _at_epoch(self, epoch: int) -> None:
        self.epoch = epoch
        self.is_known = True
        self.workload.ledger.saw_mark((self.group, self.number), "epoch", epoch)

    async def _assign(self, connection: Connection, numbers: Sequence[int]) -> None:
        """Take over these partitions, the new ones from their committed offsets."""
        new = [(TOPIC, number) for number in numbers if (TOPIC, number) not in self.positions]
        self.positions = {key: at for key, at in self.positions.items() if key[1] in numbers}
        if not new:
            return
        error, found = await group_wire.committed(connection, self.group, new)
        self._took(error)
        for key, (offset, metadata) in found.items():
            self.workload.ledger.saw_committed(self.group, key, offset, metadata)
            self.positions[key] = max(offset, 0)
            self.sought.add(key)

    async def _consume(self, connection: Connection, key: Key) -> None:
        before = self.positions[key]
        await self.workload.poll(connection, self.process, key, self.positions, self.sought)
        if self.positions[key] > before and self.epoch:
            member = self.member_id, self.epoch
            errors = await self.workload.commit(
                connection, self.group, member, {key: self.positions[key]}
            )
            for error in errors:
                self._took(error)


class ClassicMember(Member):
    """A member of a classic group: it joins, syncs, sends heartbeats, and joins again."""

    group = CLASSIC

    async def settle(self, connection: Connection) -> bool:
        """See Member."""
        if self.epoch:
            member = self.member_id, self.epoch
            self._took(await group_wire.heartbeat(connection, self.group, member))
        if self.epoch and self.workload.chance.random() > MOVES:
            return True
        self.epoch = 0
        joined = await group_wire.join(connection, self.group, self.member_id, TOPIC, SESSION_MS)
        if joined.error == MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            return False
        if not self._took(joined.error):
            return False
        shares: dict[str, list[int]] = {member_id: [] for member_id in joined.members}
        for number in PARTITIONS if shares else ():
            shares[self.workload.chance.choice(joined.members)].append(number)
        member = self.member_id, joined.generation
        error, numbers = await group_wire.sync(connection, self.group, member, TOPIC, shares)
        if not self._took(error):
            return False
        self._at_epoch(joined.generation)
        self.positions.clear()
        await self._assign(connection, numbers)
        return True

    def forget(self) -> None:
        """See Member."""
        self.member_id = ""


class ConsumerMember(Member):
    """A member of a KIP-848 group, with a member id of its own."""

    group = CONSUMER

    def __init__(self, workload: Workload, number: int) -> None:
        super().__init__(workload, number)
        self.member_id = f"member-{number}"
        self.topic_id = b""

    async def settle(self, connection: Connection) -> bool:
        """See Member."""
        if self.epoch and self.workload.chance.random() < MOVES:
            self.is_known = False  # the answer may get lost, and with it the certainty
            await self._beat(connection, -1)
            self.epoch = 0
        if not self.epoch:
            self.positions.clear()
        beat = await self._beat(connection, self.epoch)
        if not self._took(beat.error):
            return False
        self._at_epoch(beat.epoch)
        if beat.assigned is not None:
            self.topic_id = next(iter(beat.assigned), self.topic_id)
            await self._assign(connection, beat.assigned.get(self.topic_id, ()))
        return True

    async def _beat(self, connection: Connection, epoch: int) -> group_wire.Beat:
        numbers = [number for _, number in self.positions]
        owned = {self.topic_id: numbers} if numbers else {}
        member = self.member_id, epoch
        return await group_wire.consumer_heartbeat(connection, self.group, member, TOPIC, owned)


def members(workload: Workload) -> list[Member]:
    """All members of groups of a directory."""
    return [kind(workload, number) for kind in (ClassicMember, ConsumerMember) for number in (1, 2)]


async def commit_alone(workload: Workload, connection: Connection) -> None:
    """Commit ever higher offsets of all keys without being a member."""
    while True:
        await group_wire.find_coordinator(connection, ALONE)
        for _ in range(50):
            offsets = {key: workload.next_number() for key in KEYS}
            errors = await workload.commit(connection, ALONE, NOBODY, offsets)
            if errors & TRY_AGAIN:
                break
            for error in errors - {0}:
                workload.found.append(Anomaly("group-refused", f"error {error} for {ALONE}"))
            await asyncio.sleep(REST_S)
        else:
            continue
        await asyncio.sleep(REST_S)


async def look(workload: Workload, connection: Connection, patience_s: float) -> None:
    """Check the committed offsets against the history, once the groups are loaded."""
    async with asyncio.timeout(patience_s):
        for group in GROUPS:
            while True:
                await group_wire.find_coordinator(connection, group)
                error, found = await group_wire.committed(connection, group, KEYS)
                if error not in TRY_AGAIN:
                    break
                await asyncio.sleep(REST_S)
            if error:
                workload.found.append(Anomaly("unreadable", f"offsets of {group}: error {error}"))
            for key, (offset, metadata) in found.items():
                workload.ledger.saw_committed(group, key, offset, metadata)
