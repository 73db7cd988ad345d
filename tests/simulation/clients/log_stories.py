"""Stories of topics and logs, each with a topic of its own.

topic made anew        has none of the offsets that were committed for the one before
topic that goes        while producers wait for their turn in it: each is answered
timeless producer      sends records without times to a topic that bounds them
slow segment           is older than its records: retention goes by these
prudent producer       sends its batch again much later: it is in the log once
curious reader         reads on in a session, what it first read only if committed
bold operator          writes a marker of an epoch that its producer does not have
"""

from __future__ import annotations

from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from protocol.records import Record
from protocol.records import build as build_batch
from tests.simulation.clients.batches import build_untimed
from tests.simulation.clients.telling import Teller, produced, tells
from tests.simulation.clock import STARTED_MS

COMMIT, OFFSETS, OFFSETS_BY_ID, FETCH, INIT, ADD, END, MARK = 8, 8, 10, 12, 4, 3, 4, 1
DAY_MS: Final = str(86_400_000)
BIG: Final = 500  # bytes: two such records end a segment
SMALL_SEGMENTS: Final = {"internal_segment_bytes": "700", "retention_ms": "-1"}
KEPT_MS: Final = 1_500
WAIT_MS: Final = 2_500
GONE_TRIES: Final = 8
PRODUCED: Final = 12  # batches of each of many producers
E: Final = ErrorCode


def batch_of_now(
    teller: Teller, count: int = 1, padding: int = 20, *, keys: bytes = b"k", **more: Any
) -> bytes:
    """Return records of now, whose keys begin with `keys`."""
    now_ms = STARTED_MS + int(teller.now_ms)
    value = b"v" * padding
    records = [Record(n, now_ms, b"%s%d" % (keys, n), value) for n in range(count)]
    return bytes(build_batch(records, **more))


# -- Topics that go --------------------------------------------------------------------------------


async def _commit(teller: Teller, group: str, name: str) -> None:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    topic = OffsetCommitRequestTopic(name=name, partitions=[part])
    answer = await teller.ask(OffsetCommitRequest(group_id=group, topics=[topic]), COMMIT)
    teller.needs(answer.topics[0].partitions[0].error_code == 0)


async def _offsets_of(
    teller: Teller, group: str, name: str, topic_id: bytes, *, is_all: bool = False
) -> list[int]:
    """Return the offsets that a group has for a topic, as clients ask for one or for all."""
    version = OFFSETS_BY_ID if is_all else teller.rng.choice((OFFSETS, OFFSETS_BY_ID))
    asked: list[OffsetFetchRequestTopics] | None = None
    if not is_all and teller.rng.random() < 0.4:
        asked = [OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=[0])]
    body = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=asked)])
    answer = await teller.ask(body, version, who="reader")
    (found,) = answer.groups
    teller.needs(found.error_code == 0)
    return [
        part.committed_offset
        for topic in found.topics
        if (topic.topic_id == topic_id if version >= OFFSETS_BY_ID else topic.name == name)
        for part in topic.partitions
        if part.committed_offset >= 0
    ]


async def _delete_while_it_commits(teller: Teller, group: str, name: str) -> None:
    """Delete a topic, while a commit for it may wait for the disk."""
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=6)
    topic = OffsetCommitRequestTopic(name=name, partitions=[part])
    body = OffsetCommitRequest(group_id=group, topics=[topic])
    late = await teller.sent(body, COMMIT, who="late")
    await teller.rest(teller.rng.choice((0, 0.1, 1)))
    await teller.delete(name)
    await teller.answer(late)


async def topic_made_anew(teller: Teller) -> None:
    """Commit for a topic, delete it, make another of its name."""
    name, group = f"{teller.name}-topic", teller.name
    topic_id = await teller.create(name, 1)
    await _commit(teller, group, name)
    if teller.rng.random() < 0.3:
        await teller.next_life(WAIT_MS)
    way = teller.rng.randrange(4)
    if way == 3:
        await _delete_while_it_commits(teller, group, name)
    else:
        await teller.delete(name)
    if way == 0:  # the group has nothing more, soon
        for _ in range(GONE_TRIES):
            offsets = await _offsets_of(teller, group, name, topic_id)
            if not offsets:
                return
            await teller.rest(500)
        teller.expect(False, f"{offsets} of a topic that is gone")
    if way == 1:
        await teller.next_life(WAIT_MS)
    topic_id = await teller.create(name, 1)
    for _ in range(2):
        offsets = await _offsets_of(teller, group, name, topic_id, is_all=way == 3)
        teller.expect(not offsets, f"{offsets} of a topic that was made anew")
    await teller.delete(name)


