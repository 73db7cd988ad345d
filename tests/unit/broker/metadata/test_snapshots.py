"""An image written as a snapshot and read again, with the records that only Kafka understands."""

from pathlib import Path

from broker.metadata.image import ClusterImage
from broker.metadata.image_loading import load_image, read_snapshot
from broker.metadata.records_io import UnknownRecord, decode_record, encode_record
from broker.metadata.snapshots import RECORDS_PER_BATCH, image_records, snapshot_bytes
from protocol.metadata_records import (
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from protocol.records import Record, batches
from tests.support.memory_filesystem import MemoryFileSystem

GOLDEN = Path(__file__).parents[3] / "golden" / "kafka_metadata"
DIRECTORY = "/data/__cluster_metadata-0"
ID = bytes(range(16))
NOW_MS = 1_700_000_000_000
UNKNOWN = bytes.fromhex("010a00ffee")  # a record of type 10
USER = bytes.fromhex("010b0006616c696365010573616c740773746f726564077365727665720000100000")
NO_OP = bytes.fromhex("01140000")


def disk():
    filesystem = MemoryFileSystem()
    for path in ("/data", DIRECTORY):
        filesystem.mkdir(path)
    return filesystem


def image_of(*records):
    image = ClusterImage()
    for record in records:
        image.apply(record)
    return image


def full_image(topic_count=2):
    records = [
        FeatureLevelRecord(name="group.version", feature_level=1),
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        RegisterBrokerRecord(broker_id=1, incarnation_id=ID, broker_epoch=9),
        decode_record(UNKNOWN),
        decode_record(NO_OP),
        ConfigRecord(resource_type=4, resource_name="", name="a.b", value="1"),
        ConfigRecord(resource_type=32, resource_name="client", name="c", value="2"),
        ProducerIdsRecord(broker_id=1, broker_epoch=9, next_producer_id=3_000),
        decode_record(USER),
    ]
    for number in range(topic_count):
        topic_id = number.to_bytes(16, "big")
        records += [
            TopicRecord(name=f"t.{number}", topic_id=topic_id),
            PartitionRecord(
                partition_id=0, topic_id=topic_id, replicas=[1], isr=[1], leader=1,
                leader_epoch=number, partition_epoch=7, directories=[ID], last_known_elr=[1],
            ),
            ConfigRecord(resource_type=2, resource_name=f"t.{number}", name="k", value="v"),
        ]  # fmt: skip
    return image_of(*records)


def what_it_says(image):
    return (
        image.topics, image.broker_configs, image.other_configs, image.feature_levels,
        image.next_producer_id, image.broker_epochs, list(image.scram.records()),
        [getattr(r, "frame", r) for r in image.kept],
    )  # fmt: skip


def written(filesystem, image, voters=None, end_offset=50):
    data = snapshot_bytes(image_records(image), voters or {}, epoch=3, timestamp_ms=NOW_MS)
    filesystem.replace(f"{DIRECTORY}/{end_offset:020}-0000000003.checkpoint", data)
    return data


def test_an_image_is_read_back_unchanged():
    image = full_image()
    filesystem = disk()
    data = written(filesystem, image)
    filesystem.replace(f"{DIRECTORY}/{50:020}.log", b"")
    found = load_image(filesystem, DIRECTORY)
    assert what_it_says(found.image) == what_it_says(image)
    assert found.snapshot == "00000000000000000050-0000000003.checkpoint"
    assert (found.end_offset, found.warnings) == (50, [])
    assert UNKNOWN in data
    assert USER in data
    assert NO_OP not in data
    assert encode_record(FeatureLevelRecord(name="metadata.version", feature_level=30)) in data


def test_batches_are_bounded_and_gapless():
    data = written(disk(), full_image(1_000))
    headers = [header for _, header in batches(data)]
    assert headers[0].is_control
    assert headers[-1].is_control
    assert [header.record_count for header in headers[1:-1]][:3] == [RECORDS_PER_BATCH] * 3
    ends = [header.next_offset for header in headers]
    assert [header.base_offset for header in headers] == [0, *ends[:-1]]
    assert {header.leader_epoch for header in headers} == {3}
    assert {header.max_timestamp for header in headers} == {NOW_MS}


def test_kafkas_records_are_kept_unchanged():
    """A snapshot of Kafka that is read and written again holds the same records."""
    filesystem = disk()
    path = f"{DIRECTORY}/{39:020}-0000000001.checkpoint"
    filesystem.replace(path, (GOLDEN / "snapshot_39.checkpoint").read_bytes())
    frames, image = [], ClusterImage()
    for frame, record in read_snapshot(filesystem, path):
        image.apply(record)
        if not isinstance(record, NoOpRecord):
            frames.append(bytes(frame))
    again = [
        record.frame if isinstance(record, UnknownRecord) else encode_record(record)
        for record in image_records(image)
    ]
    assert sorted(again) == sorted(frames)


def test_voters_are_kept():
    filesystem = disk()
    voters = {kind: Record(0, 0, kind.to_bytes(4, "big"), b"voters %d" % kind) for kind in (6, 5)}
    written(filesystem, full_image(), voters)
    filesystem.replace(f"{DIRECTORY}/{50:020}.log", b"")
    found = load_image(filesystem, DIRECTORY).voters
    assert {kind: (record.key, record.value) for kind, record in found.items()} == {
        kind: (record.key, record.value) for kind, record in voters.items()
    }
