"""Stories of connections and of the bytes of requests.

impatient crowd     asks much at once, and half of it is gone before the answers: the rest is
                    answered
changing client     sends requests on one connection whose frames differ in one field each: each
                    is answered for what it asks
full house          connects while the budget of requests is full
parting pusher      pushes its metrics for the last time behind a fetch that waits: both are
                    answered
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.push_telemetry import PushTelemetryRequest
from protocol.records import Record
from protocol.records import build as build_batch
from tests.simulation.clients.log_stories import SMALL_SEGMENTS
from tests.simulation.clients.telling import Teller, produced, tells

CROWD: Final = 8
EACH: Final = (2, 5, 12)
METADATA: Final = 9
IDS: Final = (b"client-a", b"client-b", b"client-c", b"c", b"")  # most are of one size
VERSIONS: Final = (7, 9, 11, 12)
FETCHES: Final = (8, 11, 12)
TURNS: Final = 14
WAITS_MS: Final = 20_000


async def impatient_crowd(teller: Teller) -> None:
    """Ask a lot over many connections; some end at once, in between the others."""
    body = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    waiters = []
    count = teller.rng.choice(EACH)
    who = [f"of the crowd {number}" for number in range(CROWD)]
    leaving = []
    for one in who:
        caller = teller.caller(one)
        sent = [await teller.sent(body, METADATA, who=one) for _ in range(count)]
        if teller.rng.random() < 0.5:
            leaving.append(caller)
        else:
            waiters += sent
    await teller.rest(teller.rng.choice((0, 0.02, 0.1, 0.5, 2)))
    for caller in leaving:
        if teller.rng.random() < 0.7:
            caller.wire.reset()
        else:
            caller.wire.close()
    for waiter in waiters:
        await teller.answer(waiter)


class _Changing:
    """A client of two topics with names of one size, and what it has written to each."""

    def __init__(self, teller: Teller) -> None:
        self.teller = teller
        self.names = [f"{teller.name}-{end}" for end in "xy"]
        self.written: dict[tuple[str, int], dict[int, bytes]] = {}
        self.number = 0

    async def write(self, name: str, partition: int, acks: int, version: int) -> None:
        """Write one record of one size, and look at the place that the answer names."""
        self.number += 1
        value = b"%04d" % self.number
        batch = bytes(build_batch([Record(0, 1_700_000_000_000, b"k", value)]))
        body = produced(name, batch, acks=acks, partition=partition)
        answer = await self.teller.ask(body, version)
        (topic,) = answer.responses
        (part,) = topic.partition_responses
        where = topic.name, part.index
        self.teller.expect(where == (name, partition), f"{where} is answered, not {name}")
        self.teller.needs(part.error_code == 0)
        self.written.setdefault((name, partition), {})[part.base_offset] = value

    async def read(self, name: str, partition: int, version: int) -> None:
        """Fetch from a place where something was written; it must be there, and nothing else."""
        known = self.written.get((name, partition))
        if not known:
            return
        offset = self.teller.rng.choice(sorted(known))
        asked = FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20
        )
        body = FetchRequest(
            max_wait_ms=self.teller.rng.choice((0, 20)),
            min_bytes=1,
            topics=[FetchTopic(topic=name, partitions=[asked])],
        )
        answer = await self.teller.ask(body, version)
        self.teller.needs(answer.error_code == 0)
        (topic,) = answer.responses
        (part,) = topic.partitions
        where = topic.topic, part.partition_index
        self.teller.expect(where == (name, partition), f"{where} is answered, not {name}")
        if part.error_code == 0 and part.records:
            data = bytes(part.records)
            self.teller.expect(known[offset] in data, f"{offset} of {where} has another value")


async def changing_client(teller: Teller) -> None:
    """Write and read in turns; one or two fields of each request are other than before."""
    caller = teller.caller("one")
    changing = _Changing(teller)
    for name in changing.names:
        await teller.create(name, 2, retention_ms="-1")
    life, rng = teller.life, teller.rng
    asks: dict[str, Any] = {"name": changing.names[0], "partition": 0}
    acks, produces, fetches = -1, rng.choice(VERSIONS), rng.choice(FETCHES)
    for _ in range(TURNS):
        teller.needs(teller.life == life)
        if rng.random() < 0.4:
            asks["name"] = rng.choice(changing.names)
        if rng.random() < 0.3:
            asks["partition"] = rng.randrange(2)
        if rng.random() < 0.2:
            acks = rng.choice((-1, 1))
        if rng.random() < 0.2:
            produces, fetches = rng.choice(VERSIONS), rng.choice(FETCHES)
        if rng.random() < 0.3:
            caller.wire._client_id = rng.choice(IDS)
        if rng.random() < 0.6:
            await changing.write(**asks, acks=acks, version=produces)
        else:
            await changing.read(**asks, version=fetches)


async def full_house(teller: Teller) -> None:
    """Begin frames on many connections until the budget is full, and more behind these."""
    config = teller.context.loaded.config
    teller.needs(config.queued_max_request_bytes < 1 << 20)
    name = f"{teller.name}-topic"
    await teller.create(name, 1, **SMALL_SEGMENTS)
    value = b"h" * (config.socket_request_max_bytes // 2)
    batch = bytes(build_batch([Record(0, 1_700_000_000_000, b"k", value)]))
    body = replace(produced(name, batch), timeout_ms=2_000)
    waiters = []
    for number in range(CROWD):
        who = f"of the crowd {number}"
        waiters += [await teller.sent(body, 9, who=who) for _ in range(2)]
    for waiter in waiters:
        await teller.answer(waiter)


async def parting_pusher(teller: Teller) -> None:
    """Push metrics for the last time behind a fetch that waits, as librdkafka does."""
    config = teller.context.loaded.config
    teller.needs(config.barnabas_requests_per_connection_max > 1)
    # Else what is sent behind the fetch is not begun before it is answered.
    teller.needs("barnabas_answer_bytes_max" not in teller.context.plan.tiny)
    name = f"{teller.name}-topic"
    await teller.create(name, 1, **SMALL_SEGMENTS)
    told = await teller.ask(GetTelemetrySubscriptionsRequest(), 0)
    teller.needs(told.error_code == 0)
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    fetch = FetchRequest(
        max_wait_ms=WAITS_MS, min_bytes=1, topics=[FetchTopic(topic=name, partitions=[part])]
    )
    push = PushTelemetryRequest(
        client_instance_id=told.client_instance_id,
        subscription_id=told.subscription_id,
        terminating=True,
    )
    life, began_ms = teller.life, teller.now_ms
    waiting, pushed = await teller.sent(fetch, 12), await teller.sent(push, 0)
    await teller.answer(waiting)
    code = (await teller.answer(pushed)).error_code
    teller.needs(code == 0 and teller.life == life)
    waited_ms = teller.now_ms - began_ms
    teller.expect(waited_ms < WAITS_MS, f"the last push was behind a fetch for {waited_ms:.0f} ms")


KINDS: Final = {
    "parting pusher": tells(parting_pusher),
    "impatient crowd": tells(impatient_crowd),
    "changing client": tells(changing_client),
    "full house": tells(full_house),
}
