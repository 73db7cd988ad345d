"""Which errors mean a full disk, and that they are counted."""

import errno

import pytest

from storage.files.room import PASSING, Room


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_errors_of_a_full_disk_are_counted(number: int) -> None:
    room = Room()
    error = OSError(number, "full")
    assert room.note(error)
    assert room.note(error)
    assert (room.refusals, room.last_refusal) == (2, error)
    assert number in PASSING


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE])
def test_other_errors_are_not_counted(number: int) -> None:
    room = Room()
    assert not room.note(OSError(number, "other"))
    assert (room.refusals, room.last_refusal) == (0, None)


def test_a_lack_of_descriptors_passes_like_a_full_disk() -> None:
    assert {errno.EMFILE, errno.ENFILE} <= PASSING
    assert errno.EIO not in PASSING
