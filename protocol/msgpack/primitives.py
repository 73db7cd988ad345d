"""Functions that compiled readers call for less usual values, and how they give up.

A compiled reader (`protocol.msgpack.compiler`) has the usual in its own lines: integers below 128,
short strings, few elements. These functions read all forms. They take the frame and the position
of the value's first byte, and return what they read and the position behind it.

Any value that a compiled reader does not expect raises one of `GIVES_UP`, without a reason: the
walking reader (`protocol.msgpack.decoder`) then reads the frame from its beginning, and either
accepts it or says what is wrong.
"""

from __future__ import annotations

import struct
from typing import Final

from protocol.wire import Buffer


class Irregular(Exception):
    """The frame is not in the form that compiled readers accept."""


GIVES_UP: Final = (Irregular, IndexError, struct.error, UnicodeDecodeError)

_INTEGERS: Final = {
    head: (form.unpack_from, 1 + form.size)
    for head, form in enumerate(map(struct.Struct, (">B", ">H", ">I", ">Q")), 0xCC)
} | {
    head: (form.unpack_from, 1 + form.size)
    for head, form in enumerate(map(struct.Struct, (">b", ">h", ">i", ">q")), 0xD0)
}
_SIZES: Final = {
    head: (form.unpack_from, 1 + form.size)
    for heads, form in (
        ((0xC4, 0xD9), struct.Struct(">B")),
        ((0xC5, 0xDA, 0xDC, 0xDE), struct.Struct(">H")),
        ((0xC6, 0xDB, 0xDD, 0xDF), struct.Struct(">I")),
    )
    for head in heads
}
BINARY_HEADS: Final = (0xC4, 0xC5, 0xC6)
_STRING_HEADS: Final = (0xD9, 0xDA, 0xDB)


def read_integer(data: Buffer, position: int, first: int, last: int) -> tuple[int, int]:
    """Return the integer at `position`, which is one from `first` to `last`."""
    head = data[position]
    number: int
    if head < 0x80:
        number, position = head, position + 1
    elif head >= 0xE0:
        number, position = head - 0x100, position + 1
    else:
        form = _INTEGERS.get(head)
        if form is None:
            raise Irregular
        unpack_from, size = form
        number = unpack_from(data, position + 1)[0]
        position += size
    if not first <= number <= last:
        raise Irregular
    return number, position


def read_binary_size(data: Buffer, position: int) -> tuple[int, int]:
    """Return where the bin at `position` begins and ends."""
    return _read_extent(data, position, BINARY_HEADS)


def read_string_size(data: Buffer, position: int) -> tuple[int, int]:
    """Return where the str at `position`, of more than 31 bytes, begins and ends."""
    return _read_extent(data, position, _STRING_HEADS)


def _read_extent(data: Buffer, position: int, heads: tuple[int, int, int]) -> tuple[int, int]:
    head = data[position]
    if head not in heads:
        raise Irregular
    unpack_from, size = _SIZES[head]
    start = position + size
    end = start + unpack_from(data, position + 1)[0]
    if end > len(data):
        raise Irregular
    return start, end


def read_count(data: Buffer, position: int, short: int) -> tuple[int, int]:
    """Return the count of an array or map of more than 15; `short` begins the 16-bit form."""
    head = data[position]
    if head not in (short, short + 1):
        raise Irregular
    unpack_from, size = _SIZES[head]
    count: int = unpack_from(data, position + 1)[0]
    position += size
    if count > len(data) - position:
        raise Irregular
    return count, position
