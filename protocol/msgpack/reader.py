"""Reads msgpack values from a frame, one at a time, each of the type expected there.

The message class says what may come next, and nothing else is read: no general value is built, and
only the message's own nesting is followed. That bounds the depth. Every
announced size or count is compared with the bytes that remain before anything is made, and all
arrays of a frame together have at most `elements_max` elements, since one byte of msgpack can
become an object of a hundred. (A general unpacker makes room for a whole array when it is
announced, at each level: a kilobyte could claim terabytes.)

Whatever the bytes are, reading raises BodyError or, at the end of the frame, IndexError or
struct.error; the dialect takes all three.
"""

from __future__ import annotations

import struct
from typing import Final

from protocol.errors import DecodeError
from protocol.record_walks import Rest, no_rest

_INTEGERS: Final = {
    0xCC: struct.Struct(">B"),
    0xCD: struct.Struct(">H"),
    0xCE: struct.Struct(">I"),
    0xCF: struct.Struct(">Q"),
    0xD0: struct.Struct(">b"),
    0xD1: struct.Struct(">h"),
    0xD2: struct.Struct(">i"),
    0xD3: struct.Struct(">q"),
}
_FLOATS: Final = {0xCA: struct.Struct(">f"), 0xCB: struct.Struct(">d")}
_BYTE, _SHORT, _LONG = struct.Struct(">B"), struct.Struct(">H"), struct.Struct(">I")
_STRINGS: Final = {0xD9: _BYTE, 0xDA: _SHORT, 0xDB: _LONG}
_BINARIES: Final = {0xC4: _BYTE, 0xC5: _SHORT, 0xC6: _LONG, **_STRINGS}
_NIL, _FALSE, _TRUE = 0xC0, 0xC2, 0xC3

STRING_BYTES_MAX: Final = 0x7FFF  # of Kafka's strings
BYTES_MAX: Final = 0xFFFF_FFFF  # that msgpack can announce


