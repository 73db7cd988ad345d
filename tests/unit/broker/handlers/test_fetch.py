"""Fetch: the records read, and the refusals with their codes. Compared with Kafka.

Kafka cuts the last batch at the limit; this broker sends only whole ones (docs/unsupported.md).
How long a fetch waits is tested in broker/partitions/test_fetch_reading.py.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.fetch import ReplicaState
from protocol.wire import ZERO_UUID
from tests.support.broker_rig import Rig, batch
from tests.support.log_house import flush
from tests.support.log_transactions import end, mark, send
from tests.support.rig_client import ask, crash, create, produce
from tests.support.rig_fetch import (
    BATCH_BYTES,
    MANY,
    VALUE,
    fetch,
    fill,
    of,
    read,
    read_one,
    sizes,
    values,
)

STRANGE_ID = b"x" * 16
READ_COMMITTED = 1


# -- what is read ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4, 19))
async def test_every_version_reads_the_bytes_that_were_written(rig: Rig, version: int) -> None:
    topic_id = await create(rig)
    written = batch(b"a", b"b")
    await produce(rig, written)
    body = fetch(of(0, 0), topic_id=topic_id)
    response = await ask(rig, body, version)
    (topic,) = response.responses
    assert (topic.topic, topic.topic_id) == (("t", ZERO_UUID) if version < 13 else ("", topic_id))
    (answer,) = topic.partitions
    assert (answer.error_code, answer.high_watermark, answer.last_stable_offset) == (0, 2, 2)
    assert answer.log_start_offset == (0 if version >= 5 else -1)
    assert answer.aborted_transactions is None
    assert answer.preferred_read_replica == -1
    assert answer.diverging_epoch is answer.current_leader is answer.snapshot_id is None
    assert bytes(answer.records) == bytes(written)


@pytest.mark.parametrize(
    ("offset", "first"),
    [(0, 0), (1, 0), (2, 2), (3, 3), (4, 3), (5, 3), (6, 6)],
)
async def test_a_fetch_within_a_batch_returns_the_whole_batch(
    rig: Rig, offset: int, first: int
) -> None:
    await fill(rig)
    answer = await read_one(rig, fetch(of(0, offset)))
    assert values(answer) == [b"%d" % number for number in range(first, 7)]


async def test_a_fetch_at_the_end_returns_no_records(rig: Rig) -> None:
    await fill(rig)
    answer = await read_one(rig, fetch(of(0, 7)))
    assert (answer.error_code, bytes(answer.records), answer.high_watermark) == (0, b"", 7)


@pytest.mark.parametrize("offset", [-2, -1, 1, 8, 2**63 - 1])
async def test_out_of_range_does_not_wait(rig: Rig, offset: int) -> None:
    await fill(rig)
    partition = rig.services.partitions.get("t", 0)
    partition.log.delete_records_before(2)
    await rig.services.checkpoints.write()
    answer = await read_one(rig, fetch(of(0, offset), max_wait_ms=60_000))
    assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert answer.high_watermark == answer.last_stable_offset == answer.log_start_offset == -1
    assert answer.records == b""


async def test_out_of_range_is_reported_even_if_the_answer_is_full(rig: Rig) -> None:
    await fill(rig, 2)
    first, second = await read(rig, fetch(of(0, 0), of(1, 77), max_bytes=1))
    assert values(first) == [b"0", b"1"]
    assert second.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(
    ("case", "answer_is"),
    [("found", []), ("out of range", None), ("unknown", []), ("uncommitted", None)],
)
async def test_aborted_transactions_are_none_or_null(
    rig: Rig, case: str, answer_is: list[Any] | None
) -> None:
    """Empty or null means that there are none; each is used where Kafka does (tried)."""
    await fill(rig)
    body = {
        "found": fetch(of(0, 0), isolation_level=READ_COMMITTED),
        "out of range": fetch(of(0, 99), isolation_level=READ_COMMITTED),
        "unknown": fetch(of(9, 0)),
        "uncommitted": fetch(of(0, 0)),
    }[case]
    assert (await read_one(rig, body)).aborted_transactions == answer_is


# -- limits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("max_bytes", "expected"),
    [
        (-1, [1, 0, 0]),
        (0, [1, 0, 0]),
        (1, [1, 0, 0]),
        (BATCH_BYTES - 1, [1, 0, 0]),
        (BATCH_BYTES, [1, 0, 0]),
        (2 * BATCH_BYTES, [2, 0, 0]),
        (3 * BATCH_BYTES, [3, 0, 0]),
        (4 * BATCH_BYTES, [3, 1, 0]),
        (5 * BATCH_BYTES - 1, [3, 1, 0]),
        (8 * BATCH_BYTES, [3, 3, 2]),
        (MANY, [3, 3, 3]),
    ],
)
async def test_max_bytes_over_partitions_with_at_least_one_batch(
    rig: Rig, max_bytes: int, expected: list[int]
) -> None:
    await create(rig, count=3)
    for partition in (0, 1, 2):
        for _ in range(3):
            await produce(rig, batch(VALUE), partition=partition)
    answers = await read(rig, fetch(of(0, 0), of(1, 0), of(2, 0), max_bytes=max_bytes))
    assert sizes(answers) == [count * BATCH_BYTES for count in expected]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ((0, 0), [1, 0]),
        ((-1, -1), [1, 0]),
        ((BATCH_BYTES - 1, BATCH_BYTES - 1), [1, 0]),
        ((BATCH_BYTES, BATCH_BYTES), [1, 1]),
        ((2 * BATCH_BYTES, MANY), [2, 3]),
    ],
)
async def test_partition_max_bytes(rig: Rig, limits: tuple[int, int], expected: list[int]) -> None:
    await create(rig, count=2)
    for partition in (0, 1):
        for _ in range(3):
            await produce(rig, batch(VALUE), partition=partition)
    answers = await read(rig, fetch(of(0, 0, limits[0]), of(1, 0, limits[1])))
    assert sizes(answers) == [count * BATCH_BYTES for count in expected]


async def test_the_first_partition_with_records_returns_a_batch(rig: Rig) -> None:
    await create(rig, count=3)
    await produce(rig, batch(VALUE), partition=1)
    await produce(rig, batch(VALUE), partition=2)
    answers = await read(rig, fetch(of(0, 0), of(1, 0), of(2, 0), max_bytes=1))
    assert sizes(answers) == [0, BATCH_BYTES, 0]


async def test_full_answers_leave_a_fetch_a_mebibyte(rig: Rig) -> None:
    await create(rig, "t")
    for _ in range(3):
        await produce(rig, batch(b"x" * 600_000))
    assert len(values(await read_one(rig, fetch(of(0, 0, 4_000_000))))) == 3
    rig.services.answers.take(rig.services.answers.limit_bytes + 1)
    assert len(values(await read_one(rig, fetch(of(0, 0, 4_000_000))))) == 1
    rig.services.answers.give_back(rig.services.answers.used_bytes)


async def test_the_brokers_own_limit(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data", fetch_max_bytes="1024")
    await create(rig)
    for _ in range(3):
        await produce(rig, batch(VALUE))
    assert sizes(await read(rig, fetch(of(0, 0)))) == [BATCH_BYTES]
    # The fetch must not wait for records that it can never read.
    answers = await read(rig, fetch(of(0, 0), min_bytes=MANY, max_wait_ms=60_000))
    assert sizes(answers) == [BATCH_BYTES]
    assert await rig.close()


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "topic", "topic_id", "code"),
    [
        (4, "no", ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (12, "no", ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (12, "", ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (12, "..", ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (13, "", STRANGE_ID, ErrorCode.UNKNOWN_TOPIC_ID),
        (13, "", ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_ID),
        (18, "", STRANGE_ID, ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
async def test_unknown_topics_are_answered_at_once(
    rig: Rig, version: int, topic: str, topic_id: bytes, code: ErrorCode
) -> None:
    body = fetch(of(0, 0), topic=topic, topic_id=topic_id, max_wait_ms=60_000)
    answer = await read_one(rig, body, version)
    assert (answer.error_code, bytes(answer.records)) == (code, b"")
    assert answer.high_watermark == answer.log_start_offset == -1


async def test_unknown_partitions_beside_known_ones(rig: Rig) -> None:
    await fill(rig)
    unknown, known, negative = await read(rig, fetch(of(9, 0), of(0, 6), of(-1, 0)))
    assert unknown.error_code == negative.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert values(known) == [b"6"]


async def epoch_1(tmp_path: Path) -> Rig:
    """Offsets 0 to 6 in epoch 0, and a leader that has written nothing in epoch 1."""
    first = Rig(tmp_path / "data")
    await fill(first)
    await crash(first)
    return Rig(tmp_path / "data")


@pytest.mark.parametrize(
    ("current", "offset", "code"),
    [
        (-1, 0, ErrorCode.NONE),
        (-2, 0, ErrorCode.NONE),
        (1, 0, ErrorCode.NONE),
        (0, 0, ErrorCode.FENCED_LEADER_EPOCH),
        (2, 0, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (2, 99, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (0, 7, ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
async def test_current_leader_epochs(
    tmp_path: Path, current: int, offset: int, code: ErrorCode
) -> None:
    rig = await epoch_1(tmp_path)
    body = fetch(of(0, offset, current_leader_epoch=current), max_wait_ms=60_000)
    answer = await read_one(rig, body)
    assert answer.error_code == code
    assert bool(len(answer.records)) == (code == ErrorCode.NONE)
    assert answer.aborted_transactions is None
    body.max_wait_ms = 0
    beyond = ErrorCode.OFFSET_OUT_OF_RANGE if offset == 99 else ErrorCode.NONE
    assert (await read_one(rig, body, 8)).error_code == beyond, "no epochs before version 9"
    assert await rig.close()


@pytest.mark.parametrize(
    ("fetched", "offset", "code", "diverging"),
    [
        (-1, 7, ErrorCode.NONE, None),
        (-2, 7, ErrorCode.NONE, None),
        (0, 7, ErrorCode.NONE, None),
        (0, 6, ErrorCode.NONE, None),
        (1, 7, ErrorCode.NONE, None),
        (0, 8, ErrorCode.NONE, (0, 7)),
        (0, 99, ErrorCode.NONE, (0, 7)),
        (1, 99, ErrorCode.NONE, (1, 7)),
        (2, 7, ErrorCode.OFFSET_OUT_OF_RANGE, None),
        (5, 0, ErrorCode.OFFSET_OUT_OF_RANGE, None),
    ],
)
async def test_last_fetched_epochs(
    tmp_path: Path,
    fetched: int,
    offset: int,
    code: ErrorCode,
    diverging: tuple[int, int] | None,
) -> None:
    """KIP-595: a reader whose history diverged from the log's gets the point of divergence."""
    rig = await epoch_1(tmp_path)
    waits = diverging is None and code == ErrorCode.NONE and offset == 7
    body = fetch(of(0, offset, last_fetched_epoch=fetched), max_wait_ms=0 if waits else 60_000)
    answer = await read_one(rig, body)
    assert answer.error_code == code
    if diverging is None:
        assert answer.diverging_epoch is None
    else:
        told = answer.diverging_epoch
        assert (told.epoch, told.end_offset) == diverging
        assert answer.records == b""
    assert await rig.close()


