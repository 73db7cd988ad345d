"""What is nearly right: bytes and texts with a few random changes."""

from __future__ import annotations

import random
from collections.abc import Iterator

INTERESTING = (b"", b"\0", b"\1", b",", b"=", b"\xff", b"n,,", b"a" * 300, b"/", b"\\", b'"', b";")
Ways = Iterator[str]  # how cases ended


def bent(data: bytes, source: random.Random) -> bytes:
    """Return data with up to three changes."""
    found = bytearray(data)
    for _ in range(source.randrange(4)):
        at = source.randrange(len(found) + 1)
        way = source.randrange(6)
        if way == 0 and at < len(found):
            found[at] = source.randrange(256)
        elif way == 1:
            del found[at : at + source.randrange(1, 9)]
        elif way == 2:
            found[at:at] = source.choice(INTERESTING)
        elif way == 3:
            found[at:at] = found[: source.randrange(12)]
        elif way == 4:
            del found[at:]
        elif at < len(found):
            found[at] ^= 1 << source.randrange(8)
    return bytes(found)


def bent_text(text: str, source: random.Random) -> str:
    """Return text with up to three changes."""
    return bent(text.encode(), source).decode("utf-8", "replace")
