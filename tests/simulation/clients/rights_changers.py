"""A client that takes and gives rights, and others beside it that read and write.

    rights changer    denies every user to read its topic, or to write to it, and takes that back

Every client of the simulator is User:ANONYMOUS, so the histories with it have an authorizer and
`allow.everyone.if.no.acl.found`: what has no ACL stays open to the others.

The judge stands here, since it needs no other knowledge than answers:

- a fetch that is sent after the answer to the denial is refused, until an answer says otherwise,
  also after kills and power cuts;
- a fetch that waited when the right was taken serves nothing that was written after that answer;
- a batch that is sent after the answer to a denial to write is refused, until then as well;
- after the answer that gives a right back, a fetch or a batch is not refused;
- of 250 ACLs that one request creates or deletes, there are always all or none.

An answer that does not come leaves the right in doubt: nothing is judged until the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from protocol.messages.create_acls import AclCreation, CreateAclsRequest
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsRequest,
)
from protocol.messages.describe_acls import DescribeAclsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.simulation.clients.batches import build_untimed
from tests.simulation.clients.caller import Caller
from tests.simulation.clients.wire import Disconnected, Wire
from tests.simulation.context import KAFKA_PORT, Context
from tests.simulation.plan import ClientPlan
from tests.simulation.world import TimedOut, Waiter

TOPIC, READ, WRITE, ALL, LITERAL, DENY, ALLOW, ANY = 2, 3, 4, 2, 3, 2, 3, 1  # Kafka's codes
MANY: Final = 250  # more than the broker changes in one turn
FETCH_VERSION: Final = 11  # names topics
PRODUCE_VERSION: Final = 9
DENIED: Final = 29
WAIT_MS: Final = 1_500
EXISTS: Final = 36


class RightsChanger:
    """One such client; see the module."""

    def __init__(self, context: Context, plan: ClientPlan) -> None:
        self.admin = Caller(context, plan)
        self.reader = self._plain(Caller(context, plan, suffix=" reader"))
        self.waiter = self._plain(Caller(context, plan, suffix=" waiter"))
        self.topic = plan.name.replace(" ", "-")
        self.end = 0  # of what was acknowledged
        self.may_write = True  # as far as answers say

    @staticmethod
    def _plain(caller: Caller) -> Caller:
        caller.is_msgpack = False
        wire = Wire(caller.world, caller.context.network, KAFKA_PORT, caller.name, caller.record)
        caller.wire = wire
        return caller

    async def run(self) -> None:
        """Take and give rights in turns; at the end they are given."""
        if not await self._begin():
            return
        for _ in self.admin.steps:
            if self.admin.chance(0.4):
                await self._deny_writes()
            self.may_write = self.may_write or await self._give(WRITE)
            waiting = await self._wait_at_the_end() if self.admin.chance(0.6) else None
            if await self._create(READ, DENY):
                await self._judge_denied()
                await self._write()
            await self._judge_waiting(waiting)
            if await self._give(READ):
                await self._judge_given()
            if self.admin.chance(0.3):
                await self._change_many()
            await self.admin.pause()
        for operation in (READ, WRITE):
            await self._give(operation)
        for caller in (self.admin, self.reader, self.waiter):
            caller.wire.close()

    async def _begin(self) -> bool:
        topics = [CreatableTopic(name=self.topic, num_partitions=1, replication_factor=1)]
        made = await self.admin.ask_until(
            CreateTopicsRequest(topics=topics),
            lambda answer: answer.topics[0].error_code in (0, EXISTS),
            self.topic,
        )
        return made and await self._create(ALL, ALLOW) and await self._write()

    # -- Rights -------------------------------------------------------------------------------

    def _rule(self, name: str, principal: str, operation: int, permission: int) -> AclCreation:
        return AclCreation(
            resource_type=TOPIC,
            resource_name=name,
            resource_pattern_type=LITERAL,
            principal=principal,
            host="*",
            operation=operation,
            permission_type=permission,
        )

    async def _create(self, operation: int, permission: int) -> bool:
        rule = self._rule(self.topic, "User:*", operation, permission)
        return await self.admin.ask_until(
            CreateAclsRequest(creations=[rule]),
            lambda answer: answer.results[0].error_code == 0,
            self.topic,
        )

    async def _deny_writes(self) -> None:
        self.may_write = False
        if await self._create(WRITE, DENY) and await self._write(is_denied=True):
            self._object("a batch after the denial is acknowledged")

    async def _give(self, operation: int) -> bool:
        one = DeleteAclsFilter(
            resource_type_filter=TOPIC,
            resource_name_filter=self.topic,
            pattern_type_filter=LITERAL,
            principal_filter="User:*",
            host_filter="*",
            operation=operation,
            permission_type=DENY,
        )
        return await self.admin.ask_until(
            DeleteAclsRequest(filters=[one]),
            lambda answer: answer.filter_results[0].error_code == 0,
            self.topic,
        )

    async def _change_many(self) -> None:
        """Create or delete many ACLs, whatever comes between, and count them."""
        user = f"User:{self.topic}"
        count = MANY if self.admin.chance(0.5) else 0
        names = [f"{self.topic}.{number}" for number in range(MANY)]
        creation = CreateAclsRequest(
            creations=[self._rule(name, user, READ, ALLOW) for name in names]
        )
        deletion = DeleteAclsRequest(filters=[DeleteAclsFilter(**_all_of(user))])
        answer = await self.admin.ask(creation if count else deletion, what=self.topic)
        codes = {0} if answer is None else {one.error_code for one in _results(answer)}
        found = await self._count(user)
        if found is None:
            return
        if found not in (0, MANY):
            self._object(f"{found} of {MANY} ACLs of one request are there")
        elif answer is not None and codes == {0} and found != count:
            self._object(f"{found} ACLs are there after the answer that there are {count}")

    async def _count(self, user: str) -> int | None:
        answer = await self.admin.ask(DescribeAclsRequest(**_all_of(user)))
        if answer is None or answer.error_code:
            return None
        return sum(len(resource.acls) for resource in answer.resources)

    # -- Use ----------------------------------------------------------------------------------

    async def _write(self, *, is_denied: bool = False) -> bool:
        part = PartitionProduceData(index=0, records=build_untimed([b"k:v"]))
        body = ProduceRequest(
            acks=-1,
            timeout_ms=5_000,
            topic_data=[TopicProduceData(name=self.topic, partition_data=[part])],
        )
        self.is_end_known = False  # a write without an answer, or late, may be in the log
        answer = await self.reader.ask(body, PRODUCE_VERSION, what=self.topic)
        if answer is None:
            return False
        (result,) = answer.responses[0].partition_responses
        if result.error_code == DENIED and self.may_write:
            self._object("a batch is refused that no ACL denies")
        if is_denied and result.error_code not in (0, DENIED):
            self._object(f"a batch after the denial: error {result.error_code}")
        if result.error_code == 0:
            self.end = max(self.end, result.base_offset + 1)
            self.is_end_known = True
        return bool(result.error_code == 0)

    def _fetch(self, offset: int, wait_ms: int) -> FetchRequest:
        part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=100_000)
        return FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            topics=[FetchTopic(topic=self.topic, partitions=[part])],
        )

    async def _wait_at_the_end(self) -> Waiter | None:
        """Send a fetch that waits for records behind all that exist."""
        if not self.is_end_known:
            return None
        try:
            await self.waiter.wire.open()
        except (Disconnected, TimedOut):
            self.waiter.wire.close()
            return None
        body = self._fetch(self.end, WAIT_MS)
        sent = self.waiter.wire.send(body, FETCH_VERSION, self.topic, wait_ms=WAIT_MS)
        await self.admin.rest(20)
        return sent

    # -- Judging ------------------------------------------------------------------------------

    async def _read(self) -> tuple[int, int] | None:
        """Return the error and the bytes of a fetch from the start; None without an answer."""
        answer = await self.reader.ask(self._fetch(0, 0), FETCH_VERSION, what=self.topic)
        if answer is None or not answer.responses:
            return None
        (part,) = answer.responses[0].partitions
        return part.error_code, len(part.records or b"")

    async def _judge_denied(self) -> None:
        found = await self._read()
        if found is not None and (found[0] != DENIED or found[1]):
            self._object(f"a fetch after the denial: error {found[0]}, {found[1]} bytes")

    async def _judge_given(self) -> None:
        found = await self._read()
        if found is not None and found[0] == DENIED:
            self._object("a fetch is refused after the right was given back")

    async def _judge_waiting(self, waiting: Waiter | None) -> None:
        """The fetch waited behind `end`: all that it could serve was written after the denial."""
        if waiting is None:
            return
        try:
            answer = await self.admin.world.wait(waiting, WAIT_MS * 20)
        except (Disconnected, TimedOut):
            self.waiter.wire.close()
            return
        for part in answer.responses[0].partitions if answer.responses else ():
            if part.records:
                self._object("a fetch that waited serves what was written after the denial")

    def _object(self, what: str) -> None:
        self.admin.record.fail(self.admin.name, what)


def _all_of(user: str) -> dict[str, Any]:
    """Return the fields of a filter for all ACLs of a user for topics."""
    return {
        "resource_type_filter": TOPIC,
        "resource_name_filter": None,
        "pattern_type_filter": ANY,
        "principal_filter": user,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
    }


def _results(answer: Any) -> Sequence[Any]:
    """Return the results of a message, or, in msgpack, of what has its fields."""
    found: Sequence[Any] = answer.results if hasattr(answer, "results") else answer.filter_results
    return found


async def run_rights_changer(context: Context, plan: ClientPlan) -> None:
    """Take and give rights to read and to write."""
    await RightsChanger(context, plan).run()


KINDS: Final[dict[str, Callable[[Context, ClientPlan], Coroutine[Any, Any, None]]]] = {
    "rights changer": run_rights_changer,
}
