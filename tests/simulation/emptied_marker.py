"""What Kafka's cleaner leaves of a transaction's marker in __consumer_offsets: a batch of nothing.

Kafka keeps the last batch of each producer without its records, so that it knows the producer's
last sequence number. A directory that Kafka has used may hold such batches; the broker never
writes them itself. It must pass over them.
"""

from __future__ import annotations

import random
from typing import Final

from protocol.record_batch import (
    CONTROL,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    pack_header,
    read_header,
    write_crc,
)
from storage.files import filenames
from storage.files.filenames import Kind
from tests.simulation.bit_flip import batches_below
from tests.support.memory_inodes import Directory, Inode

OFFSETS: Final = "__consumer_offsets"
END: Final = 1 << 62
PRODUCER_ID: Final = 7_000


def add_marker(directory: Directory, rng: random.Random) -> str:
    """Put an emptied marker at the end of a log of groups; say where."""
    logs = [
        (path, inode, end)
        for path, inode in last_segments(directory)
        if (end := end_of(inode)) is not None
    ]
    if not logs:
        return "has no log of groups"
    path, inode, (last, offset) = rng.choice(logs)
    header = read_header(bytes(inode.live), last)
    inode.live += emptied_marker(offset, header.leader_epoch, header.max_timestamp)
    inode.harden()
    return f"has an emptied marker in {path}"


def emptied_marker(offset: int, leader_epoch: int, timestamp: int) -> bytes:
    """Return the batch."""
    batch = bytearray(
        pack_header(
            BatchHeader(
                base_offset=offset,
                batch_length=HEADER_SIZE - LOG_OVERHEAD,
                leader_epoch=leader_epoch,
                magic=MAGIC,
                crc=0,
                attributes=CONTROL | TRANSACTIONAL,
                last_offset_delta=0,
                base_timestamp=timestamp,
                max_timestamp=timestamp,
                producer_id=PRODUCER_ID,
                producer_epoch=0,
                base_sequence=-1,
                record_count=0,
            )
        )
    )
    write_crc(batch, 0)
    return bytes(batch)


def last_segments(directory: Directory) -> list[tuple[str, Inode]]:
    """Return the path and the last segment of each log of groups."""
    found = []
    for name, partition in sorted(directory.live.items(), key=lambda entry: entry[0]):
        parsed = filenames.parse(name)
        if parsed is None or parsed.kind is not Kind.PARTITION or parsed.topic != OFFSETS:
            continue
        assert isinstance(partition, Directory)
        segments = [file for file in sorted(partition.live) if file.endswith(".log")]
        node = partition.live[segments[-1]] if segments else None
        if isinstance(node, Inode):
            found.append((f"{name}/{segments[-1]}", node))
    return found


def end_of(inode: Inode) -> tuple[int, int] | None:
    """Return where the last batch begins and the next offset; None if the log has no clean end."""
    batches = list(batches_below(inode.live, END))
    if not batches or batches[-1].end != len(inode.live):
        return None
    return batches[-1].begin, batches[-1].next_offset
