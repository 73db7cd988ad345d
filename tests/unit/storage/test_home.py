"""What logs share: the trash."""

import pytest

from storage.files.open_files import OpenFiles
from storage.home import FOREVER_MS, Home
from tests.support.memory_filesystem import MemoryFileSystem


@pytest.fixture
def home():
    filesystem = MemoryFileSystem()
    filesystem.mkdir("/d")
    return Home(filesystem, OpenFiles(filesystem, 10), 1000)


def test_discarded_files_are_renamed_now_and_taken_when_due(home):
    for name in ("a", "b"):
        home.files.get(f"/d/{name}", create=True)
    home.discard("/d", ["a", "missing"], 100)
    home.discard("/d", ["b"], 200)
    assert home.filesystem.list("/d") == ["a.deleted", "b.deleted"]
    assert len(home.files) == 0
    assert home.take_due(99) == []
    assert home.take_due(100) == ["/d/a.deleted"]
    assert home.take_due(200) == ["/d/b.deleted"]
    assert home.take_due(FOREVER_MS) == []


def test_the_trash_of_a_directory_that_is_trash_is_forgotten(home):
    for path in ("/d/a.deleted", "/d/sub/b.deleted", "/dd/c.deleted"):
        home.toss(0, path)
    home.forget_trash({"/d"})
    assert home.take_due(0) == ["/d/sub/b.deleted", "/dd/c.deleted"]


def test_forever_is_longer_than_any_delay(home):
    """On a full disk what was deleted goes at once, also with file.delete.delay.ms at its most."""
    home.files.get("/d/a", create=True)
    home.discard("/d", ["a"], 1_700_000_000_000 + 2**63 - 1)
    assert home.take_due(FOREVER_MS) == ["/d/a.deleted"]
