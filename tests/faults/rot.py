"""Changes to files behind the broker's back, while it is down.

One bit of an old batch flips; or the ends of logs look as after a crash: zeros,
the beginning of a batch, or other bytes that were never acknowledged.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from pathlib import Path

from tests.support.history_checker import Key
from tests.support.raw_batches import HEADER_BYTES


def flip_a_bit(data: Path, keys: Sequence[Key], chance: random.Random) -> tuple[Key, int] | None:
    """Flip a bit under the CRC of a batch below the recovery point.

    The log must begin at 0 and have one segment. Returns key and base offset;
    None if there is no such batch.
    """
    points = _recovery_points(data / "recovery-point-offset-checkpoint")
    places = [
        (key, base_offset, position, size)
        for key in keys
        for base_offset, last_offset, position, size in _batches(data, key)
        if last_offset + 1 < points.get(key, 0)
    ]
    if not places:  # no checkpoint has passed a batch
        return None
    key, base_offset, position, size = chance.choice(places)
    with _log(data, key).open("r+b") as file:
        at = chance.randrange(position + HEADER_BYTES, position + size)
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1 << chance.randrange(8)]))
    return key, base_offset


def spoil_the_ends(data: Path, chance: random.Random) -> None:
    """Append bytes that were never written to the last segment of each topic's partitions."""
    for directory in data.glob("[a-z]*-*/"):
        last = max(directory.glob("*.log"), default=None)
        if last is None:  # the broker was creating, deleting or compacting it when it was killed
            continue
        with last.open("r+b") as file:
            content = file.read()
            whole = content[: 12 + int.from_bytes(content[8:12], "big")]
            torn = whole[: chance.randrange(len(whole))] if whole else b""
            file.write(chance.choice((b"", bytes(5000), torn, chance.randbytes(300))))


def spoil_the_lists(data: Path, chance: random.Random) -> None:
    """Remove the lists of aborted transactions, or empty them, or leave the beginning of each.

    They are caches, so the broker must build them anew.
    """
    for path in data.glob("[a-z]*-*/*.txnindex"):
        content = path.read_bytes()
        kept = chance.choice((None, None, b"", content[: len(content) // 2]))
        if kept is None:
            path.unlink()
        else:
            path.write_bytes(kept)


def _log(data: Path, key: Key) -> Path:
    return data / f"{key[0]}-{key[1]}" / f"{0:020}.log"


def _recovery_points(path: Path) -> dict[Key, int]:
    rows = [line.split() for line in path.read_text().splitlines()[2:]]
    return {(topic, int(partition)): int(offset) for topic, partition, offset in rows}


def _batches(data: Path, key: Key) -> list[tuple[int, int, int, int]]:
    """Return (base offset, last offset, position, size) of each batch."""
    content, position, found = _log(data, key).read_bytes(), 0, []
    while position + HEADER_BYTES <= len(content):
        base_offset, length = struct.unpack_from(">qi", content, position)
        (delta,) = struct.unpack_from(">i", content, position + 23)
        if length <= 0:
            break
        found.append((base_offset, base_offset + delta, position, length + 12))
        position += length + 12
    return found