async def topic_that_goes(teller: Teller) -> None:
    """Delete a topic that many batches wait for: each of them is answered."""
    name = f"{teller.name}-topic"
    await teller.create(name, 1, compression_type="gzip", **SMALL_SEGMENTS)
    waiters = [
        await teller.sent(
            produced(name, batch_of_now(teller, 5, 60, codec=teller.rng.choice((0, 2)))), 9, who=who
        )
        for _ in range(teller.rng.choice((2, 4, 8)))
        for who in ("one", "two")
    ]
    await teller.rest(teller.rng.choice((0, 0, 1, 5)))
    await teller.delete(name, who="three")
    for waiter in waiters:
        await teller.answer(waiter)


# -- Times -----------------------------------------------------------------------------------------


async def timeless_producer(teller: Teller) -> None:
    """Send records without times."""
    name = f"{teller.name}-topic"
    bounds = {"message_timestamp_before_max_ms": DAY_MS, "message_timestamp_after_max_ms": DAY_MS}
    await teller.create(name, 1, message_timestamp_type="CreateTime", **bounds)
    told = await teller.produce(name, build_untimed([b"k:1", b"k:2"]))
    teller.expect(told.error_code == 0, f"records without times: {told.error_code}")


async def slow_segment(teller: Teller) -> None:
    """Write so seldom that a segment is older than what it keeps."""
    teller.needs(not teller.is_planned("clock jump", "flip", "lost files", "left files"))
    name = f"{teller.name}-topic"
    configs = {"internal_segment_bytes": "700", "retention_ms": str(KEPT_MS)}
    await teller.create(name, 1, message_timestamp_type="LogAppendTime", **configs)
    life = teller.life
    teller.needs((await teller.produce(name, batch_of_now(teller))).error_code == 0)
    await teller.rest(KEPT_MS + 300)
    young = await teller.produce(name, batch_of_now(teller))  # in the same segment
    teller.needs(young.error_code == 0)
    since_ms = teller.now_ms
    for _ in range(2):  # it ends
        teller.needs(
            (await teller.produce(name, batch_of_now(teller, padding=BIG))).error_code == 0
        )
    await teller.rest(0.4 * KEPT_MS)
    start = await teller.offset_of(name)
    teller.needs(teller.now_ms < since_ms + 0.7 * KEPT_MS and teller.life == life)
    teller.expect(
        start <= young.base_offset,
        f"it begins at {start}, and the record at {young.base_offset} is young",
    )


# -- Producers -------------------------------------------------------------------------------------


async def prudent_producer(teller: Teller) -> None:
    """Send a batch again in the next life of the broker, perhaps behind the start of the log."""
    name = f"{teller.name}-topic"
    context = teller.context
    await teller.create(name, 1, **SMALL_SEGMENTS)
    told = await teller.ask(
        InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), INIT
    )
    teller.needs(told.error_code == 0)
    batch = batch_of_now(
        teller, producer_id=told.producer_id, producer_epoch=told.producer_epoch, base_sequence=0
    )
    first = await teller.produce(name, batch)
    teller.needs(first.error_code == 0)
    is_trimmed = teller.rng.random() < 0.5
    for _ in range(4):
        teller.needs(
            (await teller.produce(name, batch_of_now(teller, padding=BIG))).error_code == 0
        )
    if is_trimmed:
        await _trim(teller, name, first.base_offset + 3)
        await teller.rest(teller.rng.choice((0, 1_500, 3_000)))  # the segments are deleted
        teller.wish("kill")
    else:
        teller.wish("lost producers")
    await teller.next_life(2 * WAIT_MS)
    again = await teller.produce(name, batch)
    directory = f"{name}-0"
    teller.needs(again.error_code == 0 and directory not in context.damaged)
    teller.needs(not context.clock_leaps and not (is_trimmed and context.has_lost_files))
    teller.expect(
        again.base_offset == first.base_offset,
        f"a batch at {first.base_offset} is told to be at {again.base_offset}, when sent again",
    )


async def eager_trimmer(teller: Teller) -> None:
    """Delete what was written a moment ago; the judge of starts looks at the disk."""
    name = f"{teller.name}-topic"
    await teller.create(name, 1, write_caching="true", **SMALL_SEGMENTS)
    for _ in range(teller.rng.choice((2, 5))):
        for _ in range(teller.rng.choice((1, 2))):
            padding = teller.rng.choice((20, BIG))
            told = await teller.produce(name, batch_of_now(teller, padding=padding), acks=1)
            teller.needs(told.error_code == 0)
        await _trim(teller, name, teller.rng.choice((-1, told.base_offset + 1)))
        start = await teller.offset_of(name)
        teller.expect(start <= told.base_offset + 1, f"it begins at {start}, behind its end")


