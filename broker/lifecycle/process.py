"""Settings of the whole process: limits, memory, the garbage collector, and an immediate exit.

No other module of the broker changes the process it runs in.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import resource
from typing import NoReturn

from broker.maintenance.full_collections import NEVER

M_MMAP_THRESHOLD = -3  # mallopt's name for it, in malloc.h
LARGE_BLOCK_BYTES = 2 * 1024 * 1024  # above the usual batches, whose blocks should be used again
# uvloop's receive buffer of a TLS connection, of which few pages are used. In the heap these would
# be other pages for each connection that comes and goes, and all of them would stay.
TLS_BLOCK_BYTES = 256 * 1024


def raise_descriptor_limit() -> None:
    """Allow this process as many files as the system lets it have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def return_large_blocks(block_bytes: int = LARGE_BLOCK_BYTES) -> None:
    """Make the C library return blocks of so many bytes to the system when they are freed.

    Each time glibc frees a mapped block it raises the size from which it maps, up to 32 MiB;
    smaller blocks stay with the process. Setting the size fixes it.
    """
    try:
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, block_bytes)
    except (OSError, AttributeError):  # another C library
        return


def keep_from_collector() -> None:
    """Exempt every object made so far from garbage collection: they live to the end.

    No full collection comes by itself from here on: `broker.maintenance.full_collections` makes
    them. A last threshold of 0 says that this Python makes none, but collects in small parts.
    """
    gc.freeze()
    young, middle, old = gc.get_threshold()
    if old:
        gc.set_threshold(young, middle, NEVER)
    gc.enable()


def leave(exit_code: int) -> NoReturn:
    """Exit immediately: threads that wait for the disk would block an orderly exit."""
    logging.shutdown()
    os._exit(exit_code)
