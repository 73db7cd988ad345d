"""Blocks of memory for large copies of files, used again.

The C library returns large blocks to the system when they are freed (`broker.lifecycle.process`),
and each new one costs a page fault a 4 KiB and is filled with zeros before the file's bytes come:
0.67 s a gigabyte, where a block that is used again takes 0.11. So over TLS, where every answer is
copied, a fetch of 1 MB would cost half as much again.

A block is free when nobody has a view of it. A bytearray says so itself: while a view exists, also
one of a part, it refuses to change its size. So nothing must be given back, and a client that reads
its answer slowly keeps its block. If all are in use, a copy gets memory of its own.
"""

from __future__ import annotations

from collections import deque
from typing import Final

BLOCK_BYTES: Final = 1 << 20  # what clients ask of a partition by default
SHARED_BYTES_MIN: Final = 128 * 1024  # smaller memory is used again by the C library
BLOCKS_MAX: Final = 4


class CopyBlocks:
    """At most BLOCKS_MAX blocks, made when they are first needed. On the loop only."""

    def __init__(self) -> None:
        self._blocks: deque[bytearray] = deque()  # the longest in use first

    def take(self, size: int) -> bytearray | memoryview:
        """Return writable memory of `size` bytes, at least SHARED_BYTES_MIN, with any content."""
        if size > BLOCK_BYTES:
            return bytearray(size)
        for _ in range(len(self._blocks)):
            block = self._blocks.popleft()
            view = memoryview(block)[:size] if _is_free(block) else None
            self._blocks.append(block)
            if view is not None:
                return view
        if len(self._blocks) == BLOCKS_MAX:
            return bytearray(size)
        block = bytearray(BLOCK_BYTES)
        self._blocks.append(block)
        return memoryview(block)[:size]


def _is_free(block: bytearray) -> bool:
    """Whether nobody has a view of a block."""
    try:
        block.append(0)
    except BufferError:
        return False
    del block[-1:]
    return True
