"""When snapshots are made, what they allow to delete, and in which order."""

import errno

import pytest

from broker.metadata import snapshot_keeper
from broker.metadata.image_loading import load_image
from broker.metadata.metadata_log import METADATA_TOPIC_ID, open_metadata_log
from broker.metadata.snapshot_keeper import RETRY_MS, SnapshotKeeper
from broker.metadata.snapshots import image_records
from config.broker import BrokerConfig
from protocol.metadata_records import ConfigRecord
from tests.support.log_house import DATA, NOW, House, checkpoint, flush

DIRECTORY = f"{DATA}/__cluster_metadata-0"


class Node:
    """A metadata log on a disk in memory, and its keeper."""

    def __init__(self, bytes_max=100, **config):
        self.house = House()
        self.config = BrokerConfig(
            metadata_log_max_record_bytes_between_snapshots=bytes_max,
            **{"metadata_max_retention_bytes": 1} | config,
        )
        self.start()

    def start(self):
        self.house.open()

        def open_log(config, leader_epoch):
            return self.house.manager.open_log(
                "__cluster_metadata", 0, METADATA_TOPIC_ID, config, leader_epoch, create=True
            )

        self.metadata_log = open_metadata_log(self.house.filesystem, DATA, open_log, 1, NOW)
        self.log = self.metadata_log.log
        self.keeper = SnapshotKeeper(self.metadata_log, self.config, NOW)
        self.keeper.load()

    def change(self, number, *, flushed=True):
        record = ConfigRecord(
            resource_type=4, resource_name="", name="name", value=str(number) * 50
        )
        self.metadata_log.append([record], NOW)
        if flushed:
            flush(self.log)

    def snapshot(self, now_ms=NOW):
        job = self.keeper.begin(now_ms)
        if job is None:
            return None
        error = None
        try:
            job.run()
        except OSError as caught:
            error = caught
        self.keeper.finish(job, error, now_ms)
        flush(self.log)
        checkpoint(self.house, self.log)
        return error or job.kept

    def trim(self, now_ms=NOW):
        while self.keeper.trim(now_ms):
            self.keeper.sync()

    def names(self, suffix):
        return [n for n in self.house.filesystem.list(DIRECTORY) if n.endswith(suffix)]


def test_a_snapshot_is_due_by_size_or_by_time_and_covers_only_durable_records():
    node = Node(bytes_max=10_000)
    assert node.snapshot() is None
    hour = NOW + 3_600_000
    assert node.snapshot(hour - 1) is None
    node.change(1, flushed=False)
    assert node.snapshot(hour) is None
    flush(node.log)
    assert node.snapshot(hour).end_offset == node.log.end_offset
    assert node.snapshot(hour + 10 * 3_600_000) is None  # the image has not changed
    for number in range(200):
        node.change(number % 10)
    assert node.snapshot(hour) is not None


def test_the_log_is_trimmed_with_all_but_the_last_two_snapshots():
    node = Node()
    for number in range(6):
        node.change(number)
        node.snapshot()
        node.trim()
        assert len(node.names(".checkpoint")) == min(number + 1, 2)
    oldest, newest = node.keeper.kept
    assert node.log.start_offset == oldest.end_offset < newest.end_offset
    assert node.names(".log") == [f"{o.end_offset:020}.log" for o in (oldest, newest)]
    node.house.kill()
    node.start()
    assert node.metadata_log.image.broker_configs[""]["name"] == "5" * 50
    assert [kept[:3] for kept in node.keeper.kept] == [oldest[:3], newest[:3]]


@pytest.mark.parametrize(
    ("config", "now_ms", "wanted"),
    [
        ({"metadata_max_retention_bytes": -1}, NOW, 4),
        ({"metadata_max_retention_bytes": 10**6}, NOW, 4),
        ({"metadata_max_retention_bytes": -1}, NOW + 8 * 24 * 3_600_000, 2),
        ({"metadata_max_retention_bytes": -1, "metadata_max_retention_ms": -1}, 1 << 60, 4),
    ],
)
def test_retention_decides_when_snapshots_are_deleted(config, now_ms, wanted):
    node = Node(**config)
    for number in range(4):
        node.change(number)
        node.snapshot()
    node.trim(now_ms)
    assert len(node.names(".checkpoint")) == wanted
    assert (node.log.start_offset == 0) == (wanted == 4)


