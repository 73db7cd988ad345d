"""Opening, bootstrapping and appending; crashes, and logs that refuse to start."""

from pathlib import Path

import pytest

from broker.metadata.image_loading import load_image
from broker.metadata.metadata_log import (
    METADATA_TOPIC_ID,
    RECORDS_PER_BATCH,
    open_metadata_log,
)
from broker.metadata.records_io import decode_record, encode_record
from protocol.metadata_records import (
    BeginTransactionRecord,
    FeatureLevelRecord,
    TopicRecord,
)
from protocol.records import Record, batches, build, read_records
from protocol.scram_records import UserScramCredentialRecord
from storage.errors import AppendFailed, CorruptMetadata, LogFailed
from storage.files.filenames import log_name
from tests.support.memory_filesystem import MemoryFileSystem
from tests.support.plain_logs import PlainLogs

GOLDEN = Path(__file__).parents[3] / "golden" / "kafka_metadata"
DATA = "/data"
DIRECTORY = f"{DATA}/__cluster_metadata-0"
LOG = f"{DIRECTORY}/{log_name(0)}"
NOW_MS = 1_700_000_000_000
USER = UserScramCredentialRecord(
    name="alice", mechanism=1, salt=b"salt", stored_key=b"stored", server_key=b"s", iterations=4096
)


def new_disk():
    filesystem = MemoryFileSystem()
    filesystem.mkdir(DATA)
    filesystem.sync_directory("/")
    return filesystem


def put(filesystem, path, data):
    file = filesystem.open(path, create=True)
    file.pwrite(bytes(data), 0)
    file.fdatasync()
    file.close()
    filesystem.sync_directory(path.rpartition("/")[0])


def open_it(filesystem, **options):
    logs = PlainLogs(filesystem, DATA)

    def open_log(config, leader_epoch):
        return logs.open_log(
            "__cluster_metadata", 0, METADATA_TOPIC_ID, config, leader_epoch, create=True
        )

    return open_metadata_log(filesystem, DATA, open_log, 1, NOW_MS, **options)


def topic(number):
    return TopicRecord(name=f"t{number}", topic_id=bytes([number]) * 16)


def shape(data):
    """(is control, leader epoch, record type names) of each batch."""
    found = []
    for position, header in batches(data):
        records = read_records(data, position, size_max=1 << 20)
        names = (
            [record.key.hex() for record in records]
            if header.is_control
            else [type(decode_record(record.value)).__name__ for record in records]
        )
        found.append((header.is_control, header.leader_epoch, names))
    return found


def test_a_new_log_begins_as_kafkas_does():
    filesystem = new_disk()
    metadata_log = open_it(filesystem)
    written = filesystem.durable_bytes(LOG)
    kafka = (GOLDEN / "clean_stop.log").read_bytes()
    assert shape(written) == shape(kafka)[:2]
    assert len(written) == 421  # as many bytes as Kafka's
    assert metadata_log.is_durable
    assert (metadata_log.end_offset, metadata_log.epoch) == (10, 1)
    assert metadata_log.image.feature_levels["transaction.version"] == 2
    assert metadata_log.image.broker_configs == {"": {"min.insync.replicas": "1"}}
    # Apart from CRC and times, the bytes are Kafka's.
    for (position, ours), (other, theirs) in list(
        zip(batches(written), batches(kafka), strict=False)
    )[:2]:
        assert ours[:4] + ours[5:7] + ours[9:] == theirs[:4] + theirs[5:7] + theirs[9:]
        values = [
            [record.value for record in read_records(data, at, size_max=1 << 20)]
            for data, at in ((written, position), (kafka, other))
        ]
        assert values[0] == values[1]


def test_levels_chosen_at_formatting_are_kept():
    filesystem = new_disk()
    frames = [
        encode_record(FeatureLevelRecord(name="metadata.version", feature_level=25)),
        b"\x01\x0a\x00token",  # DELEGATION_TOKEN_RECORD: no meaning here, but kept
        encode_record(USER),
    ]
    golden = (GOLDEN / "bootstrap.checkpoint").read_bytes()
    positions = [position for position, _header in batches(golden)]
    content = build([Record(0, 0, None, frame) for frame in frames], base_offset=1)
    footer = bytearray(golden[positions[2] :])
    footer[:8] = (4).to_bytes(8, "big")
    put(filesystem, f"{DATA}/bootstrap.checkpoint", golden[: positions[1]] + content + footer)
    metadata_log = open_it(filesystem)
    assert metadata_log.image.feature_levels == {"metadata.version": 25}
    assert list(metadata_log.image.scram.records()) == [USER]
    assert frames[1] in filesystem.live_bytes(LOG)
    assert metadata_log.warnings == []


