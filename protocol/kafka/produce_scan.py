"""Whether a large Produce request is large for its records, or for all that it names.

Records stay as they are, so a frame of megabytes is decoded in microseconds if it names a few
partitions. One of 100,000 takes a tenth of a second; so do as many tagged fields, or half a
megabyte of names that are no UTF-8. This looks at sizes and counts only, and ends at the first that
is too large.

    tagged fields of the header, transactional id, acks, timeout,
    [topic: name or id, [partition: index, records]]
"""

import struct
from typing import Final

from protocol.errors import DecodeError
from protocol.kafka.primitives import read_uvarint, skip_tags

# Topics, partitions and tagged fields: they are decoded in a millisecond.
QUICK_COUNT_MAX: Final = 1_000
QUICK_NAME_BYTES_MAX: Final = 32 * 1024  # at most 0.3 us each (`protocol.java_text`)
FLEXIBLE_SINCE: Final = 9
TOPIC_IDS_SINCE: Final = 13

_int16 = struct.Struct(">h")
_int32 = struct.Struct(">i")
_ACKS_AND_TIMEOUT: Final = 2 + 4
_INDEX: Final = 4
_UUID: Final = 16


class _TooMany(Exception):
    """The loop would take too long to decode the request."""


def names_many(frame: memoryview, position: int, version: int) -> bool:
    """Return whether the loop would take long for what follows the client id, at `position`.

    False if it cannot be read: decoding it says why.
    """
    walk = _Flexible if version >= FLEXIBLE_SINCE else _Fixed
    try:
        walk(frame, position, has_ids=version >= TOPIC_IDS_SINCE).walk()
    except _TooMany:
        return True
    except (struct.error, IndexError, DecodeError):
        return False
    return False


class _Fixed:
    """Walks over a body whose sizes and counts have two and four bytes."""

    has_tags = False

    def __init__(self, frame: memoryview, position: int, *, has_ids: bool) -> None:
        self.frame = frame
        self.position = position
        self.has_ids = has_ids
        self.count_left = QUICK_COUNT_MAX
        self.name_bytes_left = QUICK_NAME_BYTES_MAX

    def walk(self) -> None:
        """Raise _TooMany at the first count or name that is too large."""
        self.skip_tags()
        self.skip_string()
        self.position += _ACKS_AND_TIMEOUT
        topics = self.counted(self.size())
        for number in range(topics):
            if self.has_ids:
                self.position += _UUID
            else:
                self.skip_string()
            partitions = self.counted(self.size())
            if number == topics - 1 and not self.has_tags:
                return
            for _ in range(partitions):
                self.position += _INDEX
                records = max(0, self.size())
                self.position += records
                self.skip_tags()
            self.skip_tags()
        self.skip_tags()

    def counted(self, count: int) -> int:
        """Return `count`, if the request does not name too much with it."""
        self.count_left -= count
        if self.count_left < 0:
            raise _TooMany
        return count

    def size(self) -> int:
        """Return the size of records or of an array, which is at the position; -1: null."""
        (size,) = _int32.unpack_from(self.frame, self.position)
        self.position += _int32.size
        return int(size)

    def string_size(self) -> int:
        """Return the size of a string, which is at the position; -1: null."""
        (size,) = _int16.unpack_from(self.frame, self.position)
        self.position += _int16.size
        return int(size)

    def skip_string(self) -> None:
        """Skip a string."""
        size = max(0, self.string_size())
        self.position += size
        self.name_bytes_left -= size
        if self.name_bytes_left < 0:
            raise _TooMany

    def skip_tags(self) -> None:
        """Skip nothing: there are no tagged fields."""


class _Flexible(_Fixed):
    """Walks over a body with compact sizes and counts, which are stored plus one."""

    has_tags = True

    def size(self) -> int:
        """Return the size of records or of an array, which is at the position; -1: null."""
        stored, self.position = read_uvarint(self.frame, self.position)
        return stored - 1

    def string_size(self) -> int:
        """Return the size of a string, which is at the position; -1: null."""
        return self.size()

    def skip_tags(self) -> None:
        """Skip tagged fields."""
        frame, position = self.frame, self.position
        if frame[position] == 0:
            self.position = position + 1
            return
        count, position = read_uvarint(frame, position)
        self.counted(count)
        self.position = skip_tags(frame, position, len(frame), count, "a Produce")
