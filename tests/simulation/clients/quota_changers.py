"""A client that sets and removes a quota of its own while it produces.

    quota changer    sets a rate of bytes for its client id, produces, removes the rate, in turns

The judge stands here, since it needs no other knowledge than answers. What one connection may send
within a quota is measured over seconds, so it only says what holds whatever the windows are:

- after the answer that set the quota, a burst far above it is throttled in the life in which it
  was sent, also after kills and power cuts: then the sums begin anew, the quota stays;
- after the answer that removed it, no request is throttled;
- throttled or not, a batch is answered, and a throttled one as any other: it is in the log.

An answer that does not come leaves the quota in doubt: nothing is judged until the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlteredQuotaEntity,
    QuotaAlteration,
    QuotaOperation,
)
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.simulation.clients.batches import build_untimed
from tests.simulation.clients.caller import Caller
from tests.simulation.clients.wire import Disconnected, Wire
from tests.simulation.context import KAFKA_PORT, Context
from tests.simulation.plan import ClientPlan
from tests.simulation.world import TimedOut

RATE_KEY: Final = "producer_byte_rate"
RATE: Final = 1_000.0  # bytes a second
BATCH_BYTES: Final = 1_500
BURST: Final = 12  # batches: more than the rate allows in all of Kafka's eleven windows
BURST_MS_MAX: Final = 1_000
PRODUCE_VERSION: Final = 9
EXISTS: Final = 36
ANSWER_MS: Final = 30_000


class QuotaChanger:
    """One such client; see the module."""

    def __init__(self, context: Context, plan: ClientPlan) -> None:
        self.context = context
        self.admin = Caller(context, plan)
        self.topic = plan.name.replace(" ", "-")
        name = plan.name + " producer"
        self.wire = Wire(context.world, context.network, KAFKA_PORT, name, context.record)
        self.client_id = name
        self.wire._client_id = name.encode()

    async def run(self) -> None:
        """Set and remove the quota in turns; at the end it is removed."""
        topics = [CreatableTopic(name=self.topic, num_partitions=1, replication_factor=1)]
        made = await self.admin.ask_until(
            CreateTopicsRequest(topics=topics),
            lambda answer: answer.topics[0].error_code in (0, EXISTS),
            self.topic,
        )
        for _ in self.admin.steps if made else ():
            if await self._alter(remove=False):
                await self._judge_set()
            self.wire.close()  # it stays muted for what it has sent
            if await self._alter(remove=True):
                await self._judge_removed()
            self.wire.close()
            await self.admin.pause()
        await self._alter(remove=True)
        self.admin.wire.close()

    async def _alter(self, *, remove: bool) -> bool:
        entity = [AlteredQuotaEntity(entity_type="client-id", entity_name=self.client_id)]
        ops = [QuotaOperation(key=RATE_KEY, value=RATE, remove=remove)]
        return await self.admin.ask_until(
            AlterClientQuotasRequest(entries=[QuotaAlteration(entity=entity, ops=ops)]),
            lambda answer: answer.entries[0].error_code == 0,
            self.topic,
        )

    async def _produce(self) -> int | None:
        """Send a batch; return for how long it throttles, None without an answer."""
        part = PartitionProduceData(index=0, records=build_untimed([b"k:" + b"q" * BATCH_BYTES]))
        body = ProduceRequest(
            acks=1,
            timeout_ms=5_000,
            topic_data=[TopicProduceData(name=self.topic, partition_data=[part])],
        )
        try:
            await self.wire.open()
            answer = await self.wire.call(body, PRODUCE_VERSION, ANSWER_MS, self.topic)
        except Disconnected:
            return None
        except TimedOut:
            self.wire.close()
            return None
        return int(answer.throttle_time_ms)

    async def _judge_set(self) -> None:
        """Send a burst, over connections of which the throttled one is left."""
        life, world = self.context.life, self.admin.world
        began_ns = world.now_ns
        for _ in range(BURST):
            throttled_ms = await self._produce()
            if throttled_ms is None or throttled_ms > 0:
                return
        is_quick = world.now_ns - began_ns < BURST_MS_MAX * 1_000_000
        if is_quick and life is not None and life is self.context.life:
            self._object(f"{BURST} batches of {BATCH_BYTES} bytes are not throttled at {RATE} a s")

    async def _judge_removed(self) -> None:
        throttled_ms = await self._produce()
        if throttled_ms:
            self._object(f"a batch is throttled for {throttled_ms} ms without a quota")

    def _object(self, what: str) -> None:
        self.admin.record.fail(self.admin.name, what)


async def run_quota_changer(context: Context, plan: ClientPlan) -> None:
    """Set and remove a quota."""
    await QuotaChanger(context, plan).run()


KINDS: Final[dict[str, Callable[[Context, ClientPlan], Coroutine[Any, Any, None]]]] = {
    "quota changer": run_quota_changer,
}
