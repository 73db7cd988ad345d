"""What all producers share: making batches, sending them, and reading the answers.

A batch has unique values that begin with their record key, for compacted topics. `SURE` codes say
that nothing was written; any other code, a time-out and a lost connection say nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.simulation.clients import batches
from tests.simulation.clients.client import STORAGE, TIMED_OUT, Client
from tests.simulation.clients.topics import FAR_MS, Topic
from tests.simulation.clients.wire import Disconnected
from tests.simulation.world import TimedOut, Waiter
from tests.support.history_checker import Key, Send
from tests.support.log_ledger import HIGH_WATERMARK, START

BY_ID: Final = 13
VERSIONS: Final = range(3, BY_ID + 1)
ZSTD_SINCE: Final = 7
IN_FLIGHT_MAX: Final = 5
RECORD_ERRORS_MAX: Final = 100
UNKNOWN_TOPIC, TOO_LARGE, LIST_TOO_LARGE, INVALID_TIMESTAMP, UNKNOWN_ID = 3, 10, 18, 32, 100
# Nothing was written. A topic that was deleted meanwhile may have had the records.
SURE: Final = {2, TOO_LARGE, LIST_TOO_LARGE, 21, INVALID_TIMESTAMP, 42, 76, 87}
EXPECTED: Final = {TIMED_OUT, LIST_TOO_LARGE, INVALID_TIMESTAMP, STORAGE}


@dataclass(slots=True, eq=False)
class Sent:
    """One batch that was sent: its place, its values, and what a bad one must be answered with."""

    topic: Topic
    partition: int
    values: list[bytes]
    records: Any
    key: Key = ("", 0)
    topic_id: bytes = b""
    began_ns: int = 0
    asked_ns: int = 0  # when it was last sent
    wanted: frozenset[int] = frozenset()  # codes of a bad batch
    acks: int = -1
    is_ageless: bool = False  # retention by time must keep it

    def __post_init__(self) -> None:
        self.key = self.topic.key(self.partition)
        self.topic_id = self.topic.topic_id

    def sends(self, base: int | None) -> list[Send]:
        """Return the records for the history."""
        return [
            Send(self.key, value, None if base is None else base + number)
            for number, value in enumerate(self.values)
        ]


@dataclass(slots=True, eq=False)
class InFlight:
    """A request on its way, with a batch for each of some partitions."""

    batches: list[Sent]
    waiter: Waiter
    process: int
    version: int
    answer: Any = field(default=None)


class Producer(Client):
    """See the module."""

    number = 0
    age_ms = 0  # of its records
    timeouts_ms: tuple[int, ...] = (30_000, 30_000, 2_000, 50)

    # -- Making -------------------------------------------------------------------------------

    def values(self, topic: Topic) -> list[bytes]:
        """Return unique values for a batch; each carries its record key before the colon."""
        chance, values = self.chance, []
        for _ in range(chance.choice((1, 1, 1, 2, 3, 7))):
            self.number += 1
            if topic.keeps_tombstones and chance.random() < 0.3:
                values.append(b"t%s.%d:" % (self.name.encode(), self.number))
                continue
            padding = b"x" * chance.choice((0, 0, 5, 40, 120))
            values.append(
                b"k%d:%s.%d%s" % (chance.randrange(5), self.name.encode(), self.number, padding)
            )
        return values

    def make(
        self, topic: Topic, version: int, partition: int | None = None, **producer: int
    ) -> Sent:
        """Return a new batch for a partition of a topic."""
        if partition is None:
            partition = self.chance.randrange(topic.partition_count)
        values = self.values(topic)
        if topic.is_timed and not producer and self.chance.random() < 0.3:
            return Sent(topic, partition, values, batches.build_untimed(values))
        codec = self.chance.choice((0, 0, 0, 1, 2, 3, 4 if version >= ZSTD_SINCE else 0))
        stamp_ms, is_ageless = self.now_ms - self.age_ms, False
        if topic.is_ageless and self.chance.random() < 0.4:
            stamp_ms, is_ageless = stamp_ms + FAR_MS, True
        records = batches.build(self.chance, values, stamp_ms, codec, **producer)
        return Sent(topic, partition, values, records, is_ageless=is_ageless)

    def version_for(self, topics: list[Topic]) -> int:
        """Choose a version; a topic that may be made anew is named by its id."""
        version = self.chance.choice(VERSIONS)
        return BY_ID if any(topic.may_be_gone for topic in topics) else version

    def send(self, group: list[Sent], acks: int, version: int) -> InFlight:
        """Send batches in one request."""
        topics: dict[tuple[str, bytes], TopicProduceData] = {}
        ordered: dict[tuple[str, bytes], list[Sent]] = {}
        for sent in group:
            sent.began_ns = sent.asked_ns = self.world.now_ns
            sent.acks = acks
            place = (sent.topic.name, sent.topic_id)
            named = topics.setdefault(place, TopicProduceData(name=place[0], topic_id=place[1]))
            named.partition_data.append(
                PartitionProduceData(index=sent.partition, records=sent.records)
            )
            ordered.setdefault(place, []).append(sent)
        timeout_ms = self.chance.choice(self.timeouts_ms)
        body = ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=list(topics.values()))
        what = " ".join(f"{s.topic.name}-{s.partition}*{len(s.values)}" for s in group)
        waiter = self.wire.send(body, version, f"acks={acks} {what}")
        if acks == 0 and any(sent.wanted for sent in group):
            self.wire.must_end()
        batches_sent = [sent for place in ordered for sent in ordered[place]]
        return InFlight(batches_sent, waiter, self.process, version)

    # -- Settling -----------------------------------------------------------------------------

    async def answers(self, flight: InFlight) -> list[Any]:
        """Return the answer for each batch of a request, in its order.

        Raises Disconnected, also if the answer takes too long or does not fit the request.
        """
        try:
            answer = await self.world.wait(flight.waiter, 90_000)
        except TimedOut:
            self.note("has waited long enough")
            self.wire.close()
            raise Disconnected("too slow") from None
        if answer is None:
            return []
        found = [part for topic in answer.responses for part in topic.partition_responses]
        if [part.index for part in found] != [sent.partition for sent in flight.batches]:
            self.record.fail(self.name, f"an answer to other partitions: {found}")
            self.wire.reset()
            raise Disconnected("nonsense")
        for sent, part in zip(flight.batches, found, strict=True):
            self.look_at(sent, part, flight)
        return found

    def look_at(self, sent: Sent, part: Any, flight: InFlight) -> None:
        """Note what is wrong by itself in the answer for a batch, which came some time ago."""
        code, where = part.error_code, f"{sent.topic.name}-{sent.partition}"
        if code:
            came_ns = flight.waiter.set_ns
            self.refused("produce", sent.topic, sent.partition, code, came_ns, sent.asked_ns)
        if len(getattr(part, "record_errors", ())) > RECORD_ERRORS_MAX:
            self.record.fail(self.name, f"{where}: {len(part.record_errors)} records are named")
        if sent.wanted:
            gone = (UNKNOWN_TOPIC, UNKNOWN_ID) if sent.topic.may_be_gone else ()
            # As in Kafka, the size of a batch is looked at before its records and its producer.
            large = (TOO_LARGE,) if sent.topic.is_limited else ()
            if code not in (*sent.wanted, TIMED_OUT, STORAGE, *gone, *large):
                wanted = sorted(sent.wanted)
                self.record.fail(self.name, f"a bad batch to {where}: {code}, not {wanted}")
            return
        if code == 0:
            if part.base_offset < 0:
                self.record.fail(self.name, f"{where}: written at {part.base_offset}")
            elif flight.version >= 5 and part.log_start_offset >= 0:
                times = (sent.began_ns, self.world.now_ns)
                self.record.saw_mark(sent.key, START, part.log_start_offset, times)
        elif code in (UNKNOWN_TOPIC, UNKNOWN_ID):
            if not sent.topic.may_be_gone:
                self.record.fail(self.name, f"{where} is unknown now: {code}")
        elif code not in EXPECTED and not self.is_excused(sent, code):
            self.record.fail(self.name, f"{where}: code {code} for a good batch")

    def is_excused(self, sent: Sent, code: int) -> bool:
        """Whether a code is right for a good batch after all."""
        return code == TOO_LARGE and sent.topic.is_limited

    def settled(self, process: int, sent: Sent, outcome: str, base: int | None = None) -> None:
        """Add a batch to the history."""
        times = (sent.began_ns, self.world.now_ns)
        if sent.is_ageless and sent.acks == -1 and base is not None:
            first = self.record.ageless.get(sent.key, base)
            self.record.ageless[sent.key] = min(first, base)
        if sent.acks == -1 and base is not None:  # it may be seen now, and from now on
            self.record.reached(sent.key, HIGH_WATERMARK, base + len(sent.values), times[1])
        self.record.sent(
            process,
            outcome,
            sent.sends(base),
            times,
            is_volatile=sent.acks != -1,
            asked_ns=sent.asked_ns,
        )
