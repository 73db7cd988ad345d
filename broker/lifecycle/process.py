"""What a broker sets for its whole process: limits, memory, and how to leave it at once.

Nothing else in the broker changes the process that it runs in.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import resource
from typing import NoReturn

M_MMAP_THRESHOLD = -3  # mallopt's name for it, in malloc.h
LARGE_BLOCK_BYTES = 2 * 1024 * 1024  # above the usual batches, whose blocks should be used again


def raise_descriptor_limit() -> None:
    """Allow this process as many files as the system lets it have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def return_large_blocks() -> None:
    """Have the C library return the blocks of large frames to the system when they are freed.

    Each time glibc frees a mapped block it raises the size from which it maps, up to 32 MiB;
    smaller blocks stay with the process. Setting the size fixes it.
    """
    try:
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
    except (OSError, AttributeError):  # another C library, with habits of its own
        return


def keep_from_collector() -> None:
    """Keep the garbage collector away from every object made so far: they live to the end."""
    gc.freeze()
    gc.enable()


def leave(exit_code: int) -> NoReturn:
    """End the process as a crash would: threads that wait for the disk block any other way."""
    logging.shutdown()
    os._exit(exit_code)