async def _trim(teller: Teller, name: str, offset: int) -> None:
    part = DeleteRecordsPartition(partition_index=0, offset=offset)
    topic = DeleteRecordsTopic(name=name, partitions=[part])
    await teller.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=5_000), 2)


async def many_producers(teller: Teller) -> None:
    """Write from three connections at once; each batch is answered in its time."""
    name = f"{teller.name}-topic"
    await teller.create(name, 1, **SMALL_SEGMENTS)
    body = produced(name, batch_of_now(teller))
    for _ in range(PRODUCED):
        waiters = [await teller.sent(body, 9, who=who) for who in ("one", "two", "three")]
        for waiter in waiters:
            await teller.answer(waiter)
        await teller.rest(teller.rng.choice((0, 20, 200)))


# -- Transactions ----------------------------------------------------------------------------------


async def begun(teller: Teller, name: str) -> Any:
    """Begin a transaction with one batch; return the producer."""
    transactional_id = teller.name
    told = await teller.ask(
        InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=5_000),
        INIT,
        who="writer",
    )
    teller.needs(told.error_code == 0)
    body = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=told.producer_id,
        v3_and_below_producer_epoch=told.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=[0])],
    )
    added = await teller.ask(body, ADD, who="writer")
    teller.needs(added.results_by_topic_v3_and_below[0].results_by_partition[0] is not None)
    teller.needs(await written(teller, name, told, 9, sequence=0) == 0)
    return told


async def written(teller: Teller, name: str, producer: Any, version: int, *, sequence: int) -> int:
    """Write a batch in the teller's transaction; return the error code."""
    batch = batch_of_now(
        teller,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=sequence,
        transactional=True,
    )
    body = produced(name, batch)
    body.transactional_id = teller.name
    answer = await teller.ask(body, version, who="writer")
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


def end_of(teller: Teller, producer: Any, *, committed: bool) -> EndTxnRequest:
    """Return the request that ends the transaction that was begun."""
    return EndTxnRequest(
        transactional_id=teller.name,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=committed,
    )


async def _end(teller: Teller, producer: Any) -> None:
    body = end_of(teller, producer, committed=teller.rng.random() < 0.5)
    await teller.ask(body, END, who="writer")


def _fetch(name: str, session: Any, isolation: int, epoch: int = 0) -> FetchRequest:
    """Return a fetch of all of a topic, or, from epoch 1 on, of what a session knows of it."""
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    body = FetchRequest(
        max_wait_ms=100, min_bytes=1, isolation_level=isolation, session_epoch=epoch
    )
    if session is None:
        body.topics = [FetchTopic(topic=name, partitions=[part])]
    else:
        body.session_id = session.session_id
    return body


async def curious_reader(teller: Teller) -> None:
    """Read what is committed within a session, and then all there is."""
    name = f"{teller.name}-topic"
    await teller.create(name, 1, **SMALL_SEGMENTS)
    producer = await begun(teller, name)
    began = await teller.in_life(_fetch(name, None, 1), FETCH, who="reader")
    teller.needs(began.error_code == 0 and began.session_id > 0)
    told = await teller.in_life(_fetch(name, began, 1, 1), FETCH, who="reader")
    teller.needs(told.error_code == 0 and not told.responses)
    told = await teller.in_life(_fetch(name, began, 0, 2), FETCH, who="reader")
    teller.needs(told.error_code == 0)
    parts = [part for topic in told.responses for part in topic.partitions if part.records]
    teller.expect(bool(parts), "read_uncommitted after read_committed finds nothing")
    await _end(teller, producer)


async def bold_operator(teller: Teller) -> None:
    """Write a marker for an epoch that is yet to come."""
    name = f"{teller.name}-topic"
    await teller.create(name, 1, **SMALL_SEGMENTS)
    producer = await begun(teller, name)
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch + teller.rng.choice((1, 2, 40)),
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=[0])],
        coordinator_epoch=0,
    )
    told = await teller.ask(WriteTxnMarkersRequest(markers=[marker]), MARK)
    code = told.markers[0].topics[0].partitions[0].error_code
    teller.expect(code != 0, "a marker of an epoch above its producer's is taken")
    await _end(teller, producer)


KINDS: Final = {
    "topic made anew": tells(topic_made_anew),
    "topic that goes": tells(topic_that_goes),
    "timeless producer": tells(timeless_producer),
    "slow segment": tells(slow_segment),
    "prudent producer": tells(prudent_producer),
    "eager trimmer": tells(eager_trimmer),
    "many producers": tells(many_producers),
    "curious reader": tells(curious_reader),
    "bold operator": tells(bold_operator),
}