async def test_an_empty_log_and_its_first_epoch(rig: Rig) -> None:
    await create(rig)
    for fetched, code in ((0, ErrorCode.NONE), (1, ErrorCode.OFFSET_OUT_OF_RANGE)):
        answer = await read_one(rig, fetch(of(0, 0, last_fetched_epoch=fetched)))
        assert (answer.error_code, answer.diverging_epoch) == (code, None)


@pytest.mark.parametrize("version", [7, 12, 13])
@pytest.mark.parametrize(
    ("session_id", "session_epoch", "code"),
    [
        (0, -1, ErrorCode.NONE),
        (5, -1, ErrorCode.NONE),
        (0, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (5, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (5, 3, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (-1, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (5, -2, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
    ],
)
async def test_fetches_without_a_session(
    rig: Rig, version: int, session_id: int, session_epoch: int, code: ErrorCode
) -> None:
    """KIP-227: session id 0 in an answer means "send full requests"."""
    topic_id = await create(rig)
    await produce(rig, batch(b"a"))
    body = fetch(of(0, 0), topic_id=topic_id, session_id=session_id, session_epoch=session_epoch)
    response = await ask(rig, body, version)
    assert (response.error_code, response.session_id) == (code, 0)
    if code:
        assert response.responses == []
    else:
        assert values(response.responses[0].partitions[0]) == [b"a"]


@pytest.mark.parametrize("version", [12, 15])
@pytest.mark.parametrize("replica", [-3, -2, -1, 0, 1, 5])
async def test_fetches_of_followers_are_refused(rig: Rig, version: int, replica: int) -> None:
    topic_id = await create(rig)
    await produce(rig, batch(b"a"))
    body = fetch(
        of(0, 0),
        topic_id=topic_id,
        replica_id=replica,
        replica_state=ReplicaState(replica_id=replica),
        max_wait_ms=60_000,
    )
    answer = await read_one(rig, body, version)
    if replica < 0:
        assert values(answer) == [b"a"]
    else:
        assert (answer.error_code, bytes(answer.records)) == (
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            b"",
        )


@pytest.mark.parametrize("by_id", [False, True])
async def test_a_partition_named_twice_is_answered_once(rig: Rig, *, by_id: bool) -> None:
    topic_id = await create(rig, count=2)
    await produce(rig, batch(b"a", b"b"))
    body = fetch(of(0, 9), of(1, 0), *(of(0, 0) for _ in range(10_000)), topic_id=topic_id)
    body.topics += [replace(body.topics[0]) for _ in range(3)]
    response = await ask(rig, body, 13 if by_id else 12)
    found = [
        (one.partition_index, one.error_code, bool(one.records))
        for topic in response.responses
        for one in topic.partitions
    ]
    assert found == [(0, 0, True), (1, 0, False)]


# -- read_committed --------------------------------------------------------------------------------


async def committed(rig: Rig, offset: int, **fields: Any) -> tuple[list[bytes], int, int, Any]:
    """Return values, high watermark, last stable offset and what was aborted."""
    answer = await read_one(rig, fetch(of(0, offset), isolation_level=READ_COMMITTED, **fields))
    assert answer.error_code == 0
    aborted = answer.aborted_transactions
    if aborted is not None:
        aborted = [(one.producer_id, one.first_offset) for one in aborted]
    return values(answer), answer.high_watermark, answer.last_stable_offset, aborted


async def test_readers_of_committed_records_stop_at_an_open_transaction(rig: Rig) -> None:
    await fill(rig)
    log = rig.services.partitions.get("t", 0).log
    send(log, 5)
    await produce(rig, batch(b"behind"))
    assert await committed(rig, 5) == ([b"3", b"4", b"5", b"6"], 9, 7, [])
    for offset in (7, 8, 9):
        assert await committed(rig, offset) == ([], 9, 7, [])
    answer = await read_one(rig, fetch(of(0, 7)))
    assert (len(values(answer)), answer.high_watermark, answer.last_stable_offset) == (2, 9, 7)
    assert answer.aborted_transactions is None
    answer = await read_one(rig, fetch(of(0, 10), isolation_level=READ_COMMITTED))
    assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    end(log, 5, commit=True)
    assert (await committed(rig, 7))[1:] == (10, 10, [])
    assert (await committed(rig, 7))[0][1] == b"behind"


async def test_an_outcome_that_is_not_settled_is_not_shown(rig: Rig) -> None:
    await create(rig)
    log = rig.services.partitions.get("t", 0).log
    send(log, 5)
    offset = mark(log, 5, commit=True)
    flush(log)
    assert await committed(rig, 0) == ([], 2, 0, [])
    log.settle(offset)
    assert (await committed(rig, 0))[1:] == (2, 2, [])


async def test_aborted_transactions_are_listed_with_their_records(rig: Rig) -> None:
    await create(rig)
    log = rig.services.partitions.get("t", 0).log
    send(log, 5)
    send(log, 6)
    end(log, 6, commit=False)
    end(log, 5, commit=False)
    await produce(rig, batch(b"behind"))
    assert (await committed(rig, 0))[1:] == (5, 5, [(6, 1), (5, 0)])
    assert (await committed(rig, 3))[3] == [(5, 0)]
    assert await committed(rig, 4) == ([b"behind"], 5, 5, [])
    assert (await committed(rig, 0, max_bytes=1))[3] == [(5, 0)], "the first batch alone"
    assert (await read_one(rig, fetch(of(0, 0)))).aborted_transactions is None


async def test_many_aborted_transactions_are_named_in_steps(rig: Rig, monkeypatch: Any) -> None:
    await create(rig)
    log = rig.services.partitions.get("t", 0).log
    for epoch in range(9):
        send(log, 5, epoch=epoch)
        end(log, 5, commit=False, epoch=epoch + 1)
    monkeypatch.setattr("broker.partitions.aborted_names.NAMED_PER_STEP", 2)
    wanted = [(5, 2 * epoch) for epoch in range(9)]
    assert (await committed(rig, 0))[3] == wanted
    waiting = {"min_bytes": 1 << 20, "max_wait_ms": 5}
    assert (await committed(rig, 0, **waiting))[3] == wanted, "a fetch that was parked"


async def test_records_are_not_served_without_their_list(rig: Rig, monkeypatch: Any) -> None:
    await create(rig)
    log = rig.services.partitions.get("t", 0).log
    send(log, 5)
    end(log, 5, commit=False)

    def unreadable(*_: Any) -> Any:
        raise OSError(5, "I/O error")

    monkeypatch.setattr(type(log.segments), "aborted", unreadable)
    answer = await read_one(rig, fetch(of(0, 0), isolation_level=READ_COMMITTED))
    assert (answer.error_code, answer.records) == (ErrorCode.KAFKA_STORAGE_ERROR, b"")
    assert (await read_one(rig, fetch(of(0, 0)))).error_code == 0


async def test_a_list_that_is_not_in_memory_is_read_in_a_thread(rig: Rig, monkeypatch: Any) -> None:
    await create(rig)
    log = rig.services.partitions.get("t", 0).log
    for epoch in range(9):
        send(log, 5, epoch=epoch)
        end(log, 5, commit=False, epoch=epoch + 1)
    monkeypatch.setattr("storage.segments.abort_index.BLOCK_ENTRIES", 2)
    wanted = [(5, 2 * epoch) for epoch in range(9)]
    assert (await committed(rig, 0))[3] == wanted


async def test_after_deleting_into_an_open_transaction_readers_stop_at_the_start(rig: Rig) -> None:
    await create(rig)
    log = rig.services.partitions.get("t", 0).log
    send(log, 5, 5)
    flush(log)
    log.delete_records_before(3)
    await rig.services.checkpoints.write()
    assert await committed(rig, 3) == ([], 5, 3, [])