class BodyError(DecodeError):
    """A value is not what its field allows; `path` names the fields, the outermost first."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: list[str] = []

    def within(self, name: str) -> BodyError:
        """Name the field of the value."""
        self.path.insert(0, name)
        return self

    def __str__(self) -> str:
        """Return the path and the reason."""
        return f"{'.'.join(self.path)}: {self.reason}" if self.path else self.reason


class TooManyElements(BodyError):
    """The arrays of a frame have more elements than its reader allows."""

    def __init__(self, count: int) -> None:
        super().__init__(f"{count} elements more than one request may have")


class TooManyBytes(BodyError):
    """A frame has more bytes to be copied than its reader may copy."""

    def __init__(self) -> None:
        super().__init__("too many bytes to be copied at once")


class Reader:
    """A frame and the position in it. In a thread, `rest` lets others run.

    It makes at most `copied_bytes_max` bytes into objects; None: as many as there are.
    """

    __slots__ = ("copied_bytes_left", "data", "elements_left", "position", "rest")

    def __init__(
        self,
        data: memoryview,
        elements_max: int,
        rest: Rest = no_rest,
        *,
        copied_bytes_max: int | None = None,
    ) -> None:
        self.data = data
        self.position = 0
        self.rest = rest
        self.elements_left = elements_max
        self.copied_bytes_left = len(data) if copied_bytes_max is None else copied_bytes_max

    def peek(self) -> int:
        """Return the byte that says what comes next."""
        return self.data[self.position]

    def take_nil(self) -> bool:
        """Skip a nil if one comes next; return whether one did."""
        if self.data[self.position] != _NIL:
            return False
        self.position += 1
        return True

    def integer(self) -> int:
        """Return an integer of any size."""
        position = self.position
        head = self.data[position]
        if head < 0x80:
            self.position = position + 1
            return head
        if head >= 0xE0:
            self.position = position + 1
            return head - 0x100
        form = _INTEGERS.get(head)
        if form is None:
            raise BodyError(f"found {kind_of(head)}, expected an integer")
        number: int = form.unpack_from(self.data, position + 1)[0]
        self.position = position + 1 + form.size
        return number

    def boolean(self) -> bool:
        """Return true or false."""
        head = self.data[self.position]
        if head not in (_FALSE, _TRUE):
            raise BodyError(f"found {kind_of(head)}, expected true or false")
        self.position += 1
        return head == _TRUE

    def number(self) -> float:
        """Return a float, or an integer as one."""
        position = self.position
        form = _FLOATS.get(self.data[position])
        if form is None:
            return float(self.integer())
        number: float = form.unpack_from(self.data, position + 1)[0]
        self.position = position + 1 + form.size
        return number

    def string(self) -> str:
        """Return a str of a message, which is as short as Kafka's strings are."""
        return self.text(STRING_BYTES_MAX)

    def text(self, bytes_max: int = BYTES_MAX) -> str:
        """Return a str."""
        head = self.data[self.position]
        if not (0xA0 <= head <= 0xBF or head in _STRINGS):
            raise BodyError(f"found {kind_of(head)}, expected a str")
        encoded = self._sized(head)
        if len(encoded) > bytes_max:
            raise BodyError(f"a str of {len(encoded)} bytes, it may have {bytes_max}")
        try:
            return str(self._copied(encoded), "utf-8")
        except UnicodeDecodeError as error:
            raise BodyError(f"a str is not UTF-8: {error}") from None

    def name(self) -> bytes:
        """Return the name of a field: a str, undecoded, since it is only looked up."""
        position = self.position + 1
        head = self.data[position - 1]
        if 0xA0 <= head <= 0xBF:
            self.position = end = position + (head & 0x1F)
            name = bytes(self.data[position:end])
            if len(name) != end - position:
                raise BodyError("the frame ends inside the name of a field")
            return name
        if head not in _STRINGS:
            raise BodyError(f"found {kind_of(head)}, expected the name of a field")
        piece = self._sized(head)
        if len(piece) > STRING_BYTES_MAX:
            raise BodyError(f"the name of a field has {len(piece)} bytes")
        return bytes(piece)

    def binary(self) -> bytes:
        """Return a bin; a str is taken as its bytes."""
        return bytes(self._copied(self.view()))

    def _copied(self, piece: memoryview) -> memoryview:
        self.copied_bytes_left -= len(piece)
        if self.copied_bytes_left < 0:
            raise TooManyBytes
        return piece

    def view(self) -> memoryview:
        """Return a bin, or a str's bytes, as a part of the frame."""
        head = self.data[self.position]
        if not (0xA0 <= head <= 0xBF or head in _BINARIES):
            raise BodyError(f"found {kind_of(head)}, expected a bin")
        return self._sized(head)

    def _sized(self, head: int) -> memoryview:
        start = self.position + 1
        form = _BINARIES.get(head)
        if form is None:
            size = head & 0x1F
        else:
            size = form.unpack_from(self.data, start)[0]
            start += form.size
        end = start + size
        if end > len(self.data):
            raise BodyError(f"{size} bytes announced, {len(self.data) - start} remain")
        self.position = end
        return self.data[start:end]

    def array(self) -> int:
        """Return the count of the array that begins here."""
        head = self.data[self.position]
        count = self._count(head, 0x90, 0xDC, "an array", bytes_each=1)
        if count > self.elements_left:
            raise TooManyElements(count)
        self.elements_left -= count
        return count

    def map(self) -> int:
        """Return the count of pairs of the map that begins here."""
        return self._count(self.data[self.position], 0x80, 0xDE, "a map", bytes_each=2)

    def _count(self, head: int, fixed: int, first: int, what: str, *, bytes_each: int) -> int:
        start = self.position + 1
        if head & 0xF0 == fixed:
            count = head & 0x0F
        elif head in (first, first + 1):
            form = _SHORT if head == first else _LONG
            count = form.unpack_from(self.data, start)[0]
            start += form.size
        else:
            raise BodyError(f"found {kind_of(head)}, expected {what}")
        remaining = len(self.data) - start
        if count * bytes_each > remaining:
            raise BodyError(f"{what} of {count} announced, {remaining} bytes remain")
        self.position = start
        return count


def is_array(head: int) -> bool:
    """Say whether an array begins with the byte `head`."""
    return head & 0xF0 == 0x90 or head in (0xDC, 0xDD)


def kind_of(head: int) -> str:
    """Name the value that begins with the byte `head`."""
    if head < 0x80 or head >= 0xE0 or head in _INTEGERS:
        return "an integer"
    if head <= 0x8F or head in (0xDE, 0xDF):
        return "a map"
    if head <= 0x9F or head in (0xDC, 0xDD):
        return "an array"
    if head <= 0xBF or head in _STRINGS:
        return "a str"
    if head in _BINARIES:
        return "a bin"
    if head in _FLOATS:
        return "a float"
    return {_NIL: "nil", 0xC1: "a byte that msgpack does not use"}.get(
        head, "a boolean" if head in (_FALSE, _TRUE) else "an extension"
    )
