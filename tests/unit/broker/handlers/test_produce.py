"""Produce: accepted batches with their offsets, and refused ones with their codes."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from broker.metadata.topic_rules import NewTopic
from broker.partitions.preparation import INLINE_BYTES_MAX
from protocol import record_walks
from protocol.errors import ErrorCode
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.record_batch import HEADER_SIZE, write_crc
from protocol.records import Record, build
from tests.support.broker_rig import Rig, batch

NOW_MS = 1_700_000_000_000


def produce(
    records: Any, *, acks: int = -1, topic: str = "t", partition: int = 0, **ids: bytes
) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=5_000,
        topic_data=[
            TopicProduceData(
                name=topic,
                partition_data=[PartitionProduceData(index=partition, records=records)],
                **ids,
            )
        ],
    )


def only(response: Any) -> Any:
    (topic,) = response.responses
    (partition,) = topic.partition_responses
    return partition


async def create(rig: Rig, name: str = "t", count: int = 1, **configs: str) -> bytes:
    topic = NewTopic(
        name=name,
        partition_count=count,
        configs={key.replace("_", "."): value for key, value in configs.items()},
    )
    outcome: Any = (await rig.services.topics.create([topic]))[name]
    return outcome.topic_id


@pytest.mark.parametrize("acks", [1, -1])
async def test_offsets_follow_each_other(rig: Rig, acks: int) -> None:
    await create(rig)
    first = only(await rig.call(produce(batch(b"a", b"b"), acks=acks), 9))
    second = only(await rig.call(produce(batch(b"c"), acks=acks), 9))
    assert (first.error_code, first.base_offset) == (0, 0)
    assert (second.error_code, second.base_offset) == (0, 2)
    assert first.log_append_time_ms == -1
    log = rig.services.partitions.get("t", 0).log
    assert log.end_offset == 3
    if acks == -1:
        assert log.durable_offset == 3, "acks=-1 is answered when the records are durable"


async def test_acks_0_is_never_answered_and_its_error_closes_the_connection(rig: Rig) -> None:
    await create(rig)
    assert await rig.call(produce(batch(b"a"), acks=0), 9) is None
    assert rig.connection.aborted == []
    assert await rig.call(produce(batch(b"a"), acks=0, topic="missing"), 9) is None
    assert "UNKNOWN_TOPIC_OR_PARTITION" in rig.connection.aborted[0]


def corrupt() -> memoryview:
    damaged = batch(b"a")
    damaged[-1] ^= 1
    return damaged


def two_batches() -> memoryview:
    return memoryview(bytearray(bytes(batch(b"a")) + bytes(batch(b"b"))))


@pytest.mark.parametrize(
    ("name", "request_", "code"),
    [
        ("unknown topic", lambda: produce(batch(b"a"), topic="no"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (
            "unknown partition",
            lambda: produce(batch(b"a"), partition=1),
            "UNKNOWN_TOPIC_OR_PARTITION",
        ),
        (
            "negative partition",
            lambda: produce(batch(b"a"), partition=-1),
            "UNKNOWN_TOPIC_OR_PARTITION",
        ),
        ("acks 2", lambda: produce(batch(b"a"), acks=2), "INVALID_REQUIRED_ACKS"),
        ("wrong crc", lambda: produce(corrupt()), "CORRUPT_MESSAGE"),
        ("no records", lambda: produce(None), "CORRUPT_MESSAGE"),
        ("two batches", lambda: produce(two_batches()), "INVALID_RECORD"),
        ("control batch", lambda: produce(batch(b"a", control=True)), "INVALID_RECORD"),
        ("too large", lambda: produce(batch(bytes(1_048_588))), "MESSAGE_TOO_LARGE"),
        (
            "transactional",
            lambda: produce(
                batch(b"a", transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)
            ),
            "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        ),
        (
            "from the future",
            lambda: produce(batch(b"a", timestamp=NOW_MS * 10)),
            "INVALID_TIMESTAMP",
        ),
    ],
)
async def test_refusals(rig: Rig, name: str, request_: Any, code: str) -> None:
    await create(rig)
    answer = only(await rig.call(request_(), 9))
    assert ErrorCode[code] == answer.error_code, (name, answer)
    assert answer.base_offset == -1
    assert answer.error_message
    assert only(await rig.call(produce(batch(b"good")), 9)).base_offset == 0


async def test_one_partition_in_error_leaves_the_others_alone(rig: Rig) -> None:
    await create(rig, count=2)
    body = produce(batch(b"a"))
    body.topic_data[0].partition_data += [
        PartitionProduceData(index=7, records=batch(b"b")),
        PartitionProduceData(index=1, records=batch(b"c")),
    ]
    (topic,) = (await rig.call(body, 9)).responses
    assert [(answer.index, answer.error_code) for answer in topic.partition_responses] == [
        (0, 0),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (1, 0),
    ]


async def test_internal_topics_refuse_records(rig: Rig) -> None:
    """Except from Kafka's admin client, as in Kafka. They are compacted, so records need keys."""
    await create(rig, "__consumer_offsets", cleanup_policy="compact")
    body = produce(memoryview(build([Record(0, NOW_MS, b"k", b"v")])), topic="__consumer_offsets")
    answer = only(await rig.call(body, 9))
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert answer.error_message == "Cannot append to internal topic __consumer_offsets"
    assert rig.services.partitions.get("__consumer_offsets", 0).log.end_offset == 0
    request = rig.connection.request(body, api_key=0, version=9)
    request.header.client_id = "__admin_client"
    rig.dispatcher.dispatch(request)
    assert rig.services.partitions.get("__consumer_offsets", 0).log.end_offset == 1


