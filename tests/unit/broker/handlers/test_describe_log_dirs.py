"""DescribeLogDirs: bytes of partitions and of the volume. Compared with Kafka."""

import shutil
from pathlib import Path

import pytest

from protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from tests.support.broker_rig import Rig, batch
from tests.support.rig_client import ask, create, produce

Sizes = dict[str, dict[int, int]]


def request(*topics: tuple[str, list[int]]) -> DescribeLogDirsRequest:
    return DescribeLogDirsRequest(
        topics=[DescribableLogDirTopic(topic=name, partitions=numbers) for name, numbers in topics]
    )


async def sizes(rig: Rig, body: DescribeLogDirsRequest) -> Sizes:
    answer = await ask(rig, body, 5)
    assert answer.error_code == 0
    (directory,) = answer.results
    assert directory.error_code == 0
    for topic in directory.topics:
        for one in topic.partitions:
            assert (one.offset_lag, one.is_future_key) == (0, False)
    found = {
        topic.name: {one.partition_index: one.partition_size for one in topic.partitions}
        for topic in directory.topics
    }
    count = sum(len(topic.partitions) for topic in directory.topics)
    assert sum(len(numbers) for numbers in found.values()) == count
    return found


async def fill(rig: Rig) -> int:
    """Create qa and qb; return the size of qa-0 in bytes."""
    await create(rig, "qa", 2)
    await create(rig, "qb", 3)
    records = batch(b"x", b"y")
    await produce(rig, records, topic="qa")
    await produce(rig, batch(b"x", b"y"), topic="qa")
    return 2 * len(records)


@pytest.mark.parametrize("version", range(1, 6))
async def test_every_version_returns_its_fields(rig: Rig, tmp_path: Path, version: int) -> None:
    size = await fill(rig)
    (directory,) = (await ask(rig, request(("qa", [0])), version)).results
    assert directory.log_dir == str(tmp_path / "data")
    ((partition,),) = (topic.partitions for topic in directory.topics)
    assert (partition.partition_index, partition.partition_size) == (0, size)
    assert not directory.is_cordoned
    if version >= 4:
        volume = shutil.disk_usage(tmp_path)
        assert directory.total_bytes == volume.total
        assert directory.usable_bytes == pytest.approx(volume.free, rel=0.05)
    else:
        assert (directory.total_bytes, directory.usable_bytes) == (-1, -1)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ([], {}),
        ([("qa", [0])], {"qa": [0]}),
        ([("qa", [])], {}),
        ([("nope", [0])], {}),
        ([("qa", [0, 9, -1])], {"qa": [0]}),
        ([("qb", [2]), ("nope", [1]), ("qa", [1])], {"qb": [2], "qa": [1]}),
        ([("qa", [0]), ("qa", [1]), ("qa", [1, 1])], {"qa": [0, 1]}),
        ([("__cluster_metadata", [0])], {}),
    ],
    ids=repr,
)
async def test_existing_partitions_are_answered_once_and_others_omitted(
    rig: Rig, wanted: list[tuple[str, list[int]]], expected: dict[str, list[int]]
) -> None:
    await fill(rig)
    found = await sizes(rig, request(*wanted))
    assert {name: list(numbers) for name, numbers in found.items()} == expected


async def test_null_selects_all_but_the_metadata_log(rig: Rig) -> None:
    size = await fill(rig)
    assert await sizes(rig, DescribeLogDirsRequest(topics=None)) == {
        "qa": {0: size, 1: 0},
        "qb": {0: 0, 1: 0, 2: 0},
    }


async def test_a_failed_query_of_the_directory_is_an_error(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object, path: str) -> int:
        raise OSError(5, "input/output error", path)

    with monkeypatch.context() as patched:
        patched.setattr(type(rig.services.logs.directory.filesystem), "total_bytes", fail)
        answer = await ask(rig, request(), 3)
    assert (answer.error_code, answer.results) == (56, [])
