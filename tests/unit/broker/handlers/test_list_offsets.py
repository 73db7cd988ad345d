"""ListOffsets: offsets and timestamps, and requests that wait for the disk. Compared with Kafka."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker.runtime.record_work import AT_ONCE
from protocol.errors import ErrorCode
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from protocol.record_batch import write_crc
from protocol.records import Record, build
from storage.errors import LogFailed
from storage.segments.segment import Segment
from tests.support.broker_rig import Rig, batch
from tests.support.log_house import flush
from tests.support.log_transactions import end, send
from tests.support.rig_client import ask, crash, create, produce

NOW_MS = 1_700_000_000_000
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = range(-1, -7, -1)
UNSUPPORTED = ErrorCode.UNSUPPORTED_VERSION


def asks(
    *questions: tuple[Any, ...], topic: str = "t", timeout_ms: int = 5_000, isolation_level: int = 0
) -> Any:
    """A request; a question is (partition, timestamp), or those two and a leader epoch."""
    return ListOffsetsRequest(
        replica_id=-1,
        timeout_ms=timeout_ms,
        isolation_level=isolation_level,
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(
                        partition_index=question[0],
                        timestamp=question[1],
                        current_leader_epoch=question[2] if len(question) > 2 else -1,
                    )
                    for question in questions
                ],
            )
        ],
    )


async def one(rig: Rig, timestamp: int, version: int = 11, epoch: int = -1) -> Any:
    (topic,) = (await ask(rig, asks((0, timestamp, epoch)), version)).topics
    (answer,) = topic.partitions
    return answer


def seen(answer: Any) -> tuple[int, int, int, int]:
    return answer.error_code, answer.timestamp, answer.offset, answer.leader_epoch


async def fill(rig: Rig) -> None:
    """Offsets 0 to 6 at +0 +10 | +5 | +3 +10 +10 | +7: the largest timestamp is at 1 first."""
    await create(rig)
    for offsets in ((0, 10), (5,), (3, 10, 10), (7,)):
        records = [Record(0, NOW_MS + offset, None, b"v") for offset in offsets]
        await produce(rig, memoryview(build(records)))


@pytest.mark.parametrize(
    ("timestamp", "since", "expected"),
    [
        (LATEST, 1, (0, -1, 7, 0)),
        (EARLIEST, 1, (0, -1, 0, 0)),
        (MAX_TIMESTAMP, 7, (0, NOW_MS + 10, 1, 0)),
        (EARLIEST_LOCAL, 8, (0, -1, 0, 0)),
        (LATEST_TIERED, 9, (0, -1, -1, -1)),
        (PENDING_UPLOAD, 11, (0, -1, -1, -1)),
        (-7, 99, None),
        (-100, 99, None),
        (0, 1, (0, NOW_MS, 0, 0)),
        (NOW_MS, 1, (0, NOW_MS, 0, 0)),
        (NOW_MS + 1, 1, (0, NOW_MS + 10, 1, 0)),
        (NOW_MS + 10, 1, (0, NOW_MS + 10, 1, 0)),
        (NOW_MS + 11, 1, (0, -1, -1, -1)),
        (2**63 - 1, 1, (0, -1, -1, -1)),
    ],
)
async def test_every_special_offset_and_timestamp_in_every_version(
    rig: Rig, timestamp: int, since: int, expected: tuple[int, int, int, int]
) -> None:
    await fill(rig)
    for version in range(1, 12):
        wanted = expected if version >= since else (UNSUPPORTED, -1, -1, -1)
        if version < 4:
            wanted = (*wanted[:3], -1)
        assert seen(await one(rig, timestamp, version)) == wanted, version


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (LATEST, (0, -1, 0, 0)),
        (EARLIEST, (0, -1, 0, 0)),
        (EARLIEST_LOCAL, (0, -1, 0, 0)),
        (MAX_TIMESTAMP, (0, -1, -1, -1)),
        (LATEST_TIERED, (0, -1, -1, -1)),
        (0, (0, -1, -1, -1)),
    ],
)
async def test_an_empty_log(rig: Rig, timestamp: int, expected: tuple[int, int, int, int]) -> None:
    await create(rig)
    assert seen(await one(rig, timestamp)) == expected


async def cut(rig: Rig, offset: int) -> None:
    rig.services.partitions.get("t", 0).log.delete_records_before(offset)
    await rig.services.checkpoints.write()


async def test_an_emptied_log_answers_with_its_leader_epoch(rig: Rig) -> None:
    await fill(rig)
    await cut(rig, 7)
    assert seen(await one(rig, EARLIEST)) == (0, -1, 7, 0)
    assert seen(await one(rig, LATEST)) == (0, -1, 7, 0)
    assert seen(await one(rig, 0)) == (0, -1, -1, -1)
    # As in Kafka: the segment still holds the record.
    assert seen(await one(rig, MAX_TIMESTAMP)) == (0, NOW_MS + 10, 1, 0)


async def test_records_before_the_log_start_are_not_found(rig: Rig) -> None:
    await fill(rig)
    await cut(rig, 2)
    assert seen(await one(rig, EARLIEST)) == (0, -1, 2, 0)
    assert seen(await one(rig, 0)) == (0, NOW_MS + 5, 2, 0)


async def test_a_batch_with_no_match_after_the_log_start_leads_to_the_next_batch(
    rig: Rig,
) -> None:
    await create(rig)
    for offsets in ((10, 0), (5,)):
        records = [Record(0, NOW_MS + offset, None, b"v") for offset in offsets]
        await produce(rig, memoryview(build(records)))
    await cut(rig, 1)
    assert seen(await one(rig, NOW_MS + 5)) == (0, NOW_MS + 5, 2, 0)
    assert seen(await one(rig, NOW_MS + 6)) == (0, -1, -1, -1)


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (-1, ErrorCode.NONE),
        (1, ErrorCode.NONE),
        (0, ErrorCode.FENCED_LEADER_EPOCH),
        (-2, ErrorCode.FENCED_LEADER_EPOCH),
        (2, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
async def test_leader_epochs(tmp_path: Path, epoch: int, code: ErrorCode) -> None:
    first = Rig(tmp_path / "data")
    await fill(first)
    await crash(first)
    rig = Rig(tmp_path / "data")
    assert (await one(rig, LATEST, 4, epoch)).error_code == code
    assert (await one(rig, LATEST, 3, epoch)).error_code == 0, "no epochs before version 4"
    assert seen(await one(rig, LATEST)) == (0, -1, 7, 1)
    assert seen(await one(rig, EARLIEST)) == (0, -1, 0, 0)
    await produce(rig, batch(b"v", timestamp=NOW_MS + 20))
    assert seen(await one(rig, NOW_MS + 11)) == (0, NOW_MS + 20, 7, 1)
    assert await rig.close()


async def test_unknown_topics_and_partitions(rig: Rig) -> None:
    await fill(rig)
    (topic,) = (await ask(rig, asks((7, LATEST, 9), (0, LATEST), (-1, LATEST)), 9)).topics
    answers = {answer.partition_index: answer.error_code for answer in topic.partitions}
    assert answers == {
        7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        0: ErrorCode.NONE,
        -1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    for name in ("no", "..", ""):
        (topic,) = (await ask(rig, asks((0, LATEST), topic=name), 9)).topics
        assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (topic,) = (await ask(rig, asks((7, -9)), 9)).topics
    assert topic.partitions[0].error_code == UNSUPPORTED, (
        "the timestamp is checked before the partition"
    )


async def test_a_partition_named_twice_is_refused_once(rig: Rig) -> None:
    await create(rig, count=2)
    body = asks((0, LATEST), (1, EARLIEST), (0, EARLIEST))
    body.topics += asks((0, LATEST)).topics
    (topic,) = (await ask(rig, body, 5)).topics
    assert [(answer.partition_index, answer.error_code) for answer in topic.partitions] == [
        (0, ErrorCode.INVALID_REQUEST),
        (1, ErrorCode.NONE),
    ]
    assert (await ask(rig, asks(), 5)).topics == []


def hold(rig: Rig) -> Any:
    """Make the partition look as if a flush were running, so that none begins."""
    partition = rig.services.partitions.get("t", 0)
    partition.flush_started_ns = rig.clock.monotonic_ns()
    return partition


async def settle(rig: Rig, partition: Any) -> None:
    partition.flush_started_ns = 0
    rig.services.commit.flush_now(partition)


@pytest.mark.parametrize(
    ("timestamp", "waits", "offset"),
    [
        (LATEST, True, 1),
        (MAX_TIMESTAMP, True, 0),
        (NOW_MS, True, 0),
        (EARLIEST, False, 0),
        (EARLIEST_LOCAL, False, 0),
        (LATEST_TIERED, False, -1),
    ],
)
async def test_records_acknowledged_before_the_request_count(
    rig: Rig, timestamp: int, waits: bool, offset: int
) -> None:
    """acks=1, then the end: Kafka counts the record, so the answer waits for it."""
    await create(rig)
    partition = hold(rig)
    await produce(rig, batch(b"v"), acks=1)
    question = asyncio.create_task(one(rig, timestamp))
    for _ in range(10):
        await asyncio.sleep(0.001)
    assert question.done() != waits
    await settle(rig, partition)
    answer = await question
    assert (answer.error_code, answer.offset) == (0, offset)


async def test_the_wait_is_bounded(rig: Rig) -> None:
    await create(rig, count=2)
    partition = hold(rig)
    await produce(rig, batch(b"v"), acks=1)
    question = asyncio.create_task(
        ask(rig, asks((0, LATEST), (1, LATEST), (0, 5, 9), timeout_ms=0), 10)
    )
    other = asyncio.create_task(ask(rig, asks((0, LATEST), (1, LATEST), timeout_ms=0), 10))
    await asyncio.sleep(0.005)
    assert question.done(), "a partition named twice waits for no flush"
    rig.services.commit.sweep()
    (topic,) = (await other).topics
    assert [answer.error_code for answer in topic.partitions] == [
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NONE,
    ]
    await settle(rig, partition)


async def test_a_topic_deleted_in_the_meantime(rig: Rig) -> None:
    await create(rig)
    hold(rig)
    await produce(rig, batch(b"v"), acks=1)
    question = asyncio.create_task(one(rig, LATEST))
    await asyncio.sleep(0.002)
    await rig.services.topics.delete("t")
    answer = await question
    assert seen(answer) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1, -1)


async def test_a_failed_log_answers_up_to_its_durable_end(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data")
    await fill(rig)
    partition = hold(rig)
    await produce(rig, batch(b"v"), acks=1)
    partition.log.failed = LogFailed("t-0", "fsync failed")
    assert seen(await one(rig, LATEST)) == (0, -1, 7, 0)
    assert not await rig.close()


async def test_damage_in_a_batch_that_must_be_opened_is_reported(rig: Rig) -> None:
    """The CRC is right, so the batch is stored; a look-up by time must read its records."""
    await create(rig)
    damaged = batch(b"some value", b"another", codec=1)
    damaged[61:70] = b"no gzip.."
    write_crc(damaged, 0)
    await produce(rig, damaged)
    answer = await one(rig, NOW_MS)
    assert answer.error_code == ErrorCode.CORRUPT_MESSAGE
    assert (answer.offset, answer.leader_epoch) == (-1, -1)
    assert seen(await one(rig, LATEST)) == (0, -1, 2, 0)


async def test_each_segment_is_looked_up_once_though_the_headers_of_all_say_too_much(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(rig, internal_segment_bytes="100")
    for offset in range(8):
        lying = bytearray(build([Record(0, NOW_MS + offset, None, b"v")]))
        lying[35:43] = (NOW_MS + 99).to_bytes(8, "big")  # the largest timestamp
        write_crc(lying, 0)
        await produce(rig, memoryview(lying))
    await produce(rig, memoryview(build([Record(0, NOW_MS + 50, None, b"v")])))
    looked_up: list[int] = []
    look_up = Segment.timestamp_candidates

    def counted(segment: Segment, *arguments: Any) -> Any:
        looked_up.append(segment.base_offset)
        return look_up(segment, *arguments)

    monkeypatch.setattr(Segment, "timestamp_candidates", counted)
    assert seen(await one(rig, NOW_MS + 40)) == (0, NOW_MS + 50, 8, 0)
    assert looked_up == list(range(9))
    assert seen(await one(rig, NOW_MS + 60)) == (0, -1, -1, -1)


@pytest.mark.parametrize("timestamp", [MAX_TIMESTAMP, NOW_MS + 6])
@pytest.mark.parametrize("outcome", ["durable", "failed", "late"])
async def test_a_record_counts_once_readers_may_see_it(
    tmp_path: Path, timestamp: int, outcome: str
) -> None:
    """The record was appended after the start of the flush that the request waited for."""
    rig = Rig(tmp_path / "data")
    await create(rig)
    partition = hold(rig)
    log = partition.log
    await produce(rig, batch(b"v", timestamp=NOW_MS), acks=1)
    timeout_ms = 0 if outcome == "late" else 5_000
    question = asyncio.create_task(ask(rig, asks((0, timestamp), timeout_ms=timeout_ms), 11))
    while not partition.waiters:
        await asyncio.sleep(0.001)
    flush = log.begin_flush()
    await produce(rig, batch(b"v", timestamp=NOW_MS + 9), acks=1)
    flush.run()
    log.finish_flush(flush, None)
    partition.waiters.popleft().answer(ErrorCode.NONE)
    while not partition.waiters and not question.done():
        await asyncio.sleep(0.001)
    assert log.high_watermark == 1
    assert not question.done(), (await question).topics
    if outcome == "failed":
        log.failed = LogFailed("t-0", "fsync failed")
        rig.services.commit.drop(partition, ErrorCode.KAFKA_STORAGE_ERROR)
    elif outcome == "late":
        rig.services.commit.sweep()
    else:
        await settle(rig, partition)
    (topic,) = (await question).topics
    assert (
        seen(topic.partitions[0])
        == {
            "durable": (0, NOW_MS + 9, 1, 0),
            "failed": (0, -1, -1, -1),
            "late": (ErrorCode.REQUEST_TIMED_OUT, -1, -1, -1),
        }[outcome]
    )
    if outcome == "late":
        await settle(rig, partition)
    log.failed = None
    await crash(rig)


async def test_one_request_runs_few_look_ups_at_a_time(rig: Rig) -> None:
    """Threads are left for reads and checkpoints."""
    count = 40
    await create(rig, count=count)
    for number in range(count):
        await produce(rig, batch(b"v", timestamp=NOW_MS, codec=4), partition=number)
    running = []
    submit = rig.services.pool.submit

    def watched(owner: Any, call: Any, done: Any) -> None:
        running.append(call)
        assert len(running) <= AT_ONCE
        submit(owner, call, lambda error: (running.remove(call), done(error)))

    rig.services.pool.submit = watched  # type: ignore[method-assign]
    questions = [(number, NOW_MS) for number in range(count)]
    (topic,) = (await ask(rig, asks(*questions), 11)).topics
    assert [answer.offset for answer in topic.partitions] == [0] * count
    assert rig.services.metrics.record_walks == count
    assert rig.services.metrics.record_walks_waiting_now == 0


async def test_readers_of_committed_records_see_nothing_behind_the_last_stable_offset(
    rig: Rig,
) -> None:
    """By time and for the largest timestamp there is no answer then, as in Kafka."""
    await fill(rig)
    log = rig.services.partitions.get("t", 0).log
    records = [Record(0, NOW_MS + 100, None, b"open")]
    data = build(records, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    log.append(memoryview(data), NOW_MS, 2)
    flush(log)

    async def ask_both(timestamp: int) -> list[tuple[int, int, int, int]]:
        answers = []
        for level in (0, 1):
            body = asks((0, timestamp), isolation_level=level)
            answers.append(seen((await ask(rig, body, 11)).topics[0].partitions[0]))
        return answers

    nothing = (0, -1, -1, -1)
    assert await ask_both(LATEST) == [(0, -1, 8, 0), (0, -1, 7, 0)]
    assert await ask_both(EARLIEST) == [(0, -1, 0, 0)] * 2
    assert await ask_both(NOW_MS + 1) == [(0, NOW_MS + 10, 1, 0)] * 2
    assert await ask_both(NOW_MS + 50) == [(0, NOW_MS + 100, 7, 0), nothing]
    assert await ask_both(MAX_TIMESTAMP) == [(0, NOW_MS + 100, 7, 0), nothing]
    end(log, 5, commit=False)
    assert (await ask_both(NOW_MS + 50))[1] == (0, NOW_MS + 100, 7, 0)
    assert (await ask_both(LATEST))[1] == (0, -1, 9, 0)


async def test_the_last_stable_offset_is_exact_after_a_deletion_into_a_transaction(
    rig: Rig,
) -> None:
    """Kafka 4.3 answers an offset below the log start here."""
    await create(rig)
    log = rig.services.partitions.get("t", 0).log
    send(log, 5, 6)
    flush(log)
    log.delete_records_before(4)
    await rig.services.checkpoints.write()
    answer = (await ask(rig, asks((0, LATEST), isolation_level=1), 11)).topics[0].partitions[0]
    assert answer.offset == log.start_offset == 4
