"""The data directory: identity, lock, clean mark, and names that belong to no log."""

import pytest

from storage.errors import CorruptMetadata, DirectoryLocked
from tests.support.log_house import CLEAN_MARK, DATA, NOW, House, append


@pytest.fixture
def house():
    house = House()
    house.open()
    return house


def test_a_new_directory_gets_a_permanent_identity(house):
    assert house.manager.directory.is_new
    assert house.manager.directory.was_clean
    meta = house.manager.directory.meta
    assert (meta.node_id, len(meta.cluster_id)) == (1, 22)
    house.stop()
    house.filesystem.crash()
    assert house.open().directory.meta == meta
    assert not house.manager.directory.is_new


def test_parent_directories_are_created_and_survive_a_power_cut():
    house = House()
    house.settings = {"cluster_id": "mine", "node_id": 5}
    house.open()
    house.filesystem.crash()
    assert house.open().directory.meta.cluster_id == "mine"
    assert house.manager.directory.meta.node_id == 5


def test_a_second_manager_is_refused(house):
    other = House(house.filesystem)
    with pytest.raises(DirectoryLocked):
        other.open()
    house.stop()
    other.open()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("garbage", b"\xff\xfe"),
        ("empty", b""),
        ("another node", b"version=1\ncluster.id=x\nnode.id=2\n"),
    ],
)
def test_a_mismatched_identity_stops_the_start(house, name, text):
    house.stop()
    house.filesystem.replace(f"{DATA}/meta.properties", text)
    house.settings = {"node_id": 1}
    with pytest.raises(CorruptMetadata):
        house.open()
    assert house.filesystem.exists(CLEAN_MARK), name
    house.filesystem.replace(f"{DATA}/meta.properties", b"version=1\ncluster.id=x\nnode.id=1\n")
    assert house.open().directory.was_clean, "the lock was released, the clean mark was kept"
    assert house.manager.directory.meta.directory_id is not None


def test_partitions_without_an_identity_stop_the_start(house):
    house.log()
    house.stop()
    house.filesystem.unlink(f"{DATA}/meta.properties")
    with pytest.raises(CorruptMetadata, match="t-0"):
        house.open()


def test_the_clean_mark_is_durably_removed_before_the_first_log_is_loaded(house):
    house.stop()
    assert house.filesystem.durable_bytes(CLEAN_MARK) == b'{"version":0,"brokerEpoch":-1}'
    assert house.open().directory.was_clean
    house.crash()
    assert not house.open().directory.was_clean


def test_strays_are_reported_and_left_alone(house):
    append(house.log("gone"), 3)
    house.stop()
    for name in ("lost+found", "notes.txt", "t-x"):
        house.filesystem.mkdir(f"{DATA}/{name}")
    house.open()
    house.log("t")
    assert house.manager.directory.strays(house.manager.logs) == [
        "gone-0",
        "lost+found",
        "notes.txt",
        "t-x",
    ]
    house.purge(NOW + 10**12)
    house.stop()
    house.open()
    assert house.log("gone").end_offset == 3
