"""The initial state of a log, and what its next flush must sync."""

from config.topic import TopicConfig
from storage.errors import LogFailed
from storage.leader_epochs import LeaderEpochs
from storage.log_state import LogContents, LogIdentity, LogState, Unsynced
from storage.producers.producer_state import ProducerState
from storage.producers.snapshot_files import SnapshotFiles
from storage.segments.cleaned import Cleaned
from storage.segments.row import Segments, create_segment
from tests.support.log_house import DATA, NOW, TOPIC_ID, House


def state(failed=None):
    house = House()
    home = house.open().home
    directory = f"{DATA}/t-0"
    house.filesystem.mkdir(directory)
    config = TopicConfig()
    contents = LogContents(
        segments=Segments([create_segment(home.files, directory, 5, config, NOW)], 9, Cleaned()),
        start_offset=7,
        end_offset=9,
        recovery_point=8,
        producers=ProducerState(),
        epochs=LeaderEpochs([(1, 0)]),
        snapshots=SnapshotFiles(directory, []),
        failed=failed,
    )
    return LogState(home, LogIdentity("t", 0, TOPIC_ID, directory), config, contents, 3)


def test_records_present_at_the_open_are_durable_and_visible():
    opened = state()
    assert opened.start_offset == 7
    assert opened.recovery_point == 8
    assert opened.end_offset == opened.durable_offset == opened.high_watermark == 9
    assert opened.unflushed_bytes == 0
    assert (opened.topic, opened.partition, opened.leader_epoch) == ("t", 0, 3)
    assert repr(opened) == "LogState(t-0, 7 to 9, durable 9, 1 segments)"


def test_soundness_uses_the_epochs_of_the_log():
    opened = state()
    assert opened.segments.soundness.epochs is opened.epochs


def test_a_log_can_be_opened_failed():
    failure = LogFailed("/data/t-0", "damaged")
    assert state(failure).failed is failure


def test_a_directory_is_synced_once_after_any_number_of_rolls():
    unsynced = Unsynced()
    unsynced.note_created(["/d/small"], ["/d"])
    unsynced.note_rolled("/d", None)
    unsynced.note_rolled("/d", "file")
    assert (unsynced.paths, unsynced.directories, unsynced.files) == (
        ["/d/small"],
        ["/d"],
        ["file"],
    )
