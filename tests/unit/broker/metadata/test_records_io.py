"""Frames of metadata records: bytes of Kafka 4.3.0, every type that we write, and refusals."""

import pytest

from broker.metadata.records_io import RECORDS, UnknownRecord, decode_record, encode_record
from protocol.errors import DecodeError
from protocol.metadata_records import (
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
)

TOPIC_ID = bytes.fromhex("f38486ebdb254ae0b55ec3d7893c4dfd")
OTHER_ID = bytes.fromhex("54667a1abf9c49649b323b88f7e7a799")
DIRECTORY_ID = bytes.fromhex("dc83e2214a5833e993573f66c7a5acdb")

# Taken from the metadata log of a Kafka 4.3.0 at metadata.version 30.
KAFKA_FRAMES = [
    (
        "01170001001212426f6f747374726170207265636f726473",
        BeginTransactionRecord(name="Bootstrap records"),
    ),
    (
        "010c00116d657461646174612e76657273696f6e001e00",
        FeatureLevelRecord(name="metadata.version", feature_level=30),
    ),
    (
        "0104000401146d696e2e696e73796e632e7265706c69636173023100",
        ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1"),
    ),
    ("01180000", EndTransactionRecord()),
    (
        "01020006706c61696ef38486ebdb254ae0b55ec3d7893c4dfd00",
        TopicRecord(name="plain", topic_id=TOPIC_ID),
    ),
    (
        (
            "01030200000000f38486ebdb254ae0b55ec3d7893c4dfd02000000010200000001010100000001"
            "000000000000000002dc83e2214a5833e993573f66c7a5acdb00"
        ),
        PartitionRecord(
            partition_id=0,
            topic_id=TOPIC_ID,
            replicas=[1],
            isr=[1],
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
            directories=[DIRECTORY_ID],
        ),
    ),
    (
        "010900525483d6b4a2456aa6ebf5a2c48e2cb900",
        RemoveTopicRecord(topic_id=bytes.fromhex("525483d6b4a2456aa6ebf5a2c48e2cb9")),
    ),
    (
        "010f0000000001000000000000000b00000000000003e800",
        ProducerIdsRecord(broker_id=1, broker_epoch=11, next_producer_id=1000),
    ),
    (
        (
            "0105020000000054667a1abf9c49649b323b88f7e7a799040001010104ffffffff"
            "0605020000000107050200000001"
        ),
        PartitionChangeRecord(
            partition_id=0,
            topic_id=OTHER_ID,
            isr=[],
            leader=-1,
            eligible_leader_replicas=[1],
            last_known_elr=[1],
        ),
    ),
]


@pytest.mark.parametrize(("frame", "record"), KAFKA_FRAMES)
def test_bytes_of_kafka(frame, record):
    assert encode_record(record) == bytes.fromhex(frame)
    assert decode_record(bytes.fromhex(frame)) == record


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        ("01140000", UnknownRecord(20, 0)),  # NO_OP_RECORD
        ("01110000000001000000000000000b010001ff", UnknownRecord(17, 0)),
        ("01ac0263ffff", UnknownRecord(300, 99)),  # not even the current Kafka knows it
    ],
)
def test_types_without_a_meaning_here(frame, expected):
    assert decode_record(bytes.fromhex(frame)) == expected


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        ("", "ends inside its frame"),
        ("01", "ends inside its frame"),
        ("0102", "ends inside its frame"),
        ("0182", "ends inside its frame"),
        ("02020006706c61696e", "frame version 2, expected 1"),
        ("01030300000000", "PartitionRecord of version 3: versions 0 to 2 are known"),
        ("01020106706c61696e", "TopicRecord of version 1"),
        ("01ffffffffffff0f00", "longer than 5 bytes"),
        ("01020006706c61696ef38486ebdb254ae0b55ec3d7893c4dfd0000", "1 bytes are left behind"),
    ],
)
def test_refused_frames(frame, text):
    with pytest.raises(DecodeError, match=text):
        decode_record(bytes.fromhex(frame))


@pytest.mark.parametrize(("frame", "_record"), KAFKA_FRAMES)
def test_every_cut_frame_is_a_decode_error(frame, _record):
    whole = bytes.fromhex(frame)
    for size in range(len(whole)):
        with pytest.raises(DecodeError):
            decode_record(whole[:size])


def test_versions_written_are_known_versions():
    for cls, version in RECORDS.items():
        low, high = cls.MESSAGE.versions
        assert low <= version <= high, cls.__name__
