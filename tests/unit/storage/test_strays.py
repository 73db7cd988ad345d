"""Directories that belong to no topic: which are deleted or kept, and when their name is free."""

import pytest

from config.topic import TopicConfig
from storage.files.text_files import encode_partition_metadata
from storage.opening.log_opening import Wanted
from tests.support.log_house import DATA, NOW, TOPIC_ID, House, append, flush, read_all

NEXT_ID = bytes(reversed(TOPIC_ID))
ID_FILE = "partition.metadata"
LOG_FILE = f"{0:020}.log"
QUARANTINE = f"{0:020}.log.7.1700000000000.quarantine"


def opened():
    made = House()
    made.open()
    return made


@pytest.fixture
def house():
    return opened()


def stray(house, files, *, clean=False):
    """Stop the broker, make a directory `gone-0`, and start again."""
    house.log("t")
    if clean:
        house.stop()
    house.filesystem.mkdir(house.path("", "gone-0"))
    for name, content in files.items():
        house.filesystem.replace(house.path(name, "gone-0"), content)
    if not clean:
        house.kill()
    house.open()
    house.log("t", epoch=1)


def clear(house, removed=()):
    """Set aside what the metadata, which has t-0 only, does not name; return how."""
    house.manager.in_the_way.clear_unnamed({("t", 0)}, removed, NOW)
    assert house.filesystem.exists(house.path("", "t-0"))
    return ways(house)


def ways(house):
    names = [name for name in house.filesystem.list(DATA) if name.startswith("gone-0")]
    return [name.rpartition("-")[2] for name in names]


@pytest.mark.parametrize(
    "files",
    [
        {},
        {ID_FILE: b""},
        {ID_FILE: bytes(43), LOG_FILE: b""},
        {ID_FILE: b"version: 0\ntopic_i", LOG_FILE: bytes(2_000_000)},
        {LOG_FILE: b"", f"{0:020}.index": b"torn", "leader-epoch-checkpoint": b"\0"},
    ],
)
@pytest.mark.parametrize("clean", [True, False])
def test_a_directory_without_a_topic_id_and_without_records_is_deleted(house, files, clean):
    stray(house, files, clean=clean)
    assert clear(house) == ["delete"]
    house.purge(NOW)
    assert ways(house) == []


@pytest.mark.parametrize(
    "files",
    [
        {LOG_FILE: b"record"},
        {LOG_FILE: bytes(1_500_000) + b"record"},
        {f"{LOG_FILE}.deleted": b"record"},
        {f"{LOG_FILE}.swap": b"record"},
        {QUARANTINE: b"record"},
        {"notes.txt": b"mine"},
        {ID_FILE: encode_partition_metadata(TOPIC_ID)},  # its offsets may matter
    ],
)
def test_whatever_may_be_of_value_is_kept(house, files):
    stray(house, files)
    assert clear(house, {NEXT_ID}) == ["stray"]
    house.purge(NOW + 10**12)
    (name,) = [name for name in house.filesystem.list(DATA) if name.startswith("gone-0")]
    for file, content in files.items():
        assert house.filesystem.read(f"{DATA}/{name}/{file}") == content
    house.crash()
    house.open()
    assert ways(house) == ["stray"], "the rename is durable"
    house.log("t", epoch=2)
    clear(house)
    assert [line for line in house.manager.warnings if name in line], "told at every start"


def test_a_directory_inside_is_kept(house):
    stray(house, {})
    house.filesystem.mkdir(f"{DATA}/gone-0/mine")
    assert clear(house) == ["stray"]


@pytest.mark.parametrize(("clean", "way"), [(False, "delete"), (True, "stray")])
def test_a_crash_leaves_deletions_to_finish_and_an_operator_copies_to_keep(house, clean, way):
    files = {ID_FILE: encode_partition_metadata(NEXT_ID), LOG_FILE: b"record"}
    stray(house, files, clean=clean)
    assert clear(house, {NEXT_ID}) == [way]


def test_files_that_look_like_a_partition_are_left_alone(house):
    house.log("t")
    house.filesystem.replace(f"{DATA}/gone-0", b"a file")
    clear(house)
    assert house.filesystem.exists(f"{DATA}/gone-0")
    assert blocked(house) == set()


