"""Record batches for tests of storage: of an exact size, at given offsets and times."""

from __future__ import annotations

from protocol.records import BatchHeader, Record, build, read_header


def batch(
    base_offset: int = 0,
    count: int = 1,
    *,
    size: int | None = None,
    timestamp: int = 1_000,
    codec: int = 0,
    leader_epoch: int = 0,
) -> bytearray:
    """Return a batch of `count` records from `base_offset` on, of exactly `size` bytes if given.

    The records' timestamps are `timestamp`, `timestamp` + 1, …; the last value is padded.
    """
    padding = 0
    while True:
        records = [
            Record(
                offset=base_offset + index,
                timestamp=timestamp + index,
                key=b"key",
                value=b"v" * (padding if index == count - 1 else 1),
                headers=(),
            )
            for index in range(count)
        ]
        built = build(records, base_offset=base_offset, codec=codec, leader_epoch=leader_epoch)
        if size is None or len(built) == size:
            return built
        assert len(built) < size, f"{count} records take {len(built)} bytes, more than {size}"
        padding += max(1, size - len(built) - 6)  # lengths are varints: come near, then step


def header_of(data: bytes | bytearray) -> BatchHeader:
    """Return the header of the batch that `data` begins with."""
    return read_header(data)
