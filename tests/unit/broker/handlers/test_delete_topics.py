"""DeleteTopics: by name and by id, once and twice. Compared with Kafka."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from broker.metadata.metadata_log import encode_batch
from protocol.errors import ErrorCode
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.wire import ZERO_UUID
from storage.errors import LogFailed
from tests.support.broker_rig import Rig, batch
from tests.support.rig_client import ask, create, produce

STRANGE_ID = b"x" * 16
BAD = ErrorCode.INVALID_REQUEST


def by_names(*names: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topic_names=list(names), timeout_ms=5_000)


def by_states(*states: tuple[str | None, bytes | None]) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(
        topics=[
            DeleteTopicState(name=name, topic_id=topic_id or ZERO_UUID) for name, topic_id in states
        ],
        timeout_ms=5_000,
    )


@pytest.mark.parametrize("version", range(1, 6))
async def test_by_name_in_every_version(rig: Rig, version: int) -> None:
    await create(rig, "a", 2)
    await create(rig, "b")
    response = await ask(rig, by_names("a", "nobody"), version)
    assert [(answer.name, answer.error_code) for answer in response.responses] == [
        ("a", 0),
        ("nobody", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    messages = [answer.error_message for answer in response.responses]
    assert messages[0] is None
    assert bool(messages[1]) == (version >= 5)
    assert set(rig.services.controller.image.topics) == {"b"}
    assert [partition.log.topic for partition in rig.services.partitions.all()] == ["b"]


@pytest.mark.parametrize(
    ("wanted", "answers", "gone"),
    [
        ([("a", None)], [("a", "a", 0)], "a"),
        ([(None, "a")], [("a", "a", 0)], "a"),
        ([("a", None), (None, "b")], [("a", "a", 0), ("b", "b", 0)], "ab"),
        ([(None, "?")], [(None, "?", ErrorCode.UNKNOWN_TOPIC_ID)], ""),
        ([("no", None)], [("no", None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)], ""),
        ([("a", "a")], [("a", "a", BAD)], ""),
        ([("a", "?")], [("a", "?", BAD)], ""),
        ([("a", "b"), ("b", "a")], [("a", "b", BAD), ("b", "a", BAD)], ""),
        ([(None, None)], [(None, None, BAD)], ""),
        ([(None, None), (None, None)], [(None, None, BAD)] * 2, ""),
        ([("a", None), ("a", None), ("b", None)], [("a", None, BAD), ("b", "b", 0)], "b"),
        ([("a", None), ("b", None), ("a", None)], [("a", None, BAD), ("b", "b", 0)], "b"),
        ([(None, "a"), (None, "a")], [(None, "a", BAD)], ""),
        ([(None, "?"), (None, "?")], [(None, "?", BAD)], ""),
        ([("no", None), ("no", None)], [("no", None, BAD)], ""),
        ([("a", None), (None, "a")], [("a", "a", BAD)], ""),
        ([(None, "a"), ("a", None)], [("a", "a", BAD)], ""),
        ([("a", None), ("a", "a")], [("a", "a", 0), ("a", "a", BAD)], "a"),
        ([("a", None), ("a", None), (None, "a")], [("a", None, BAD), ("a", "a", 0)], "a"),
        (
            [("a", None), (None, "a"), (None, "a")],
            [("a", "a", BAD), (None, "a", BAD)],
            "",
        ),
    ],
)
async def test_by_name_or_by_id(
    rig: Rig,
    wanted: list[tuple[str | None, str | None]],
    answers: list[tuple[str | None, str | None, int]],
    gone: str,
) -> None:
    ids: dict[str | None, bytes] = {None: ZERO_UUID, "?": STRANGE_ID}
    for name in "ab":
        ids[name] = await create(rig, name)
    response = await ask(rig, by_states(*((name, ids[of]) for name, of in wanted)), 6)
    assert [(answer.name, answer.topic_id, answer.error_code) for answer in response.responses] == [
        (name, ids[of], code) for name, of, code in answers
    ]
    assert all(
        bool(answer.error_message) == bool(answer.error_code) for answer in response.responses
    )
    assert set(rig.services.controller.image.topics) == set("ab") - set(gone)


async def test_names_given_twice_before_ids(rig: Rig) -> None:
    await create(rig, "a")
    response = await ask(rig, by_names("a", "a", "a"), 5)
    assert [(answer.name, answer.error_code) for answer in response.responses] == [("a", BAD)]
    assert "a" in rig.services.controller.image.topics


@pytest.mark.parametrize("name", ["__cluster_metadata", "", ".."])
async def test_unknown_topics_are_refused(rig: Rig, name: str) -> None:
    response = await ask(rig, by_names(name), 5)
    assert response.responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_an_empty_request_has_an_empty_answer(rig: Rig) -> None:
    assert (await ask(rig, by_names(), 5)).responses == []
    assert (await ask(rig, by_states(), 6)).responses == []


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (1, ErrorCode.INVALID_REQUEST),
        (2, ErrorCode.INVALID_REQUEST),
        (3, ErrorCode.TOPIC_DELETION_DISABLED),
        (5, ErrorCode.TOPIC_DELETION_DISABLED),
        (6, ErrorCode.TOPIC_DELETION_DISABLED),
    ],
)
async def test_deletion_may_be_disabled(tmp_path: Path, version: int, code: ErrorCode) -> None:
    rig = Rig(tmp_path / "data", delete_topic_enable="false")
    topic_id = await create(rig, "a")
    if version == 6:
        body = by_states(("a", None), (None, topic_id), (None, STRANGE_ID))
    else:
        body = by_names("a", "nobody", "a")
    response = await ask(rig, body, version)
    assert [answer.error_code for answer in response.responses] == [code] * 3
    assert set(rig.services.controller.image.topics) == {"a"}
    assert await rig.close()


async def test_the_answer_comes_once_the_deletion_is_durable_and_the_files_are_renamed(
    rig: Rig, tmp_path: Path
) -> None:
    first_id = await create(rig, "a")
    await produce(rig, batch(b"x"), topic="a")
    await ask(rig, by_names("a"), 5)
    metadata_log = rig.services.controller.metadata_log.log
    assert metadata_log.durable_offset == metadata_log.end_offset
    names = [path.name for path in (tmp_path / "data").iterdir() if path.is_dir()]
    assert "a-0" not in names
    assert sum(name.startswith("a-0.") and name.endswith("-delete") for name in names) == 1
    # A new topic of that name is another topic.
    assert await create(rig, "a") != first_id
    assert await produce(rig, batch(b"y"), topic="a") == 0


async def test_two_clients_delete_the_same_topic(rig: Rig) -> None:
    await create(rig, "a")
    both = [asyncio.create_task(ask(rig, by_names("a"), 5)) for _ in range(2)]
    codes = [(await one).responses[0].error_code for one in both]
    assert sorted(codes) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


async def test_a_waiting_fetch_is_answered(rig: Rig) -> None:
    await create(rig, "a")
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
    body = FetchRequest(
        max_wait_ms=60_000, min_bytes=1, topics=[FetchTopic(topic="a", partitions=[partition])]
    )
    fetch = asyncio.create_task(ask(rig, body, 12))
    while not rig.services.metrics.fetches_parked:
        await asyncio.sleep(0)
    await ask(rig, by_names("a"), 5)
    (answer,) = (await fetch).responses[0].partitions
    assert answer.records == b""
    assert rig.services.metrics.fetches_parked_now == 0


async def test_a_failed_metadata_log_deletes_no_topic(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data")
    await create(rig, "a")
    rig.services.controller.metadata_log.log.failed = LogFailed("metadata", "fsync failed")
    for body, version in ((by_names("a"), 5), (by_states(("a", None)), 6)):
        response = await ask(rig, body, version)
        assert [answer.error_code for answer in response.responses] == [
            ErrorCode.KAFKA_STORAGE_ERROR
        ]
    assert set(rig.services.controller.image.topics) == {"a"}
    assert not await rig.close()


@pytest.mark.parametrize("version", [5, 6])
async def test_a_late_deletion_spares_the_next_topic_of_that_name(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    topic_id = await create(rig, "t")
    rooms = [threading.Event(), threading.Event()]
    waiting = iter(rooms)

    def encode(*arguments: Any) -> bytearray:
        if (room := next(waiting, None)) is not None:
            room.wait()
        return encode_batch(*arguments)

    monkeypatch.setattr("broker.topics.encode_batch", encode)
    monkeypatch.setattr("broker.topics.RECORDS_ENCODED_HERE_MAX", 0)
    late_one = by_names("t") if version < 6 else by_states((None, topic_id))

    async def in_turn(call: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.create_task(call)
        for _ in range(5):  # until it waits for its turn
            await asyncio.sleep(0)
        return task

    first = await in_turn(create(rig, "first"))
    gone = await in_turn(rig.services.topics.delete("t"))
    second = await in_turn(create(rig, "second"))
    again = await in_turn(create(rig, "t"))
    late = await in_turn(rig.call(late_one, version))
    rooms[0].set()
    await asyncio.gather(first, gone)
    rooms[1].set()
    await asyncio.gather(second, again)
    (answer,) = (await late).responses
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if version < 6 else ErrorCode.UNKNOWN_TOPIC_ID
    assert answer.error_code == unknown
    topic = rig.services.topics.by_name("t")
    assert topic is not None
    assert topic.topic_id == again.result()
    assert await produce(rig, batch(b"a")) == 0
