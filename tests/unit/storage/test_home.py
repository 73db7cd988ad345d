"""What logs share: the trash."""

import pytest

from storage.home import Home
from storage.open_files import OpenFiles
from tests.support.memory_filesystem import MemoryFileSystem


@pytest.fixture
def home():
    filesystem = MemoryFileSystem()
    filesystem.mkdir("/d")
    return Home(filesystem, OpenFiles(filesystem, 10), 1000)


def test_discarded_files_are_renamed_now_and_unlinked_when_due(home):
    for name in ("a", "b"):
        home.files.get(f"/d/{name}", create=True)
    home.discard("/d", ["a", "missing"], 100)
    home.discard("/d", ["b"], 200)
    assert home.filesystem.list("/d") == ["a.deleted", "b.deleted"]
    assert len(home.files) == 0
    assert home.purge(100) == []
    assert home.filesystem.list("/d") == ["b.deleted"]
    home.purge(200)
    assert home.filesystem.list("/d") == []


def test_what_is_gone_already_is_no_complaint(home):
    home.files.get("/d/a", create=True)
    home.discard("/d", ["a"], 0)
    home.filesystem.unlink("/d/a.deleted")
    assert home.purge(0) == []


def test_what_cannot_be_unlinked_is_a_complaint_and_not_tried_for_ever(home):
    home.files.get("/d/a", create=True)
    home.discard("/d", ["a"], 0)
    home.filesystem.fail("unlink", forever=True)
    (complaint,) = home.purge(0)
    assert "/d/a.deleted" in complaint
    assert home.purge(0) == []
