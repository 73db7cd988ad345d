"""`verify` beside a running broker, which changes files while they are read."""

import shutil

import pytest

from client.files.findings import DAMAGE
from client.files.verify import Verification
from storage.files.os_filesystem import OsFileSystem
from tests.support import data_directory


@pytest.fixture
def data(tmp_path):
    return data_directory.make(tmp_path / "data")


class BesideABroker(OsFileSystem):
    """The disk of a running broker that does something each time when `t-0` is listed."""

    def __init__(self, *steps):
        self.steps = list(steps)

    def lock_holder(self, path):
        return 1

    def list(self, directory):
        found = super().list(directory)
        if directory.endswith("t-0") and self.steps:
            self.steps.pop(0)()
        return found


def test_a_topic_that_a_running_broker_deletes_meanwhile_is_no_failure(data):
    disk = BesideABroker(lambda: shutil.rmtree(data / "t-0"))
    report = Verification(disk).run([str(data)])
    assert report.is_sound
    assert report.partition_count == 2, "the metadata log, and t-1"


def test_what_a_running_broker_was_replacing_is_looked_at_again(data):
    """As when compaction merges segments while they are read."""
    path = sorted((data / "t-0").glob("*.log"))[0]

    def turn():
        content = bytearray(path.read_bytes())
        content[70] ^= 1
        path.write_bytes(content)

    once = BesideABroker(turn, turn)
    assert Verification(once).run([str(data)]).is_sound
    assert not once.steps
    gone = path.with_name("gone")
    moved = BesideABroker(lambda: path.rename(gone), lambda: gone.rename(path))
    assert Verification(moved).run([str(data)]).is_sound
    turn()
    stays = Verification(BesideABroker()).run([str(data)])
    assert [(one.weight, one.kind) for one in stays.findings] == [(DAMAGE, "checksum")]
    assert stays.partition_count == 3