def test_the_offsets_of_a_stray_are_forgotten(house):
    append(house.log("gone"), 3)
    house.log("t")
    house.stop()
    house.open()
    house.log("t")
    assert clear(house) == ["stray"]
    house.stop()
    text = house.filesystem.read(f"{DATA}/recovery-point-offset-checkpoint")
    assert b"gone" not in text


# -- Names that are not free ------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["rename", "sync_directory", "open"])
def test_a_name_is_blocked_until_it_is_free_durably(house, operation):
    stray(house, {ID_FILE: encode_partition_metadata(NEXT_ID), LOG_FILE: b"record"})
    part = DATA if operation == "sync_directory" else "gone-0"
    house.filesystem.fail(operation, forever=True, path_part=part)
    if operation == "open":
        house.filesystem.fail("read", forever=True, path_part=part)
    clear(house)
    assert blocked(house) == {"gone"}
    told = list(house.manager.warnings)
    retry(house)
    assert blocked(house) == {"gone"}
    assert house.manager.warnings == told, "each trouble is told once"
    house.filesystem.heal()
    retry(house)
    assert blocked(house) == set()
    assert ways(house) == ["stray"]
    assert house.manager.in_the_way.begin() is None


def blocked(house):
    return house.manager.in_the_way.topics


def retry(house):
    clearing = house.manager.in_the_way.begin()
    assert house.manager.in_the_way.begin() is None, "one at a time"
    clearing.run()
    house.manager.in_the_way.finish(clearing, NOW)


@pytest.mark.parametrize("operation", ["rename", "sync_directory"])
def test_a_deletion_that_fails_blocks_the_name(house, operation):
    append(house.log(), 3)
    house.filesystem.fail(operation, path_part="t-0" if operation == "rename" else DATA)
    with pytest.raises(OSError, match="Input/output"):
        house.delete_log("t", 0)
    assert blocked(house) == {"t"}
    retry(house)
    assert blocked(house) == set()
    house.purge(NOW + 10**12)
    assert [name for name in house.filesystem.list(DATA) if name.startswith("t-0")] == []


# -- A new partition --------------------------------------------------------------------------


@pytest.mark.parametrize("text", [b"", bytes(43), encode_partition_metadata(NEXT_ID)])
def test_a_new_partition_adopts_no_directory(house, text):
    """The id of a deleted topic was torn, and its records became those of the next topic."""
    append(house.log(), 3)
    house.stop()
    house.filesystem.replace(house.path(ID_FILE), text)
    house.open()
    log = fresh(house)
    assert (log.end_offset, read_all(log)) == (0, {})
    (name,) = [name for name in house.filesystem.list(DATA) if name.endswith("-stray")]
    assert house.filesystem.live_bytes(f"{DATA}/{name}/{LOG_FILE}")


def fresh(house):
    wanted = Wanted("t", 0, TOPIC_ID, TopicConfig(), 0, create=True, is_fresh=True)
    (attempt,) = house.manager.open_logs([wanted])
    if attempt.error is not None:
        raise attempt.error
    return attempt.log


def test_what_a_failed_creation_has_left_is_deleted(house):
    house.filesystem.mkdir(house.path())
    append(fresh(house), 2)
    assert len([name for name in house.filesystem.list(DATA) if name.endswith("-delete")]) == 1


def test_a_second_try_finds_its_own_directory(house):
    house.filesystem.fail("open", path_part=".log")
    with pytest.raises(Exception, match=r"Input/output|cannot be opened"):
        fresh(house)
    log = fresh(house)
    append(log, 2)
    flush(log)
    assert [name for name in house.filesystem.list(DATA) if "-0." in name] == []


def test_an_id_that_cannot_be_read_now_is_not_judged(house):
    append(fresh(house), 1)
    house.stop()
    house.open()
    house.filesystem.fail("read", path_part=ID_FILE)
    with pytest.raises(OSError, match="Input/output"):
        fresh(house)
    assert fresh(house).end_offset == 1
