"""A reader of DER, as far as X.509 certificates need it.

The standard library parses certificates into shapes that lose what Kafka shows (the order and the
types of a name's parts), and only for peers. A certificate is a tree of elements: a tag, a length,
and content that for constructed tags is more elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

BOOLEAN: Final = 0x01
OCTET_STRING: Final = 0x04
OBJECT_IDENTIFIER: Final = 0x06
UTC_TIME: Final = 0x17
GENERALIZED_TIME: Final = 0x18
SEQUENCE: Final = 0x30
SET: Final = 0x31


class DerError(ValueError):
    """Bytes that are not the DER that was expected."""


class Element(NamedTuple):
    """One element: its tag, its content, and all of its bytes."""

    tag: int
    content: bytes
    encoded: bytes

    def expect(self, tag: int) -> Element:
        """Return the element if it has `tag`. Raises DerError."""
        if self.tag != tag:
            raise DerError(f"tag {self.tag:#x} instead of {tag:#x}")
        return self

    def children(self) -> Iterator[Element]:
        """Yield the elements of the content, in order."""
        data, at = self.content, 0
        while at < len(data):
            element, at = _read(data, at)
            yield element


def parse(data: bytes) -> Element:
    """Return the one element that `data` is. Raises DerError."""
    element, end = _read(data, 0)
    if end != len(data):
        raise DerError(f"{len(data) - end} bytes behind the end")
    return element


def _read(data: bytes, at: int) -> tuple[Element, int]:
    start = at
    try:
        tag, length = data[at], data[at + 1]
        at += 2
        if length >= 0x80:
            count = length & 0x7F
            if not 1 <= count <= 4:
                raise DerError(f"a length of {count} bytes")
            length = int.from_bytes(data[at : at + count], "big")
            at += count
    except IndexError:
        raise DerError("it ends inside an element") from None
    end = at + length
    if tag & 0x1F == 0x1F:
        raise DerError("a tag of several bytes")
    if end > len(data):
        raise DerError("it ends inside an element")
    return Element(tag, data[at:end], data[start:end]), end


def object_identifier(content: bytes) -> str:
    """Return an object identifier in dotted form. Raises DerError."""
    if not content or content[-1] & 0x80:
        raise DerError("an object identifier without an end")
    numbers: list[int] = []
    number = 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
