"""The end of all transactions, when faults are over: time ends them, or a new producer does.

Then a reader of committed records reads all ledgers, up to their last records: nothing is open any
more. It reads the offsets of the groups, too, of which none is pending.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from protocol.messages.fetch import FetchRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.simulation.clients.client import Client
from tests.simulation.clients.committed_reads import committed_in
from tests.simulation.clients.groups import GROUPS
from tests.simulation.clients.read_back import ReadLog, _Reader
from tests.simulation.clients.readings import Reading
from tests.simulation.group_events import Fetched
from tests.simulation.judges import quiet
from tests.simulation.plan import ClientPlan
from tests.support.history_checker import Key

if TYPE_CHECKING:
    from tests.simulation.context import Context

# Faults after which a decision may not be written, and is left to the next start.
UNSOUND: Final = frozenset({quiet.DISK, quiet.FULL, quiet.FLIP})
TRIES: Final = 60
LOOK_MS: Final = 500
LATE_MS: Final = 20_000  # beyond all timeouts, and the looks for them
INIT_VERSION: Final = 5
OFFSETS_VERSION: Final = 9


async def end_transactions(context: Context) -> list[str]:
    """Wait until time has ended all transactions, then begin anew with each id."""
    if not context.record.transactions:
        return []
    ender = _Ender(context, ClientPlan("ender", "ender", 0))
    await ender.run()
    return ender.found


async def read_committed(context: Context) -> dict[Key, dict[bytes, int]]:
    """Return the committed values of all ledgers, with offsets; read the offsets of groups."""
    reader = _CommittedReader(context, ClientPlan("committed reader", "reader", 0))
    await reader.run()
    return reader.seen


class _Ender(Client):
    def __init__(self, context: Context, plan: ClientPlan) -> None:
        super().__init__(context, plan)
        self.found: list[str] = []

    async def live(self) -> None:
        is_timely = all(fault.kind != "clock jump" for fault in self.context.plan.faults)
        until_ns = self.world.now_ns + LATE_MS * 1_000_000
        while is_timely and (left := self._open()):
            if self.world.now_ns > until_ns:
                self.found.append(f"{left} are open long after their timeouts")
                break
            await self.world.sleep_ms(LOOK_MS)
        for name in sorted({one.transactional_id for one in self.record.instances}):
            await self._renew(name)
        if not self.context.injected & UNSOUND:
            await self._until_let_go()

    async def _until_let_go(self) -> None:
        """Wait until no log keeps the markers that a crash has left: all decisions are durable."""
        until_ns = self.world.now_ns + LATE_MS * 1_000_000
        while kept := self._keeping():
            if self.world.now_ns > until_ns:
                self.found.append(f"{kept} keep their recovery points below markers of a crash")
                break
            await self.world.sleep_ms(LOOK_MS)

    def _keeping(self) -> list[str]:
        broker = self.context.broker
        partitions = [] if broker is None else broker._assembly.services.partitions.all()
        return [str(one.log) for one in partitions if one.log.keeps_replayed]

    def _open(self) -> list[str]:
        """Return the ids whose transactions are not ended."""
        broker = self.context.broker
        if broker is None or not broker._assembly.services.has_transactions:
            return []
        by_id = broker._assembly.services.transactions.store.by_id
        return [
            name
            for name, one in by_id.items()
            if not one.state.is_idle and name not in self.context.damaged
        ]

    async def _renew(self, name: str) -> None:
        """Fence the producers of an id: what they left open is aborted."""
        code = None
        for _ in range(TRIES):
            body = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1_000)
            answer = await self.ask(body, INIT_VERSION, name)
            code = None if answer is None else answer.error_code
            if code == 0:
                return
            await self.world.sleep_ms(LOOK_MS)
        if not any(one.startswith("__") for one in self.context.damaged):
            self.found.append(f"{name} takes no producer: {code}")


class _CommittedReader(_Reader):
    def __init__(self, context: Context, plan: ClientPlan) -> None:
        super().__init__(context, plan)
        self.seen: dict[Key, dict[bytes, int]] = {}

    async def live(self) -> None:
        if any(one.startswith("__transaction_state") for one in self.context.damaged):
            return  # what is open may stay so
        for topic in self.topics.values():
            if topic.is_ledger and topic.topic_id != bytes(16) and await self.is_there(topic):
                for number in range(topic.partition_count):
                    if f"{topic.name}-{number}" in self.context.damaged:
                        continue
                    reading = Reading(topic, number, topic.key(number), topic.topic_id)
                    self.seen[reading.key] = {}
                    await self._read(reading)
                await self._offsets(topic.name, topic.partition_count)

    def _fetch(self, reading: Reading) -> FetchRequest:
        body = super()._fetch(reading)
        body.isolation_level = 1
        return body

    def _take(self, reading: Reading, part: Any, log: ReadLog, times: tuple[int, int]) -> bool:
        aborted = part.aborted_transactions or ()
        found = committed_in(part.records, aborted, reading.position)
        self.seen[reading.key].update((value, offset) for offset, value in found)
        return super()._take(reading, part, log, times)

    async def _offsets(self, topic: str, count: int) -> None:
        asked = OffsetFetchRequestTopics(name=topic, partition_indexes=list(range(count)))
        body = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=one, topics=[asked]) for one in GROUPS],
            require_stable=True,
        )
        for _ in range(TRIES):
            began_ns = self.world.now_ns
            answer = await self.ask(body, OFFSETS_VERSION, topic)
            if answer is not None and not any(one.error_code for one in answer.groups):
                break
            await self.world.sleep_ms(LOOK_MS)
        else:
            return  # the groups' own judge objects
        for group in answer.groups:
            for part in group.topics[0].partitions:
                if part.error_code:
                    place = f"{group.group_id} of {topic}-{part.partition_index}"
                    self.record.fail(self.name, f"{place}: code {part.error_code}")
                    continue
                self.record.group_events.append(
                    Fetched(
                        who=self.name,
                        group=group.group_id,
                        began_ns=began_ns,
                        ended_ns=self.world.now_ns,
                        code=0,
                        topic=topic,
                        partition=part.partition_index,
                        offset=part.committed_offset,
                        metadata=part.metadata or "",
                    )
                )