def test_an_empty_bootstrap_file_does_not_stop_the_start():
    filesystem = new_disk()
    put(filesystem, f"{DATA}/bootstrap.checkpoint", b"")
    metadata_log = open_it(filesystem)
    assert len(metadata_log.image.feature_levels) == 6
    assert "ignoring the bootstrap file" in metadata_log.warnings[0]


def test_appends_change_the_image_and_are_read_again():
    filesystem = new_disk()
    metadata_log = open_it(filesystem)
    assert metadata_log.append([topic(1), topic(2)], NOW_MS) == 12
    assert list(metadata_log.image.topics) == ["t1", "t2"]
    assert not metadata_log.is_durable
    metadata_log.flush()
    assert metadata_log.is_durable
    filesystem.crash()
    again = open_it(filesystem)
    assert list(again.image.topics) == ["t1", "t2"]
    assert (again.end_offset, again.epoch) == (12, 1)


@pytest.mark.parametrize("unsynced", ["lost", "kept", "torn", "zeros"])
def test_a_crash_before_the_fsync_keeps_all_of_an_append_or_none(unsynced):
    filesystem = new_disk()
    metadata_log = open_it(filesystem)
    metadata_log.append([topic(1)], NOW_MS)
    metadata_log.flush()
    metadata_log.append([topic(number) for number in range(2, 60)], NOW_MS)
    filesystem.crash(unsynced)
    topics = load_image(filesystem, DIRECTORY).image.topics
    assert len(topics) == (59 if unsynced == "kept" else 1)


@pytest.mark.parametrize("unsynced", ["lost", "kept", "torn", "zeros"])
def test_a_crash_at_any_operation_of_the_first_start_leaves_one_that_starts(unsynced):
    for nth in range(1, 100):
        stopped = False
        for op in ("mkdir", "open", "pwrite", "fdatasync", "sync_directory"):
            filesystem = new_disk()
            filesystem.fail(op, nth)
            try:
                open_it(filesystem)
            except (OSError, LogFailed):
                stopped = True
            filesystem.heal()
            filesystem.crash(unsynced)
            again = open_it(filesystem)
            assert len(again.image.feature_levels) == 6, (op, nth)
            assert again.is_durable
        if not stopped:
            assert nth > 1
            return
    raise AssertionError("the first start never ran through")


def test_a_failed_append_changes_nothing():
    metadata_log = open_it(new_disk())
    metadata_log.log.fail_next = AppendFailed(LOG, 421, OSError(28, "full"), rolled_back=True)
    with pytest.raises(LogFailed):
        metadata_log.append([topic(1)], NOW_MS)
    assert metadata_log.image.topics == {}
    metadata_log.append([topic(1)], NOW_MS)
    assert list(metadata_log.image.topics) == ["t1"]


def test_a_failed_fsync_fails_the_log():
    filesystem = new_disk()
    metadata_log = open_it(filesystem)
    metadata_log.append([topic(1)], NOW_MS)
    filesystem.fail("fdatasync", 1)
    with pytest.raises(LogFailed, match="fsync failed"):
        metadata_log.flush()
    with pytest.raises(LogFailed, match="fsync failed"):
        metadata_log.flush()


def test_a_new_epoch():
    filesystem = new_disk()
    metadata_log = open_it(filesystem)
    assert metadata_log.begin_epoch(NOW_MS) == 11
    metadata_log.append([topic(1)], NOW_MS)
    assert shape(filesystem.live_bytes(LOG))[2:] == [
        (True, 2, ["00000002"]),
        (False, 2, ["TopicRecord"]),
    ]
    assert load_image(filesystem, DIRECTORY).epoch == 2


def test_an_epoch_whose_start_failed_is_not_used():
    filesystem = new_disk()
    metadata_log = open_it(filesystem)
    metadata_log.log.fail_next = AppendFailed(LOG, 421, OSError(28, "full"), rolled_back=True)
    with pytest.raises(LogFailed):
        metadata_log.begin_epoch(NOW_MS)
    metadata_log.append([topic(1)], NOW_MS)
    assert load_image(filesystem, DIRECTORY).epoch == 1


def test_a_record_transaction_left_open_is_aborted_before_anything_else():
    filesystem = new_disk()
    metadata_log = open_it(filesystem)
    frames = [encode_record(record) for record in (BeginTransactionRecord(), topic(1))]
    metadata_log.log.append_own(build([Record(0, 0, None, frame) for frame in frames]), NOW_MS)
    metadata_log.log.close()
    again = open_it(filesystem)
    assert again.image.topics == {}
    again.begin_epoch(NOW_MS)
    again.begin_epoch(NOW_MS)
    again.append([topic(2)], NOW_MS)
    assert [names for _c, _e, names in shape(filesystem.live_bytes(LOG))[3:]] == [
        ["00000002"],
        ["AbortTransactionRecord"],
        ["00000002"],
        ["TopicRecord"],
    ]
    assert list(load_image(filesystem, DIRECTORY).image.topics) == ["t2"]


