"""Reading a metadata directory: Kafka's own, every kind of damage, and what a crash leaves."""

from pathlib import Path

import pytest

from broker.metadata.image_loading import CONTROL_KEY, load_image, read_snapshot
from broker.metadata.records_io import encode_record
from protocol.kafka.codec import encode_message
from protocol.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ControlRecordType,
    EndTransactionRecord,
    FeatureLevelRecord,
    LeaderChangeMessage,
    NoOpRecord,
    PartitionRecord,
    RemoveTopicRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    TopicRecord,
)
from protocol.records import Record, batches, build
from storage.errors import CorruptMetadata
from storage.files.filenames import log_name, metadata_snapshot_name
from tests.support.memory_filesystem import MemoryFileSystem

GOLDEN = Path(__file__).parents[3] / "golden" / "kafka_metadata"
DIRECTORY = "/data/__cluster_metadata-0"
LEVEL = FeatureLevelRecord(name="metadata.version", feature_level=30)
NOW_MS = 1_700_000_000_000


def topic(number):
    return TopicRecord(name=f"t{number}", topic_id=bytes([number]) * 16)


class LogBytes:
    """Consecutive batches, as in a log file."""

    def __init__(self, base_offset=0, epoch=1):
        self.end_offset = base_offset
        self.epoch = epoch
        self.data = bytearray()
        self.positions = []

    def add(self, records, *, control=False):
        self.positions.append(len(self.data))
        self.data += build(
            records, base_offset=self.end_offset, leader_epoch=self.epoch, control=control
        )
        self.end_offset += len(records)
        return self

    def change_leader(self, epoch):
        self.epoch = epoch
        message = LeaderChangeMessage(version=0, leader_id=1)
        return self.control((ControlRecordType.LEADER_CHANGE, message))

    def control(self, *messages):
        records = [
            Record(0, NOW_MS, CONTROL_KEY.pack(0, kind), encode_message(message, 0))
            for kind, message in messages
        ]
        return self.add(records, control=True)

    def records(self, *records):
        return self.add([Record(0, NOW_MS, None, encode_record(record)) for record in records])

    def frames(self, *frames):
        return self.add([Record(0, NOW_MS, None, frame) for frame in frames])


def snapshot_bytes(*records, footer=True):
    snapshot = LogBytes()
    snapshot.control(
        (ControlRecordType.SNAPSHOT_HEADER, SnapshotHeaderRecord(last_contained_log_timestamp=0))
    )
    snapshot.records(*records)
    if footer:
        snapshot.control((ControlRecordType.SNAPSHOT_FOOTER, SnapshotFooterRecord()))
    return snapshot.data


def disk(files):
    filesystem = MemoryFileSystem()
    filesystem.mkdir("/data")
    filesystem.mkdir(DIRECTORY)
    for name, data in files.items():
        put(filesystem, f"{DIRECTORY}/{name}", data)
    return filesystem


def put(filesystem, path, data):
    file = filesystem.open(path, create=True)
    file.pwrite(bytes(data), 0)
    file.fdatasync()
    file.close()


def three_topics():
    """LeaderChange at 0, level and topic at 1 and 2, a topic at 3, a topic at 4."""
    log = LogBytes().change_leader(1)
    return log.records(LEVEL, topic(1)).records(topic(2)).records(topic(3))


def loaded(data, **more):
    return load_image(disk({log_name(0): data, **more}), DIRECTORY)


# -- Kafka's own directories ----------------------------------------------------------------------


def test_a_kafka_that_was_stopped():
    data = (GOLDEN / "clean_stop.log").read_bytes()
    result = loaded(data)
    image = result.image
    assert (result.end_offset, result.epoch, result.is_new) == (120, 2, False)
    assert sorted(image.topics) == ["conf", "plain"]
    assert image.topics["conf"].configs == {
        "cleanup.policy": "compact,delete",
        "retention.ms": "7200000",
    }
    assert [(p.leader, p.isr) for p in image.topics["plain"].partitions] == [(-1, []), (-1, [])]
    assert image.topics["plain"].partitions[1].leader_epoch == 3
    assert image.next_producer_id == 1000
    assert image.broker_epochs == {1: 101}
    assert len(image.feature_levels) == 6


def test_a_kafka_with_a_snapshot_reads_the_same_with_and_without_its_log():
    log = (GOLDEN / "behind_snapshot.log").read_bytes()
    snapshot = (GOLDEN / "snapshot_39.checkpoint").read_bytes()
    name = metadata_snapshot_name(39, 1)
    whole = loaded(log)
    both = loaded(log, **{name: snapshot})
    assert (whole.snapshot, both.snapshot) == ("", name)
    cut = next(position for position, header in batches(log) if header.base_offset == 39)
    rest = load_image(disk({log_name(39): log[cut:], name: snapshot}), DIRECTORY)
    for result in (both, rest):
        assert result.end_offset == whole.end_offset
        assert result.image.topics == whole.image.topics
        assert result.image.feature_levels == whole.image.feature_levels
        assert result.image.next_producer_id == whole.image.next_producer_id == 1000
    assert rest.start_offset == 39


