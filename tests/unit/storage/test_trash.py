"""Deleted files and directories: when they are due, and failed removals."""

import errno

import pytest

from storage.trash import FOREVER_MS, Trash
from tests.support.memory_filesystem import MemoryFileSystem

FILES = ("/d/a.deleted", "/d/sub/b.deleted", "/dd/c.deleted")


@pytest.fixture
def filesystem():
    filesystem = MemoryFileSystem()
    for path in ("/d", "/d/sub", "/dd"):
        filesystem.mkdir(path)
    for path in FILES:
        filesystem.open(path, create=True)
    return filesystem


def left(filesystem):
    return [path for path in FILES if filesystem.exists(path)]


def test_due_files_are_taken_once(filesystem):
    trash = Trash(filesystem)
    for number, path in enumerate(FILES):
        trash.toss(100 * number, path)
    assert trash.begin_purge(-1) is None
    purge = trash.begin_purge(100)
    assert trash.begin_purge(100) is None
    assert left(filesystem) == list(FILES), "no file is removed before the job runs"
    purge.run()
    assert left(filesystem) == ["/dd/c.deleted"]
    assert purge.complaints == []


def test_a_directory_is_removed_with_its_files(filesystem):
    trash = Trash(filesystem)
    trash.toss_directory(5, "/dd")
    trash.begin_purge(5).run()
    assert not filesystem.exists("/dd")


def test_files_in_a_deleted_directory_need_no_removal_of_their_own(filesystem):
    trash = Trash(filesystem)
    for path in FILES:
        trash.toss(0, path)
    trash.forget_in({"/d"})
    trash.begin_purge(0).run()
    assert left(filesystem) == ["/d/a.deleted"]


def test_forever_exceeds_the_longest_delay(filesystem):
    """A full disk removes deleted files at once, even with the largest file.delete.delay.ms."""
    trash = Trash(filesystem)
    trash.toss(1_700_000_000_000 + 2**63 - 1, FILES[0])
    trash.begin_purge(FOREVER_MS).run()
    assert left(filesystem) == list(FILES[1:])


def test_a_failed_removal_is_reported_and_does_not_block_the_others(filesystem):
    trash = Trash(filesystem)
    for path in (*FILES, "/d/gone.deleted"):
        trash.toss(0, path)
    filesystem.fail("unlink", path_part="/d/a")
    purge = trash.begin_purge(0)
    purge.run()
    assert left(filesystem) == ["/d/a.deleted"]
    (complaint,) = purge.complaints
    assert "cannot delete /d/a.deleted" in complaint


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_directory_waits_for_a_descriptor(filesystem, number):
    """The next start would try again, and until then the topic would take up its space."""
    trash = Trash(filesystem)
    trash.toss_directory(5, "/dd")
    filesystem.fail("list", error=number)
    purge = trash.begin_purge(5)
    purge.run()
    assert filesystem.exists("/dd")
    assert purge.complaints == []
    trash.begin_purge(5).run()
    assert not filesystem.exists("/dd")
