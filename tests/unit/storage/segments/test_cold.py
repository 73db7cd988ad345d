"""A look-up that must not wait names the missing bytes; any other look-up waits."""

import threading

import pytest

from storage.segments import cold
from storage.segments.cold import (
    KEPT_BYTES_MAX,
    NOTHING,
    READ_AHEAD_BYTES,
    Cold,
    ColdBytes,
    Pulled,
    without_waiting,
)
from tests.support.memory_filesystem import MemoryFileSystem

PATH = "/f"


def cold_disk():
    filesystem = MemoryFileSystem()
    filesystem.open(PATH, create=True).pwrite(b"0123456789", 0)
    filesystem.cold.add(PATH)
    return filesystem


@pytest.fixture
def filesystem():
    return cold_disk()


def test_it_waits_unless_told_otherwise(filesystem):
    assert cold.read(filesystem.open(PATH), 3, 2) == b"234"


def test_missing_bytes_are_named_and_can_be_pulled(filesystem):
    file = filesystem.open(PATH)
    with (
        without_waiting(NOTHING),
        pytest.raises(Cold, match=r"/f: 3 bytes from position 2 are not in memory") as missing,
    ):
        cold.read(file, 3, 2)
    assert (missing.value.file, missing.value.position, missing.value.size) == (file, 2, 3)
    missing.value.pull()
    filesystem.cold.clear()
    with without_waiting(NOTHING):
        assert cold.read(file, 3, 2) == b"234"


@pytest.mark.parametrize("size", [3, READ_AHEAD_BYTES + 1])
def test_a_pull_reads_ahead(filesystem, size):
    file = filesystem.open(PATH)
    pulled = []
    file.pull = lambda size, position: pulled.append((size, position))
    ColdBytes(file, 2, size).pull()
    assert pulled == [(max(size, READ_AHEAD_BYTES), 2)]


def test_what_was_pulled_is_kept_for_the_look_up(filesystem):
    file = filesystem.open(PATH)
    pulled = Pulled()
    missing = ColdBytes(file, 2, 3)
    missing.pull()
    missing.keep(pulled)
    with without_waiting(pulled):
        assert cold.read(file, 3, 2) == b"234"  # which is not in memory again
        with pytest.raises(Cold):
            cold.read(file, 4, 2)
    with without_waiting(NOTHING), pytest.raises(Cold):  # other look-ups have their own
        cold.read(file, 3, 2)


def test_as_much_is_kept_as_there_is_room_for():
    pulled = Pulled()
    pulled.keep("first", bytes(KEPT_BYTES_MAX - 1))
    pulled.keep("second", bytes(2))
    pulled.keep("third", b"3")
    assert pulled.get("first") is not None
    assert (pulled.get("second"), pulled.get("third")) == (None, b"3")


@pytest.mark.parametrize("call", ["pull", "pread"])
def test_an_error_of_the_pull_is_kept_for_the_look_up(filesystem, call):
    file = filesystem.open(PATH)
    missing, pulled = ColdBytes(file, 2, 3), Pulled()
    if call == "pread":
        file.pull = lambda size, position: size
    filesystem.fail("pread")
    missing.pull()
    missing.keep(pulled)
    with without_waiting(pulled), pytest.raises(OSError, match=PATH):
        cold.read(file, 3, 2)


def test_the_mode_holds_for_one_thread(filesystem):
    found = []
    with without_waiting(NOTHING):
        other = threading.Thread(
            target=lambda: found.append(cold.read(filesystem.open(PATH), 1, 0))
        )
        other.start()
        other.join()
    assert found == [b"0"]


def test_after_the_block_it_waits_again(filesystem):
    with pytest.raises(KeyError), without_waiting(NOTHING):
        raise KeyError
    assert cold.read(filesystem.open(PATH), 1, 0) == b"0"
