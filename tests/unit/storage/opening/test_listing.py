"""Unknown, orphaned and deleted files in a partition's directory."""

from tests.support.log_house import NOW, read_all
from tests.support.stopped_logs import FIRST, SECOND, SEGMENTS, stopped_house, warnings_of


def test_foreign_files_are_left_alone_and_named():
    house = stopped_house()
    for name in ("notes.txt", "lost+found", "00000000000000000005.log.bak", "123.log"):
        house.filesystem.replace(house.path(name), b"mine")
    log = house.restart(**SEGMENTS)
    assert sum("left alone" in text for text in warnings_of(house)) == 4
    house.purge(NOW + 10**12)
    assert house.filesystem.live_bytes(house.path("notes.txt")) == b"mine"
    assert log.end_offset == 12


def test_an_orphaned_index_is_removed():
    house = stopped_house()
    for kind in ("index", "timeindex", "txnindex"):
        house.filesystem.replace(house.path(f"{7:020}.{kind}"), b"")
    house.restart(**SEGMENTS)
    assert sum("Found an orphaned index file" in text for text in warnings_of(house)) == 3
    house.purge(NOW)
    assert not [name for name in house.names() if name.startswith(f"{7:020}")]


def test_files_marked_as_deleted_are_removed():
    house = stopped_house()
    for name in (f"{FIRST}.log.deleted", f"{SECOND}.index.deleted", f"{FIRST}.log.cleaned"):
        house.filesystem.replace(house.path(name), b"old")
    log = house.restart(**SEGMENTS)
    house.purge(NOW)
    assert not house.names("deleted")
    assert not house.names("cleaned")
    assert list(read_all(log)) == list(range(12))


def test_replacements_that_a_crash_interrupted_are_removed():
    house = stopped_house()
    for name in (f"{FIRST}.index.tmp", f"{12:020}.snapshot.tmp", "leader-epoch-checkpoint.tmp"):
        house.filesystem.open(house.path(name), create=True).pwrite(b"half", 0)
    assert list(read_all(house.restart(**SEGMENTS))) == list(range(12))
    assert not house.names("tmp")
    assert warnings_of(house) == []
