"""A look-up that must not wait names the missing bytes; any other look-up waits."""

import threading

import pytest

from storage.segments import cold
from storage.segments.cold import READ_AHEAD_BYTES, Cold, without_waiting
from tests.support.memory_filesystem import MemoryFileSystem

PATH = "/f"


@pytest.fixture
def filesystem():
    filesystem = MemoryFileSystem()
    filesystem.open(PATH, create=True).pwrite(b"0123456789", 0)
    filesystem.cold.add(PATH)
    return filesystem


def test_it_waits_unless_told_otherwise(filesystem):
    assert cold.read(filesystem.open(PATH), 3, 2) == b"234"


def test_missing_bytes_are_named_and_can_be_pulled(filesystem):
    file = filesystem.open(PATH)
    with (
        without_waiting(),
        pytest.raises(Cold, match=r"/f: 3 bytes from position 2 are not in memory") as missing,
    ):
        cold.read(file, 3, 2)
    assert (missing.value.file, missing.value.position, missing.value.size) == (file, 2, 3)
    missing.value.pull()
    filesystem.cold.clear()
    with without_waiting():
        assert cold.read(file, 3, 2) == b"234"


@pytest.mark.parametrize("size", [3, READ_AHEAD_BYTES + 1])
def test_a_pull_reads_ahead(filesystem, size):
    file = filesystem.open(PATH)
    pulled = []
    file.pull = lambda size, position: pulled.append((size, position))
    Cold(file, 2, size).pull()
    assert pulled == [(max(size, READ_AHEAD_BYTES), 2)]


def test_a_pull_that_fails_says_so():
    filesystem = MemoryFileSystem()
    file = filesystem.open(PATH, create=True)
    filesystem.fail("pread")
    with pytest.raises(OSError, match=PATH):
        Cold(file, 2, 3).pull()


def test_the_mode_holds_for_one_thread(filesystem):
    found = []
    with without_waiting():
        other = threading.Thread(
            target=lambda: found.append(cold.read(filesystem.open(PATH), 1, 0))
        )
        other.start()
        other.join()
    assert found == [b"0"]


def test_after_the_block_it_waits_again(filesystem):
    with pytest.raises(KeyError), without_waiting():
        raise KeyError
    assert cold.read(filesystem.open(PATH), 1, 0) == b"0"
