"""Whether a large Produce request is large for its records, or for all that it names.

Records stay as they are, so a frame of megabytes is decoded in microseconds if it names a few
partitions. One of 100,000 takes a tenth of a second. This looks at sizes and counts only, and ends
at the first count that is too large, or with the last partition that is not.

    transactional id, acks, timeout, [topic: name or id, [partition: index, records]]
"""

import struct
from typing import Final

from protocol.errors import DecodeError
from protocol.kafka.primitives import read_uvarint, skip_tags
from protocol.wire import Buffer

QUICK_COUNT_MAX: Final = 1_000  # topics and partitions: they are decoded in a millisecond
FLEXIBLE_SINCE: Final = 9
TOPIC_IDS_SINCE: Final = 13

_int16 = struct.Struct(">h")
_int32 = struct.Struct(">i")
_ACKS_AND_TIMEOUT: Final = 2 + 4
_INDEX: Final = 4
_UUID: Final = 16


def names_many(frame: memoryview, position: int, version: int) -> bool:
    """Return whether the body at `position` names more than QUICK_COUNT_MAX topics and partitions.

    False if it cannot be read: decoding it says why.
    """
    walk = _Flexible if version >= FLEXIBLE_SINCE else _Fixed
    try:
        return walk(frame, position, has_ids=version >= TOPIC_IDS_SINCE).names_many()
    except (struct.error, IndexError, DecodeError):
        return False


class _Fixed:
    """Walks over a body whose sizes and counts have two and four bytes."""

    def __init__(self, frame: memoryview, position: int, *, has_ids: bool) -> None:
        self.frame: Buffer = frame
        self.position = position
        self.has_ids = has_ids

    def names_many(self) -> bool:
        self.skip_string()
        self.position += _ACKS_AND_TIMEOUT
        count = topics = self.count()
        for number in range(topics):
            if count > QUICK_COUNT_MAX:
                return True
            if self.has_ids:
                self.position += _UUID
            else:
                self.skip_string()
            partitions = self.count()
            count += partitions
            if count > QUICK_COUNT_MAX:
                return True
            if number == topics - 1:
                return False
            for _ in range(partitions):
                self.position += _INDEX
                self.skip_records()
                self.skip_tags()
            self.skip_tags()
        return False

    def count(self) -> int:
        """Return the size of the array at the position."""
        (count,) = _int32.unpack_from(self.frame, self.position)
        self.position += _int32.size
        return int(count)

    def skip_string(self) -> None:
        """Skip a string."""
        (size,) = _int16.unpack_from(self.frame, self.position)
        self.position += _int16.size + max(0, size)

    def skip_records(self) -> None:
        """Skip records."""
        size = self.count()
        self.position += max(0, size)

    def skip_tags(self) -> None:
        """Skip nothing: there are no tagged fields."""


class _Flexible(_Fixed):
    """Walks over a body with compact sizes and counts, which are stored plus one."""

    def count(self) -> int:
        """Return the size of the array at the position; -1: null."""
        stored, self.position = read_uvarint(memoryview(self.frame), self.position)
        return stored - 1

    def skip_string(self) -> None:
        """Skip a string."""
        self.skip_records()

    def skip_tags(self) -> None:
        """Skip tagged fields."""
        stored = self.count() + 1
        if stored:
            frame = memoryview(self.frame)
            self.position = skip_tags(frame, self.position, len(frame), stored, "a Produce")