def test_damage_refuses_to_start_and_changes_nothing():
    filesystem = new_disk()
    metadata_log = open_it(filesystem)
    metadata_log.append([topic(1)], NOW_MS)
    metadata_log.flush()
    filesystem.edit(LOG, 300, b"\xff")
    before = filesystem.live_bytes(LOG)
    writes = filesystem.counts["pwrite"]
    with pytest.raises(CorruptMetadata, match="damaged at position 91"):
        open_it(filesystem)
    assert filesystem.live_bytes(LOG) == before
    assert filesystem.counts["pwrite"] == writes


@pytest.mark.parametrize("how", ["gone", "empty", "no log"])
def test_lost_metadata_beside_topics_refuses_to_start(how):
    filesystem = new_disk()
    for name in ("orders-0", "orders-1", "gone-0.0123456789abcdef0123456789abcdef-delete"):
        filesystem.mkdir(f"{DATA}/{name}")
    if how != "gone":
        filesystem.mkdir(DIRECTORY)
    if how == "empty":
        put(filesystem, LOG, b"")
    with pytest.raises(CorruptMetadata, match=r"2 partition directories .*orders-0, orders-1"):
        open_it(filesystem)
    assert not filesystem.exists(LOG) or filesystem.live_bytes(LOG) == b""


def test_a_newer_metadata_version_refuses_to_start():
    filesystem = new_disk()
    metadata_log = open_it(filesystem)
    level = FeatureLevelRecord(name="metadata.version", feature_level=31)
    metadata_log.append([level], NOW_MS)
    with pytest.raises(CorruptMetadata, match=r"metadata.version 31, but this broker supports 30"):
        open_it(filesystem)


def test_a_log_opened_with_another_end_refuses_to_start():
    filesystem = new_disk()
    open_it(filesystem).log.close()
    logs = PlainLogs(filesystem, DATA)

    def open_short(config, leader_epoch):
        log = logs.open_log("__cluster_metadata", 0, METADATA_TOPIC_ID, config, leader_epoch)
        log.end_offset = 1
        return log

    with pytest.raises(CorruptMetadata, match=r"end at offset 10, but the log .* end offset 1"):
        open_metadata_log(filesystem, DATA, open_short, 1, NOW_MS)


def test_the_recovery_point_is_respected():
    filesystem = new_disk()
    open_it(filesystem).log.close()
    assert open_it(filesystem, recovery_point=10).end_offset == 10
    with pytest.raises(CorruptMetadata, match="flushed at 11"):
        open_it(filesystem, recovery_point=11)


def test_a_directory_of_kafka_is_continued():
    filesystem = new_disk()
    filesystem.mkdir(DIRECTORY)
    put(filesystem, LOG, (GOLDEN / "clean_stop.log").read_bytes())
    metadata_log = open_it(filesystem)
    assert (metadata_log.end_offset, metadata_log.epoch) == (120, 2)
    metadata_log.begin_epoch(NOW_MS)
    metadata_log.append([topic(1)], NOW_MS)
    result = load_image(filesystem, DIRECTORY)
    assert (result.end_offset, result.epoch) == (122, 3)
    assert sorted(result.image.topics) == ["conf", "plain", "t1"]


def test_batches_at_start_are_smaller_than_kafkas_largest():
    assert RECORDS_PER_BATCH <= 10_000  # QuorumController.MAX_RECORDS_PER_BATCH


def test_the_log_reserves_disk_space_for_later_appends(monkeypatch):
    monkeypatch.setattr("broker.metadata.metadata_log.RESERVE_BYTES", 2_000)
    filesystem = new_disk()
    metadata_log = open_it(filesystem)
    reserves = filesystem.counts["reserve"]
    assert reserves > 0
    metadata_log.append([topic(1)], NOW_MS)
    assert not metadata_log.lacks_room
    metadata_log.keep_room()
    assert filesystem.counts["reserve"] == reserves, "the reserve is large enough"
    for number in range(2, 20):
        metadata_log.append([topic(number)], NOW_MS)
    assert filesystem.counts["reserve"] == reserves, "an append does not wait for room"
    assert metadata_log.lacks_room
    metadata_log.keep_room()
    assert filesystem.counts["reserve"] > reserves
    filesystem.fail("reserve", error=28, forever=True)
    metadata_log.keep_room()
    for number in range(20, 40):
        metadata_log.append([topic(number)], NOW_MS)