def test_kafkas_bootstrap_file():
    filesystem = disk({"bootstrap.checkpoint": (GOLDEN / "bootstrap.checkpoint").read_bytes()})
    records = read_snapshot(filesystem, f"{DIRECTORY}/bootstrap.checkpoint")
    assert next(record.name for _frame, record in records) == "metadata.version"
    assert len(records) == 6


# -- What belongs together ------------------------------------------------------------------------


def test_an_empty_directory():
    filesystem = MemoryFileSystem()
    filesystem.mkdir("/data")
    assert load_image(filesystem, DIRECTORY).is_new
    assert load_image(disk({}), DIRECTORY).is_new
    assert loaded(b"").is_new


def test_foreign_files_are_left_alone():
    result = loaded(
        three_topics().data,
        **{"quorum-state": b"{}", "00000000000000000003-0000000001.checkpoint.part": b"half"},
    )
    assert list(result.image.topics) == ["t1", "t2", "t3"]


@pytest.mark.parametrize(
    ("name", "records", "topics", "in_transaction"),
    [
        ("ended", [BeginTransactionRecord(), topic(9), EndTransactionRecord()], {"t9"}, False),
        ("aborted", [BeginTransactionRecord(), topic(9), AbortTransactionRecord()], set(), False),
        ("open", [BeginTransactionRecord(), topic(9)], set(), True),
        (
            "one after the other",
            [
                BeginTransactionRecord(),
                topic(8),
                AbortTransactionRecord(),
                topic(9),
                BeginTransactionRecord(),
                RemoveTopicRecord(topic_id=b"\x09" * 16),
                topic(7),
                EndTransactionRecord(),
            ],
            {"t7"},
            False,
        ),
    ],
)
@pytest.mark.parametrize("together", [True, False], ids=["one batch", "a batch a record"])
def test_record_transactions(name, records, topics, in_transaction, together):
    log = LogBytes().change_leader(1).records(LEVEL)
    if together:
        log.records(*records)
    else:
        for record in records:
            log.records(record)
    result = loaded(log.data)
    assert set(result.image.topics) == topics, name
    assert result.in_transaction is in_transaction


@pytest.mark.parametrize(
    ("records", "text"),
    [
        ([EndTransactionRecord()], "ends without having begun"),
        ([AbortTransactionRecord()], "aborted without having begun"),
        ([BeginTransactionRecord(), BeginTransactionRecord()], "begins inside another"),
        ([topic(1), topic(1)], "topic t1 is created a second time"),
    ],
)
def test_contradictory_records_are_refused(records, text):
    log = LogBytes().change_leader(1).records(LEVEL, *records)
    with pytest.raises(CorruptMetadata, match=text):
        loaded(log.data)


def test_several_segments():
    first = LogBytes().change_leader(1).records(LEVEL, topic(1))
    second = LogBytes(3, epoch=1).records(topic(2))
    files = {log_name(0): first.data, log_name(3): second.data, log_name(4): b""}
    result = load_image(disk(files), DIRECTORY)
    assert (result.end_offset, list(result.image.topics)) == (4, ["t1", "t2"])


def test_a_batch_longer_than_a_chunk(monkeypatch):
    log = three_topics()
    monkeypatch.setattr("broker.metadata.image_loading.CHUNK_BYTES", 64)
    assert list(loaded(log.data).image.topics) == ["t1", "t2", "t3"]


def test_ten_thousand_partitions_in_a_batch():
    partitions = [
        PartitionRecord(
            partition_id=number,
            topic_id=b"\1" * 16,
            replicas=[1],
            isr=[1],
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
            directories=[b"D" * 16],
        )
        for number in range(9_999)
    ]
    log = LogBytes().change_leader(1).records(LEVEL).records(topic(1), *partitions)
    assert loaded(log.data).image.partition_count == 9_999


def test_the_topics_that_were_removed_since_the_snapshot():
    def removed(number):
        return RemoveTopicRecord(topic_id=bytes([number]) * 16)

    begin, end = BeginTransactionRecord(), EndTransactionRecord()
    log = three_topics().records(removed(1)).records(begin, removed(2), end)
    log.records(begin, removed(3), AbortTransactionRecord())
    assert loaded(log.data).removed == {bytes([1]) * 16, bytes([2]) * 16}
    snapshot = {metadata_snapshot_name(6, 1): snapshot_bytes(LEVEL, topic(2), topic(3))}
    assert loaded(log.data, **snapshot).removed == {bytes([2]) * 16}


# -- Snapshots ------------------------------------------------------------------------------------