async def test_by_topic_id(rig: Rig) -> None:
    topic_id = await create(rig)
    response = await rig.call(produce(batch(b"a"), topic="", topic_id=topic_id), 13)
    assert only(response).error_code == 0
    assert response.responses[0].topic_id == topic_id
    unknown = only(await rig.call(produce(batch(b"a"), topic="", topic_id=b"x" * 16), 13))
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_idempotent_duplicates_gaps_and_epochs(rig: Rig) -> None:
    await create(rig)

    async def send(sequence: int, epoch: int = 0) -> tuple[ErrorCode, int]:
        records = batch(b"x", producer_id=7, producer_epoch=epoch, base_sequence=sequence)
        answer = only(await rig.call(produce(records), 9))
        return ErrorCode(answer.error_code), answer.base_offset  # type: ignore[call-arg]

    assert [await send(sequence) for sequence in range(3)] == [
        (ErrorCode.NONE, 0),
        (ErrorCode.NONE, 1),
        (ErrorCode.NONE, 2),
    ]
    assert await send(1) == (ErrorCode.NONE, 1), "a duplicate has the offset of its original"
    assert (await send(5))[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await send(0, epoch=1) == (ErrorCode.NONE, 3)
    assert (await send(3, epoch=0))[0] == ErrorCode.INVALID_PRODUCER_EPOCH
    assert rig.services.partitions.get("t", 0).log.end_offset == 4


async def test_pipelined_appends_keep_their_order_through_the_queue(rig: Rig) -> None:
    """Immediate appends alternate with queued ones, and stay in order."""
    await create(rig)
    partition = rig.services.partitions.get("t", 0)
    calls = []
    for sequence in range(10):
        if sequence % 3 == 2:
            partition.flush_started_ns = 1  # a flush older than any limit
        records = batch(b"x", producer_id=9, producer_epoch=0, base_sequence=sequence)
        calls.append(asyncio.create_task(rig.call(produce(records, acks=1), 9)))
        await asyncio.sleep(0)
        partition.flush_started_ns = 0
    await asyncio.sleep(0.01)
    rig.services.appends.drain()
    answers = [only(await call) for call in calls]
    assert [answer.error_code for answer in answers] == [0] * 10
    assert [answer.base_offset for answer in answers] == list(range(10))
    assert rig.services.metrics.appends_queued > 0


async def test_write_caching_acknowledges_from_the_page_cache(rig: Rig) -> None:
    await create(rig, write_caching="true")
    assert only(await rig.call(produce(batch(b"a")), 9)).base_offset == 0
    log = rig.services.partitions.get("t", 0).log
    assert (log.high_watermark, log.durable_offset) == (1, 0)


async def test_log_append_time_is_stamped_and_answered(rig: Rig) -> None:
    await create(rig, message_timestamp_type="LogAppendTime")
    before_ms = rig.clock.now_ms()
    answer = only(await rig.call(produce(batch(b"a", timestamp=1)), 9))
    assert before_ms <= answer.log_append_time_ms <= rig.clock.now_ms()


async def test_all_records_survive_a_restart(tmp_path: Path) -> None:
    first = Rig(tmp_path / "data")
    await create(first)
    for sequence in range(3):
        records = batch(b"x", producer_id=7, producer_epoch=0, base_sequence=sequence)
        await first.call(produce(records), 9)
    assert await first.close()
    second = Rig(tmp_path / "data")
    duplicate = batch(b"x", producer_id=7, producer_epoch=0, base_sequence=0)
    assert only(await second.call(produce(duplicate), 9)).base_offset == 0
    assert second.services.partitions.get("t", 0).log.end_offset == 3
    assert await second.close()


async def test_a_compacted_topic_names_records_without_a_key(rig: Rig) -> None:
    await create(rig, cleanup_policy="compact")
    records = [Record(0, NOW_MS, key, b"v") for key in (b"k", None, b"k", None)]
    refused = only(await rig.call(produce(memoryview(build(records))), 9))
    assert refused.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in refused.record_errors] == [1, 3]
    assert "without key" in refused.record_errors[0].batch_index_error_message
    assert rig.services.partitions.get("t", 0).log.end_offset == 0


