"""Clients that ask where records are, and one that deletes them.

`Lookups` asks with ListOffsets for the start, the end, the newest time, and the first record that
is not older than a time, often that of a record; and with OffsetForLeaderEpoch for the end of an
epoch. Starts never go back, nor do ends; the offset of a time is kept for a judge who knows the
whole log.

`Trimmer` deletes records of topics that may lose their beginning. The start that is answered is
durable, so no later start may be lower.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.simulation.clients.client import STORAGE, TIMED_OUT, UNKNOWN_TOPIC, Client
from tests.simulation.clients.topics import CUT, Topic
from tests.simulation.record import Lookup
from tests.simulation.transaction_events import STABLE
from tests.support.history_checker import NEVER, Key
from tests.support.log_ledger import HIGH_WATERMARK, START

if TYPE_CHECKING:
    from tests.simulation.context import Context
    from tests.simulation.plan import ClientPlan

LATEST, EARLIEST, NEWEST, LOCAL, TIERED, PENDING = -1, -2, -3, -4, -5, -6
SINCE: Final = {LATEST: 1, EARLIEST: 1, NEWEST: 7, LOCAL: 8, TIERED: 9, PENDING: 11}
OUT_OF_RANGE, CORRUPT, POLICY, NOT_AVAILABLE = 1, 2, 44, 78
EXPECTED: Final = {STORAGE, TIMED_OUT, CORRUPT}  # isolation judges where these are right
ISOLATION: Final = 2  # the first version with isolation levels


class Asker(Client):
    """Asks about one partition of a topic that keeps its name."""

    is_one_process = True

    async def place(self) -> tuple[Topic, int] | None:
        """Choose a partition; None after a topic that may be made anew: these go by name."""
        topic = await self.topic()
        if topic.may_be_gone:
            return None
        return topic, self.chance.randrange(topic.partition_count)

    def failed(self, api: str, topic: Topic, partition: int, code: int, *allowed: int) -> bool:
        """Whether the answer has an error code; notes it."""
        if code == 0:
            return False
        self.refused(api, topic, partition, code)
        if code not in EXPECTED and code not in allowed:
            what = "is unknown now" if code == UNKNOWN_TOPIC else f"code {code}"
            self.record.fail(self.name, f"{api} of {topic.name}-{partition}: {what}")
        return True


class Lookups(Asker):
    """See the module."""

    def __init__(self, context: Context, plan: ClientPlan) -> None:
        super().__init__(context, plan)
        self.times: defaultdict[Key, list[int]] = defaultdict(list)  # of records, as was told

    async def live(self) -> None:
        """Ask."""
        for _ in range(self.steps):
            place = await self.place()
            if place is None:
                continue
            if self.chance.random() < 0.25:
                await self.ask_epoch(*place)
            else:
                await self.ask_offset(*place)
            if self.chance.random() < 0.4:
                await self.pause()

    async def ask_offset(self, topic: Topic, partition: int) -> None:
        """Ask for a place or a time."""
        version = self.chance.choice(range(1, 12))
        places = [place for place, since in SINCE.items() if version >= since]
        time_ms = self.now_ms - self.chance.choice((0, 1, 10, 100, 1_000, 5_000))
        known_ms = self.chance.choice(self.times[topic.key(partition)] or (0, 1 << 62))
        asked = self.chance.choice((*places, time_ms, time_ms, known_ms, known_ms))
        body = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=self.chance.choice((0, 1)),
            topics=[
                ListOffsetsTopic(
                    name=topic.name,
                    partitions=[ListOffsetsPartition(partition_index=partition, timestamp=asked)],
                )
            ],
            timeout_ms=self.chance.choice((30_000, 5_000)),
        )
        began_ns = self.world.now_ns
        answer = await self.ask(body, version, f"{topic.name}-{partition} {asked}")
        if answer is None:
            return
        part = answer.topics[0].partitions[0]
        if not self.failed("list offsets", topic, partition, part.error_code, NOT_AVAILABLE):
            times = (began_ns, self.world.now_ns)
            is_committed = version >= ISOLATION and body.isolation_level == 1
            self.take(topic, partition, asked, part, times, is_committed=is_committed)

    def take(
        self,
        topic: Topic,
        partition: int,
        asked: int,
        part: Any,
        times: tuple[int, int],
        *,
        is_committed: bool,
    ) -> None:
        """Note the answer for a place or a time; of what is committed, if that was asked for."""
        key, offset = topic.key(partition), part.offset
        if asked in (EARLIEST, LOCAL):
            self.record.saw_mark(key, START, offset, times)
        elif asked == LATEST:
            name = STABLE if is_committed else HIGH_WATERMARK
            self.record.saw_mark(key, name, offset, times)
        elif asked in (TIERED, PENDING):
            if offset != -1:
                self.record.fail(self.name, f"{key}: {asked} is at {offset}")
        else:
            self.record.reached(key, HIGH_WATERMARK, offset + 1, times[1])
        if part.timestamp >= 0:
            self.times[key].append(part.timestamp)
        hides = is_committed and topic.is_ledger  # what lies behind an open transaction
        if asked >= 0 and not (hides and offset < 0):
            self.record.lookups.append(Lookup(key, asked, offset, part.timestamp, *times))
            if offset >= 0 and part.timestamp < asked:
                self.record.fail(self.name, f"{key}: {part.timestamp} is older than {asked}")

    async def ask_epoch(self, topic: Topic, partition: int) -> None:
        """Ask for the end of an epoch."""
        epoch = self.chance.choice((0, 1, 2, 5, 1_000))
        asked = OffsetForLeaderPartition(partition=partition, leader_epoch=epoch)
        body = OffsetForLeaderEpochRequest(
            replica_id=-1, topics=[OffsetForLeaderTopic(topic=topic.name, partitions=[asked])]
        )
        answer = await self.ask(body, self.chance.choice((2, 3, 4)), f"{topic.name} {epoch}")
        if answer is None:
            return
        part = answer.topics[0].partitions[0]
        if self.failed("end of epoch", topic, partition, part.error_code):
            return
        if part.leader_epoch > epoch or (part.leader_epoch >= 0) != (part.end_offset >= 0):
            told = f"epoch {part.leader_epoch}, end {part.end_offset}"
            self.record.fail(self.name, f"{topic.name}-{partition}: asked {epoch}, told {told}")


class Trimmer(Asker):
    """See the module."""

    async def live(self) -> None:
        """Delete records now and then."""
        for _ in range(self.steps):
            place = await self.place()
            if place is not None and self.may_cut(place[0]):
                await self.delete(*place)
            await self.pause()

    def may_cut(self, topic: Topic) -> bool:
        """Whether nobody expects more of a topic than what requests leave."""
        return topic.name in CUT or (topic.is_trimmed and not topic.is_ruled)

    async def delete(self, topic: Topic, partition: int) -> None:
        """Delete some of the records, all, or more than there are."""
        key = topic.key(partition)
        start = max(self.record.last_mark(key, START), 0)
        end = max(self.record.last_mark(key, HIGH_WATERMARK), start)
        offset = self.chance.choice((self.chance.randint(start, end), start, -1, end + 1_000_000))
        asked = DeleteRecordsPartition(partition_index=partition, offset=offset)
        body = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=topic.name, partitions=[asked])],
            timeout_ms=self.chance.choice((1_000, 10_000)),
        )
        began_ns = self.world.now_ns
        trims = self.record.trims.setdefault(key, [])
        number = len(trims)
        trims.append(offset if offset >= 0 else NEVER)
        answer = await self.ask(
            body, self.chance.choice((0, 1, 2)), f"{topic.name}-{partition} to {offset}"
        )
        if answer is None:
            return
        part = answer.topics[0].partitions[0]
        if not part.error_code:
            trims[number] = max(part.low_watermark, offset)
        elif part.error_code == OUT_OF_RANGE:
            trims[number] = 0
        is_compacted = topic.is_compacted or topic.is_young
        allowed = [OUT_OF_RANGE, *([POLICY] if is_compacted else [])]
        if self.failed("delete records", topic, partition, part.error_code, *allowed):
            return
        times = (began_ns, self.world.now_ns)
        self.record.saw_mark(key, START, part.low_watermark, times)
        if offset > end + 100_000:
            self.record.fail(self.name, f"{key}: deleted up to {offset}, which is not there")
        elif part.low_watermark < offset:
            self.record.fail(
                self.name, f"{key}: deleted up to {offset}, start {part.low_watermark}"
            )
