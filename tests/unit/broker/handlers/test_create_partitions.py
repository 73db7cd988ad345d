"""CreatePartitions: growth, and each reason for a refusal. Compared with Kafka.

The rules are tested with broker/metadata/growth.py; these tests show what a client sees.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from storage.errors import LogFailed
from tests.support.broker_rig import Rig, batch
from tests.support.rig_client import ask, crash, create, produce

Wanted = tuple[str, int] | tuple[str, int, list[list[int]]]


def request(*wanted: Wanted, validate_only: bool = False) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(
                name=name,
                count=count,
                assignments=(
                    [CreatePartitionsAssignment(broker_ids=ids) for ids in rest[0]]
                    if rest
                    else None
                ),
            )
            for name, count, *rest in wanted
        ],
        timeout_ms=5_000,
        validate_only=validate_only,
    )


async def codes(rig: Rig, *wanted: Wanted, **options: bool) -> list[tuple[str, int]]:
    answer = await ask(rig, request(*wanted, **options), 3)
    return [(result.name, result.error_code) for result in answer.results]


def count_of(rig: Rig, name: str = "t") -> int:
    return len(rig.services.controller.image.topics[name].partitions)


async def partitions_seen(rig: Rig) -> list[tuple[int, int]]:
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    (topic,) = (await ask(rig, wanted, 9)).topics
    return [(one.partition_index, one.error_code) for one in topic.partitions]


@pytest.mark.parametrize("version", range(4))
async def test_every_version_adds_partitions_that_can_be_written_at_once(
    rig: Rig, version: int
) -> None:
    await create(rig, count=2)
    (result,) = (await ask(rig, request(("t", 4)), version)).results
    assert (result.name, result.error_code, result.error_message) == ("t", 0, None)
    metadata_log = rig.services.controller.metadata_log.log
    assert metadata_log.durable_offset == metadata_log.end_offset
    assert await partitions_seen(rig) == [(number, 0) for number in range(4)]
    assert await produce(rig, batch(b"x"), partition=3) == 0


async def test_records_of_the_old_partitions_stay(rig: Rig) -> None:
    await create(rig)
    await produce(rig, batch(b"x", b"y"))
    log = rig.services.partitions.get("t", 0).log
    await codes(rig, ("t", 30))
    assert rig.services.partitions.get("t", 0).log is log
    assert await produce(rig, batch(b"z")) == 2


async def test_the_new_partitions_survive_a_crash(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data")
    await create(rig, count=1)
    await codes(rig, ("t", 3))
    await produce(rig, batch(b"x"), partition=2)
    await crash(rig)
    again = Rig(tmp_path / "data")
    assert await partitions_seen(again) == [(0, 0), (1, 0), (2, 0)]
    assert again.services.partitions.get("t", 2).log.end_offset == 1
    assert await again.close()


async def test_each_topic_has_its_own_outcome(rig: Rig) -> None:
    await create(rig, "pa", 2)
    await create(rig, "pb", 2)
    wanted: list[Wanted] = [("nope", 3), ("pa", 3), ("twice", 1), ("pb", 1), ("twice", 2)]
    answer = await ask(rig, request(*wanted), 3)
    assert [(one.name, one.error_code, one.error_message) for one in answer.results] == [
        ("twice", 42, "Duplicate topic name."),
        ("nope", 3, answer.results[1].error_message),
        ("pa", 0, None),
        ("pb", 37, "The topic pb currently has 2 partition(s); 1 would not be an increase."),
    ]
    assert (count_of(rig, "pa"), count_of(rig, "pb")) == (3, 2)


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (("t", 2), 37),
        (("t", 1), 37),
        (("t", 0), 37),
        (("t", -1), 37),
        (("t", 1, [[1]]), 37),
        (("t", 2, []), 37),
        (("", 3), 3),
        (("a b", 3), 3),
        (("__cluster_metadata", 3), 3),
        (("t", 3, [[1]]), 0),
        (("t", 3, []), 39),
        (("t", 3, [[1], [1]]), 39),
        (("t", 3, [[]]), 39),
        (("t", 3, [[2]]), 39),
        (("t", 3, [[-1]]), 39),
        (("t", 3, [[1, 1]]), 39),
        (("t", 3, [[1, 2]]), 39),
        (("t", 4, [[1], [2]]), 39),
        (("t", 20_000), -1),
    ],
    ids=repr,
)
@pytest.mark.parametrize("validate_only", [True, False])
async def test_refusals(rig: Rig, wanted: Any, code: int, validate_only: bool) -> None:
    await create(rig, count=2)
    assert await codes(rig, wanted, validate_only=validate_only) == [(wanted[0], code)]
    assert count_of(rig) == (3 if code == 0 and not validate_only else 2)


async def test_an_empty_request_has_an_empty_answer(rig: Rig) -> None:
    assert await codes(rig) == []


async def test_many_at_once_do_not_open_a_partition_twice(rig: Rig) -> None:
    await create(rig)
    answers = await asyncio.gather(*(codes(rig, ("t", count)) for count in (20, 30, 45)))
    assert answers == [[("t", 0)]] * 3
    assert await partitions_seen(rig) == [(number, 0) for number in range(45)]


async def test_a_topic_deleted_in_the_meantime_leaves_no_log_open(rig: Rig) -> None:
    await create(rig)
    delete = DeleteTopicsRequest(topic_names=["t"], timeout_ms=5_000)
    (_, deleted) = await asyncio.gather(codes(rig, ("t", 50)), ask(rig, delete, 5))
    assert deleted.responses[0].error_code == 0
    assert len(rig.services.partitions) == 0


async def test_a_failed_metadata_log_answers_for_every_topic(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(rig)

    def fail(*_: object, **__: object) -> int:
        raise LogFailed("/data/__cluster_metadata-0", "fsync failed")

    with monkeypatch.context() as patched:
        patched.setattr(rig.services.controller.metadata_log, "append", fail)
        assert await codes(rig, ("t", 2), ("nope", 2)) == [("t", 56), ("nope", 56)]
    assert count_of(rig) == 1
