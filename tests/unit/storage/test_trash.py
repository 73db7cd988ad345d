"""Deleted files and directories: when they are due, and what cannot be removed."""

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


def test_what_is_due_is_taken_out_once(filesystem):
    trash = Trash(filesystem)
    for number, path in enumerate(FILES):
        trash.toss(100 * number, path)
    assert trash.begin_purge(-1) is None
    purge = trash.begin_purge(100)
    assert trash.begin_purge(100) is None
    assert left(filesystem) == list(FILES), "nothing is removed before the job runs"
    purge.run()
    assert left(filesystem) == ["/dd/c.deleted"]
    assert purge.complaints == []


def test_a_directory_goes_with_the_files_in_it(filesystem):
    trash = Trash(filesystem)
    trash.toss_directory(5, "/dd")
    trash.begin_purge(5).run()
    assert not filesystem.exists("/dd")


def test_files_of_a_directory_that_is_trash_are_forgotten(filesystem):
    trash = Trash(filesystem)
    for path in FILES:
        trash.toss(0, path)
    trash.forget_in({"/d"})
    trash.begin_purge(0).run()
    assert left(filesystem) == ["/d/a.deleted"]


def test_forever_is_longer_than_any_delay(filesystem):
    """On a full disk what was deleted goes at once, also with file.delete.delay.ms at its most."""
    trash = Trash(filesystem)
    trash.toss(1_700_000_000_000 + 2**63 - 1, FILES[0])
    trash.begin_purge(FOREVER_MS).run()
    assert left(filesystem) == list(FILES[1:])


def test_what_cannot_be_removed_is_told_and_does_not_keep_the_rest(filesystem):
    trash = Trash(filesystem)
    for path in (*FILES, "/d/gone.deleted"):
        trash.toss(0, path)
    filesystem.fail("unlink", path_part="/d/a")
    purge = trash.begin_purge(0)
    purge.run()
    assert left(filesystem) == ["/d/a.deleted"]
    (complaint,) = purge.complaints
    assert "cannot delete /d/a.deleted" in complaint