def test_the_newest_whole_snapshot_is_used():
    log = three_topics()
    newest = metadata_snapshot_name(4, 1)
    files = {
        metadata_snapshot_name(0, 0): b"voters only, never read",
        metadata_snapshot_name(3, 1): snapshot_bytes(LEVEL, topic(1)),
        newest: snapshot_bytes(LEVEL, topic(1), topic(2), footer=False),
    }
    result = loaded(log.data, **files)
    assert result.snapshot == metadata_snapshot_name(3, 1)
    assert newest in result.warnings[0]
    assert list(result.image.topics) == ["t1", "t2", "t3"]


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        snapshot_bytes(LEVEL)[:-1],
        snapshot_bytes(LEVEL)[80:],
        bytes(300),
        snapshot_bytes(topic(1), topic(1)),
    ],
    ids=["empty", "cut", "headless", "zeroes", "contradicting"],
)
def test_a_bad_snapshot_is_skipped_or_refused(bad):
    name = metadata_snapshot_name(3, 1)
    log = three_topics()
    assert loaded(log.data, **{name: bad}).warnings
    rest = bytes(log.data[log.positions[2] :])
    with pytest.raises(CorruptMetadata, match=r"no readable .*checkpoint"):
        load_image(disk({log_name(3): rest, name: bad}), DIRECTORY)


@pytest.mark.parametrize(
    ("name", "files", "text"),
    [
        ("no snapshot", {log_name(3): b""}, "begins at offset 3"),
        (
            "snapshot too old",
            {log_name(3): b"", metadata_snapshot_name(2, 1): snapshot_bytes(LEVEL)},
            "begins at offset 3",
        ),
        (
            "log ends before the snapshot",
            {
                log_name(0): three_topics().data,
                metadata_snapshot_name(50, 1): snapshot_bytes(LEVEL),
            },
            "ends at offset 5, but the snapshot .* at 50",
        ),
        (
            "a segment is missing",
            {log_name(0): three_topics().data, log_name(9): b""},
            "segment before it ends at 5",
        ),
    ],
)
def test_missing_records(name, files, text):
    del name
    with pytest.raises(CorruptMetadata, match=text):
        load_image(disk(files), DIRECTORY)


def test_a_log_that_ends_before_what_was_flushed():
    filesystem = disk({log_name(0): three_topics().data})
    assert load_image(filesystem, DIRECTORY, recovery_point=5).end_offset == 5
    with pytest.raises(CorruptMetadata, match="it was flushed at 6"):
        load_image(filesystem, DIRECTORY, recovery_point=6)


# -- Damage and crashes ---------------------------------------------------------------------------


def test_every_flipped_bit_is_detected():
    data = bytes(three_topics().data)
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptMetadata):
            loaded(flipped)


def test_every_flipped_bit_in_an_earlier_segment_is_detected():
    data = bytes(three_topics().data)
    for byte in range(16, len(data)):
        flipped = bytearray(data)
        flipped[byte] ^= 0x10
        with pytest.raises(CorruptMetadata):
            loaded(flipped, **{log_name(5): b""})


def test_damage_is_reported_with_its_position_and_remedy():
    log = three_topics()
    log.data[log.positions[1] + 70] ^= 1
    with pytest.raises(CorruptMetadata) as caught:
        loaded(log.data)
    message = str(caught.value)
    assert f"{DIRECTORY}/{log_name(0)}: damaged at position {log.positions[1]}" in message
    assert "Nothing was changed; restore it from a copy" in message


def test_every_cut_of_the_last_batch_is_accepted():
    log = three_topics()
    start = log.positions[-1]
    for size in range(start, len(log.data)):
        result = loaded(log.data[:size])
        assert (result.end_offset, list(result.image.topics)) == (4, ["t1", "t2"])
    assert list(loaded(log.data).image.topics) == ["t1", "t2", "t3"]


def test_zeroes_at_the_end_are_accepted():
    assert loaded(three_topics().data + bytes(5000)).end_offset == 5


def test_a_cut_before_the_end_is_refused():
    data = three_topics().data
    with pytest.raises(CorruptMetadata):
        loaded(data[:-1], **{log_name(5): b""})


@pytest.mark.parametrize(
    ("name", "log", "text"),
    [
        (
            "a newer version of a record that counts",
            LogBytes().change_leader(1).records(LEVEL).frames(bytes.fromhex("01030300000000")),
            "PartitionRecord of version 3",
        ),
        (
            "no frame",
            LogBytes().change_leader(1).records(LEVEL).frames(b""),
            "ends inside its frame",
        ),
        (
            "no value",
            LogBytes().change_leader(1).add([Record(0, 0, None, None)]),
            "record at offset 1 has no value",
        ),
        (
            "an epoch without a LeaderChange",
            LogBytes().change_leader(1).records(LEVEL),
            "",
        ),
    ],
)
def test_other_refusals(name, log, text):
    if not text:
        log.epoch = 2
        log.records(topic(1))
        text = "leader epoch 2, expected 1"
    with pytest.raises(CorruptMetadata, match=text):
        loaded(log.data)
    del name


def test_epochs_that_begin_with_a_leader_change():
    log = three_topics().change_leader(2).records(topic(4)).change_leader(7).records(topic(5))
    assert loaded(log.data).epoch == 7


def test_unknown_types_are_skipped():
    no_op = b"\x01\x14\x00" + encode_message(NoOpRecord(), 0)
    log = LogBytes().change_leader(1).records(LEVEL).frames(no_op, b"\x01\x7f\x05anything")
    result = loaded(log.data)
    assert result.image.skipped == {20: 1, 127: 1}
    assert result.end_offset == 4
