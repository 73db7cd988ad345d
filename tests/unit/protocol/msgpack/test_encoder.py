"""Messages as maps: every field of the version, by its name, and no others."""

from typing import Any

import msgpack
import pytest

from protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol.msgpack.encoder import ELEMENTS_A_STEP, encoder, packed_in_steps, step_encoder
from tests.support.message_fields import api_messages, fields_in


@pytest.mark.parametrize("cls", api_messages(), ids=lambda cls: cls.__name__)
def test_a_map_has_the_fields_of_the_version(cls: type) -> None:
    version = cls.MESSAGE.version_max  # type: ignore[attr-defined]
    names = [field.name for field in fields_in(cls, version)]
    asked: list[str] = []

    class Asked:
        def __getattr__(self, name: str) -> None:
            asked.append(name)

    assert sorted(encoder(cls, version)(Asked())) == sorted(names)
    assert set(asked) == set(names)


def test_lists_and_nested_messages_are_arrays_and_maps() -> None:
    partition = PartitionData(
        partition_index=3,
        high_watermark=9,
        diverging_epoch=EpochEndOffset(epoch=1, end_offset=2),
        records=b"batches",
    )
    topic = FetchableTopicResponse(topic_id=b"u" * 16, partitions=[partition])
    made = encoder(FetchResponse, 18)(FetchResponse(responses=[topic]))
    (topic_map,) = made["responses"]
    assert set(topic_map) == {"topic_id", "partitions"}
    (partition_map,) = topic_map["partitions"]
    assert partition_map["diverging_epoch"] == {"epoch": 1, "end_offset": 2}
    assert partition_map["current_leader"] is None
    assert partition_map["records"] == b"batches"


def test_maps_can_be_packed() -> None:
    message = MetadataResponse(topics=[MetadataResponseTopic(name=None)])
    made = encoder(MetadataResponse, 13)(message)
    assert msgpack.unpackb(msgpack.packb(made)) == made


@pytest.mark.parametrize(("topics", "partitions"), [(0, 0), (1, 3000), (300, 5), (100, 100)])
def test_encoding_in_steps_gives_the_same_bytes(topics: int, partitions: int) -> None:
    message = MetadataResponse(
        topics=[
            MetadataResponseTopic(
                name=f"t{topic}",
                partitions=[
                    MetadataResponsePartition(
                        partition_index=number, leader_id=1, replica_nodes=[1], isr_nodes=[1]
                    )
                    for number in range(partitions)
                ],
            )
            for topic in range(topics)
        ]
    )
    whole = encoder(MetadataResponse, 13)(message)
    making = step_encoder(MetadataResponse, 13)(message)
    made, step_count = run(making)
    assert made == whole
    packed, grown = run(packed_in_steps([7, made]))
    assert msgpack.unpackb(packed) == [7, whole]
    assert packed == msgpack.packb([7, whole])
    assert len(step_count) >= topics * partitions / ELEMENTS_A_STEP**2
    assert max(grown, default=0) < 8192


def run(steps: Any) -> tuple[Any, list[int]]:
    """Run a generator; return its result and the values it yielded."""
    yielded: list[int] = []
    while True:
        try:
            yielded.append(next(steps))
        except StopIteration as end:
            return end.value, yielded