async def test_validate_records_opens_batches_and_refuses_damage_inside(tmp_path: Path) -> None:
    """The record count and the CRC are right, but the records end too early."""
    damaged = batch(b"some value")
    damaged[HEADER_SIZE] = 0x7E  # the size of the first record becomes 63
    write_crc(damaged, 0)
    for setting, code in (("false", ErrorCode.NONE), ("true", ErrorCode.INVALID_RECORD)):
        rig = Rig(tmp_path / setting, **{"barnabas.validate.records": setting})
        await create(rig)
        answer = only(await rig.call(produce(memoryview(bytearray(damaged))), 9))
        assert answer.error_code == code, setting
        assert only(await rig.call(produce(batch(b"good")), 9)).error_code == 0
        assert await rig.close()


@pytest.mark.parametrize("codec", [0, 4])
async def test_records_with_refused_timestamps_are_named(rig: Rig, codec: int) -> None:
    await create(rig, "t", message_timestamp_before_max_ms="1000")
    now_ms = rig.clock.now_ms()
    times = [now_ms - 5_000, now_ms, now_ms - 9_000]
    records = build(
        [Record(n, time_ms, None, b"v") for n, time_ms in enumerate(times)], codec=codec
    )
    data = [PartitionProduceData(index=0, records=memoryview(records))]
    body = ProduceRequest(
        acks=1, timeout_ms=5_000, topic_data=[TopicProduceData(name="t", partition_data=data)]
    )
    answer = (await rig.call(body, 9)).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [one.batch_index for one in answer.record_errors] == [0, 2]
    assert str(times[2]) in answer.record_errors[1].batch_index_error_message


def keyed(count: int, **options: Any) -> memoryview:
    return memoryview(build([Record(0, NOW_MS, b"k", b"v")] * count, **options))


COMPACTED = {"cleanup_policy": "compact"}
TIMED = {"message_timestamp_before_max_ms": "1"}


@pytest.mark.parametrize(
    ("records", "configs", "is_inline"),
    [
        (lambda: keyed(1), COMPACTED, True),
        (lambda: keyed(2_000), COMPACTED, False),
        (lambda: keyed(1, codec=4), COMPACTED, False),
        (lambda: keyed(1), {"compression_type": "zstd"}, True),
        (lambda: keyed(2_000), {"compression_type": "zstd"}, False),
        (lambda: batch(b"a", timestamp=1), TIMED, True),
        (lambda: batch(b"a", timestamp=1, codec=1), TIMED, False),
        (lambda: batch(*[b"a"] * 2_000, timestamp=1), TIMED, False),
    ],
)
async def test_the_event_loop_checks_few_records_and_threads_check_the_rest(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, records: Any, configs: Any, is_inline: bool
) -> None:
    threads = set()
    outlines = record_walks.outlines

    def watched(*arguments: Any, **options: Any) -> Any:
        threads.add(threading.current_thread() is threading.main_thread())
        return outlines(*arguments, **options)

    monkeypatch.setattr(record_walks, "outlines", watched)
    await create(rig, **configs)
    await rig.call(produce(records()), 9)
    assert threads == {is_inline}
    assert rig.services.metrics.record_walks == (not is_inline)


async def test_the_event_loop_checks_a_bounded_amount_per_request(rig: Rig) -> None:
    """The limit is per request, not per partition."""
    await create(rig, count=50, cleanup_policy="compact")
    one = keyed(100)
    body = produce(one)
    body.topic_data[0].partition_data = [
        PartitionProduceData(index=number, records=keyed(100)) for number in range(50)
    ]
    (topic,) = (await rig.call(body, 9)).responses
    assert [answer.error_code for answer in topic.partition_responses] == [0] * 50
    assert rig.services.metrics.record_walks == 50 - INLINE_BYTES_MAX // len(one)


@pytest.mark.parametrize("configs", [COMPACTED, TIMED])
@pytest.mark.parametrize("version", [7, 9])
async def test_the_first_of_many_refused_records_are_named_and_all_are_counted(
    rig: Rig, configs: Any, version: int
) -> None:
    await create(rig, **configs)
    records = batch(*[b"a"] * 5_000, timestamp=1, codec=4)
    answer = only(await rig.call(produce(records), version))
    named = [one.batch_index for one in answer.record_errors]
    assert named == ([] if version < 8 else list(range(100)))
    if version >= 8:
        assert "5000 record" in answer.error_message
    assert rig.services.partitions.get("t", 0).log.end_offset == 0
    assert rig.services.appends.queued == {}


async def test_records_refused_after_queueing_are_named_too(rig: Rig) -> None:
    await create(rig, message_timestamp_before_max_ms="1")
    partition = rig.services.partitions.get("t", 0)
    partition.flush_started_ns = 1  # a flush older than any limit
    call = asyncio.create_task(rig.call(produce(batch(b"a", b"b", timestamp=1, codec=4)), 9))
    while not partition.queue:
        await asyncio.sleep(0)
    partition.flush_started_ns = 0
    rig.services.appends.drain()
    answer = only(await call)
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [one.batch_index for one in answer.record_errors] == [0, 1]


async def test_with_acks_0_refused_records_are_not_named(rig: Rig) -> None:
    await create(rig, message_timestamp_before_max_ms="1")
    assert await rig.call(produce(batch(b"a", timestamp=1, codec=4), acks=0), 9) is None
    assert rig.connection.aborted
    assert rig.services.metrics.record_walks == 0
