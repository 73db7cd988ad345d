"""What logs share: discarded files are renamed at once and removed later."""

import pytest

from storage.files.open_files import OpenFiles
from storage.home import Home
from storage.trash import FOREVER_MS
from tests.support.memory_filesystem import MemoryFileSystem


@pytest.fixture
def home():
    filesystem = MemoryFileSystem()
    filesystem.mkdir("/d")
    return Home(filesystem, OpenFiles(filesystem, 10), 1000)


def test_discarded_files_are_renamed_now_and_removed_when_due(home):
    for name in ("a", "b"):
        home.files.get(f"/d/{name}", create=True)
    home.discard("/d", ["a", "missing"], 100)
    home.discard("/d", ["b"], 200)
    assert home.filesystem.list("/d") == ["a.deleted", "b.deleted"]
    assert len(home.files) == 0
    assert home.trash.begin_purge(99) is None
    home.trash.begin_purge(100).run()
    assert home.filesystem.list("/d") == ["b.deleted"]
    home.trash.begin_purge(200).run()
    assert home.filesystem.list("/d") == []
    assert home.trash.begin_purge(FOREVER_MS) is None