def test_the_previous_snapshot_is_used_if_the_newest_is_damaged():
    node = Node()
    for number in range(4):
        node.change(number)
        node.snapshot()
    node.trim()
    node.house.kill()
    path = f"{DIRECTORY}/{node.names('.checkpoint')[-1]}"
    node.house.filesystem.edit(path, 70, b"\xff")
    node.start()
    assert node.metadata_log.image.broker_configs[""]["name"] == "3" * 50
    assert "snapshot skipped" in node.metadata_log.warnings[0]


def test_segments_wait_for_the_recovery_point():
    node = Node()
    for number in range(4):
        node.change(number)
        node.keeper.finish(job := node.keeper.begin(NOW), job.run(), NOW)
        flush(node.log)
    assert not node.keeper.trim(NOW)
    checkpoint(node.house, node.log)
    assert node.keeper.trim(NOW)


def test_a_snapshot_that_cannot_be_written_is_retried_later():
    node = Node()
    node.change(1)
    node.house.filesystem.fail("pwrite", error=errno.ENOSPC, path_part=".checkpoint")
    assert isinstance(node.snapshot(), OSError)
    node.house.filesystem.heal()
    assert node.snapshot(NOW + RETRY_MS - 1) is None
    assert node.snapshot(NOW + RETRY_MS).end_offset == node.log.end_offset


def test_a_snapshot_left_incomplete_by_a_crash_is_removed():
    node = Node()
    left = f"{DIRECTORY}/{9:020}-0000000001.checkpoint.tmp"
    node.house.filesystem.open(left, create=True).pwrite(b"half", 0)
    node.keeper.load()
    assert not node.house.filesystem.exists(left)
    assert node.keeper.kept == []


def test_after_a_failed_deletion_no_segment_is_deleted_before_the_next_start():
    node = Node()
    for number in range(5):
        node.change(number)
        node.snapshot()
    node.house.filesystem.fail("rename", path_part=".log")
    with pytest.raises(OSError, match="Input/output"):
        node.trim()
    logs = node.names(".log")
    assert not node.keeper.trim(NOW)
    assert node.names(".log") == logs
    node.house.kill()
    node.start()
    node.trim()
    assert len(node.names(".log")) < len(logs)


def test_a_segment_is_rolled_once_all_of_it_is_durable():
    node = Node()
    node.change(1)
    job = node.keeper.begin(NOW)
    job.run()
    node.change(2, flushed=False)
    node.keeper.finish(job, None, NOW)
    assert len(node.log.segments) == 1


def test_a_failed_sync_of_the_directory_is_repeated_before_more_deletions():
    node = Node()
    for number in range(5):
        node.change(number)
        node.snapshot()
    assert node.keeper.trim(NOW)
    logs = node.names(".log")
    assert node.keeper.trim(NOW), "no deletion before the directory is synced"
    assert node.names(".log") == logs
    node.keeper.sync()
    node.trim()
    assert len(node.names(".log")) < len(logs)
    assert load_image(node.house.filesystem, DIRECTORY).start_offset == node.log.start_offset


def test_the_records_of_a_snapshot_are_made_in_the_thread_that_writes_it(monkeypatch):
    """Some µs each: ten thousand partitions once held up the loop for a tenth of a second."""
    made = []
    monkeypatch.setattr(
        snapshot_keeper, "image_records", lambda image: made.append(1) or image_records(image)
    )
    node = Node()
    for number in range(4):
        node.change(number)
    job = node.keeper.begin(NOW)
    assert made == []
    job.run()
    assert made == [1]
