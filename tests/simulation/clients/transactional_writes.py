"""What belongs to a transaction: batches and committed offsets, sent until they are answered.

`is_spoilt` says that something of the transaction was refused, or that its outcome is not known. A
batch is sent again with its number, so it is in the log once, unless its topic is trimmed.

An id that was used a short while ago cannot have expired: nobody is told then that it is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.simulation.clients.client import Over
from tests.simulation.clients.committed import NOBODY, OFFSET_BITS, Member
from tests.simulation.clients.groups import SIMPLE_GROUPS
from tests.simulation.clients.producing import BY_ID, Producer, Sent
from tests.simulation.clients.topics import Topic
from tests.simulation.group_events import Commit
from tests.simulation.judges import quiet
from tests.simulation.world import MS
from tests.support.history_checker import INFO, OK, Key
from tests.support.transaction_history import Transaction, Written

if TYPE_CHECKING:
    from tests.simulation.context import Context
    from tests.simulation.plan import ClientPlan

FAST_CLOCK: Final = 0.8  # of a timeout, when the broker's clock has come to its end
LOST: Final = -2  # in place of a code: there was no answer
TRIES: Final = 6
LEDGER_TRIES: Final = 60
# What may pass by itself.
PASSING: Final = frozenset(
    {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,  # the coordinator is loading, to one that sends a batch
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
# The transaction is over, or can only be aborted.
OVER: Final = frozenset(
    {
        ErrorCode.RECORD_LIST_TOO_LARGE,  # for a segment
        ErrorCode.INVALID_TIMESTAMP,  # after a jump of the clock
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
# After a batch was lost whose client did not wait for the disk, or in a damaged log.
SEQUENCES: Final = frozenset(
    {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID}
)
GONE: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
# A member that the group does not know in this generation, or not now.
NO_MEMBER: Final = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)
CONCURRENT: Final = int(ErrorCode.CONCURRENT_TRANSACTIONS)
NO_MAPPING: Final = int(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
SLOWEST_CLOCK: Final = 0.75  # of the time after which an id expires
BEGINNINGS: Final = ("Produce", "TxnOffsetCommit")  # of a transaction of TV2
UNADDED_CHANCE: Final = 0.05  # that a producer of TV1 forgets to add its partitions
IMPLICIT: Final = 12  # the version of Produce that adds its partitions
OLD_PRODUCES, OLD_COMMITS, OLD_ADDS = range(3, 12), range(5), range(4)
FIND_VERSION: Final = 6
MEMBERS_SINCE: Final = 3  # the version of TxnOffsetCommit that names members
COMMIT_VERSION: Final = 5  # of TxnOffsetCommit, in TV2


class TransactionalWriter(Producer):
    """See the module."""

    is_one_process = True
    open: Transaction

    def __init__(self, context: Context, plan: ClientPlan) -> None:
        super().__init__(context, plan)
        self.transactional_id = ""
        self.timeout_ms = 0
        self.is_tv2 = self.chance.random() < 0.6
        self.producer_id = self.epoch = -1
        self.needs_id = True
        self.sequences: dict[Key, int] = {}
        self.added: set[Key] = set()
        self.is_spoilt = False
        self.begins_in = -1  # the life that answered the EndTxn before this transaction
        self.used_ns: int | None = None  # when the id was last used for sure

    @property
    def life(self) -> int:
        """The number of the broker's present life."""
        return len(self.context.lives)

    @property
    def is_sound(self) -> bool:
        """Whether the disk was sound so far."""
        return not self.context.injected & {quiet.DISK, quiet.FULL, quiet.FLIP}

    @property
    def may_be_late(self) -> bool:
        """Whether the transaction may be open for longer than its timeout by the broker's clock."""
        open_ms = (self.world.now_ns - self.open.began_ns) / MS
        is_set = any(fault.kind == "clock jump" for fault in self.context.plan.faults)
        return is_set or open_ms > FAST_CLOCK * self.timeout_ms

    def is_sure(self, one: Written) -> bool:
        """Whether what was acknowledged of a batch is on the disk."""
        return one.acks == -1 and not self.topics[one.key[0].partition(":")[0]].is_volatile

    @property
    def may_be_expired(self) -> bool:
        """Whether the broker may have forgotten the id."""
        if any(fault.kind == "clock jump" for fault in self.context.plan.faults):
            return True
        after_ms = self.context.lives[0].loaded.config.transactional_id_expiration_ms
        used_ns = self.world.now_ns if self.used_ns is None else self.used_ns
        return self.world.now_ns - used_ns > SLOWEST_CLOCK * after_ms * MS

    def expect(self, what: str, code: int, expected: Iterable[int]) -> None:
        """Note a code that cannot be right, and one that comes too late to be right."""
        self.note(f"{what}: code {code}")
        if code not in expected:
            self.record.fail(self.name, f"{what} of {self.transactional_id}: code {code}")
        if code == NO_MAPPING and self.is_sound and not self.may_be_expired:
            self.record.fail(self.name, f"{what}: {self.transactional_id} is unknown too early")
        is_first = self.begins_in == self.life and what in BEGINNINGS
        if code == CONCURRENT and is_first and self.is_sound and not self.may_be_late:
            self.record.fail(self.name, f"{what}: the transaction before has ended, and is busy")

    async def ledger(self, *, lasts: bool = False) -> Topic:
        """Choose a topic that transactions write to; create it if need be. Raises Over.

        Partitions are added by name with TV1, so not those of a topic that is made anew.
        """
        lasts = lasts or not self.is_tv2
        ledgers = [
            topic
            for topic in self.topics.values()
            if topic.is_ledger and not (lasts and topic.may_be_gone)
        ]
        for _ in range(LEDGER_TRIES):
            topic = self.chance.choice(ledgers)
            if topic.is_known or await self._learn(topic):
                return topic
            await self.pause()
        raise Over

    # -- Batches ------------------------------------------------------------------------------

    async def write(self) -> None:
        """Send a batch to each of some partitions."""
        places: dict[Key, tuple[Topic, int]] = {}
        for _ in range(self.chance.choice((1, 2, 2, 3))):
            topic = await self.ledger()
            number = self.chance.randrange(topic.partition_count)
            places[topic.key(number)] = (topic, number)
        adds = not self.is_tv2 and self.chance.random() > UNADDED_CHANCE
        if adds and not await self._add(places):
            return
        version = self.chance.choice((IMPLICIT, BY_ID) if self.is_tv2 else OLD_PRODUCES)
        if any(topic.may_be_gone for topic, _ in places.values()):
            version = BY_ID
        acks = self.chance.choice((-1, -1, -1, 1))
        waiting: list[tuple[Sent, Written]] = []
        grows = self.is_tv2 and not places.keys() <= {one.key for one in self.open.written}
        is_begun = bool(self.open.written)
        for key, (topic, number) in places.items():
            first = self.sequences.get(key, 0)
            ids = {"producer_id": self.producer_id, "producer_epoch": self.epoch}
            sent = self.make(topic, version, number, **ids, base_sequence=first, transactional=True)
            self.sequences[key] = first + len(sent.values)
            sent.began_ns, sent.acks = self.world.now_ns, acks
            written = Written(key, sent.values, acks, self.world.now_ns)
            self.open.written.append(written)
            waiting.append((sent, written))
        for _ in range(TRIES):
            waiting = await self._produce(waiting, acks, version)
            if not waiting or self.is_spoilt:
                break
            if any(sent.topic.is_trimmed for sent, _ in waiting):
                break  # what was written may be gone, and would be written again
            await self.pause(1, 20, 100)
        for sent, _ in waiting:
            self.settled(self.process, sent, INFO)
            self.process = self.record.new_process()
            self.is_spoilt = True
            self.needs_id = self.needs_id or not self.is_tv2
        self.begins_in = -1
        if grows and not self.is_spoilt:
            self.record.growing(is_begun)

    async def _produce(
        self, batches: list[tuple[Sent, Written]], acks: int, version: int
    ) -> list[tuple[Sent, Written]]:
        """Send batches in one request; return those that were not acknowledged."""
        topics: dict[str, TopicProduceData] = {}
        for sent, _ in batches:
            sent.asked_ns = self.world.now_ns
            named = topics.setdefault(
                sent.topic.name, TopicProduceData(name=sent.topic.name, topic_id=sent.topic_id)
            )
            data = PartitionProduceData(index=sent.partition, records=sent.records)
            named.partition_data.append(data)
        body = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=acks,
            timeout_ms=self.chance.choice((30_000, 2_000)),
            topic_data=list(topics.values()),
        )
        what = " ".join(f"{one.topic.name}-{one.partition}" for one, _ in batches)
        life = self.life
        answer = await self.ask(body, version, f"acks={acks} epoch {self.epoch} {what}")
        if answer is None:
            self.begins_in = -1
            return batches
        told = {
            (topic.topic_id if version >= BY_ID else topic.name, part.index): part
            for topic in answer.responses
            for part in topic.partition_responses
        }
        left = []
        for sent, written in batches:
            name = sent.topic_id if version >= BY_ID else sent.topic.name
            part = told[name, sent.partition]
            if part.error_code == 0:
                if not self.is_tv2 and sent.key not in self.added:
                    self.record.fail(self.name, f"{sent.key} takes a batch and was not added")
                written.base = part.base_offset
                written.life = life if life == self.life else None
                self.settled(self.process, sent, OK, part.base_offset)
                self.used_ns = sent.asked_ns
                continue
            left.append((sent, written))
            self.refused(
                "produce", sent.topic, sent.partition, part.error_code, None, sent.asked_ns
            )
            more = SEQUENCES if self._may_gap(sent.topic) else frozenset()
            more |= GONE if sent.topic.may_be_gone else frozenset()
            self.expect("Produce", part.error_code, PASSING | OVER | more)
            self.is_spoilt = self.is_spoilt or part.error_code not in PASSING
        return left

    def _may_gap(self, topic: Topic) -> bool:
        """Whether the broker may rightly not know the batch before."""
        context = self.context
        is_lost = context.has_lost_files and topic.is_compacted
        may_lose = not self.is_sound or context.power_cuts_ns or context.clock_leaps
        return bool(may_lose or is_lost or topic.is_trimmed or topic.may_be_gone)

    async def _add(self, places: dict[Key, tuple[Topic, int]]) -> bool:
        """Add partitions that are not in the transaction (TV1); return whether all are."""
        topics: dict[str, AddPartitionsToTxnTopic] = {}
        for key, (topic, number) in places.items():
            if key not in self.added:
                named = topics.setdefault(topic.name, AddPartitionsToTxnTopic(name=topic.name))
                named.partitions.append(number)
        if not topics:
            return True
        body = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=list(topics.values()),
        )
        for _ in range(TRIES):
            answer = await self.ask(body, self.chance.choice(OLD_ADDS), str(sorted(topics)))
            if answer is None:
                self.needs_id = True  # it may yet begin another transaction
                continue
            codes = {
                part.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for part in topic.results_by_partition
            }
            if codes == {0}:
                self.added.update(places)
                return True
            for code in sorted(codes):
                self.expect("AddPartitionsToTxn", code, PASSING | OVER)
            if not codes <= PASSING:
                break
            await self.pause(1, 20, 100)
        self.is_spoilt = True
        return False

    # -- Offsets ------------------------------------------------------------------------------

    async def member(self) -> tuple[str, Member, bool]:
        """Return a group, as what offsets are committed there, and whether that must be refused."""
        return self.chance.choice(SIMPLE_GROUPS), NOBODY, False

    async def commit_offsets(self) -> None:
        """Commit offsets of a group in the transaction."""
        group, member, is_refused = await self.member()
        if not self.is_tv2 and not await self._add_offsets(group):
            return
        topic = await self.ledger(lasts=True)
        event = Commit(
            who=self.name,
            group=group,
            began_ns=self.world.now_ns,
            topic=topic.name,
            topic_id=topic.topic_id.hex(),
            partition=self.chance.randrange(topic.partition_count),
            offset=self.chance.getrandbits(OFFSET_BITS),
            metadata=self.open.who[:3],
            member_id=member.member_id,
            epoch=member.epoch,
            is_transactional=True,
        )
        self.record.group_events.append(event)
        part = TxnOffsetCommitRequestPartition(
            partition_index=event.partition,
            committed_offset=event.offset,
            committed_metadata=event.metadata,
        )
        body = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            generation_id=member.epoch,
            member_id=member.member_id,
            topics=[TxnOffsetCommitRequestTopic(name=topic.name, partitions=[part])],
        )
        lowest = MEMBERS_SINCE if member is not NOBODY else 0
        version = COMMIT_VERSION if self.is_tv2 else self.chance.choice(OLD_COMMITS[lowest:])
        for _ in range(TRIES):
            answer = await self.ask(body, version, f"{group} {event.offset}")
            if answer is None:
                self.begins_in = -1
                self.needs_id = self.needs_id or not self.is_tv2
            code = LOST if answer is None else answer.topics[0].partitions[0].error_code
            if code == 0:
                self.open.offsets.append(event)
                if is_refused:
                    self.record.fail(self.name, f"{group}: {member} of the past commits offsets")
                break
            if code != LOST:
                more = NO_MEMBER if member is not NOBODY else frozenset()
                self.expect("TxnOffsetCommit", code, PASSING | OVER | more)
                if code not in PASSING:
                    break
                if code == ErrorCode.NOT_COORDINATOR:  # the first who asks creates its topic
                    key = FindCoordinatorRequest(key=group, coordinator_keys=[group])
                    await self.ask(key, FIND_VERSION, group)
                await self.pause(1, 20, 100)
        self.is_spoilt = self.is_spoilt or code != 0
        self.begins_in = -1

    async def _add_offsets(self, group: str) -> bool:
        """Add the partition of a group's offsets (TV1); return whether it is added."""
        body = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group,
        )
        for _ in range(TRIES):
            answer = await self.ask(body, self.chance.choice(OLD_COMMITS), group)
            if answer is None:
                self.needs_id = True
                continue
            if answer.error_code == 0:
                return True
            self.expect("AddOffsetsToTxn", answer.error_code, PASSING | OVER)
            if answer.error_code not in PASSING:
                break
            await self.pause(1, 20, 100)
        self.is_spoilt = True
        return False
