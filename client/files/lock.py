"""Whether a broker runs on a data directory: asked of the kernel, without taking its lock.

Brokers hold a POSIX record lock on `.lock` (fcntl, as Java's FileLock). F_GETLK tells who holds
one and changes nothing, while trying to take the lock could keep a broker from starting. The
answer is known for Linux's layout of `struct flock` on 64 bits only; elsewhere nobody is seen, and
`verify` takes a running broker for a crashed one, and may tell of a batch that is being written.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys

_FLOCK = struct.Struct("hhqqi4x")  # type, whence, (padding,) start, length, pid


def holder_of(path: str) -> int:
    """Return the process id of who holds the lock on a file; 0 if nobody does or none is seen."""
    if not sys.platform.startswith("linux"):
        return 0
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return 0
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, asked))
    except OSError:
        return 0
    finally:
        os.close(fd)
    if kind == fcntl.F_UNLCK:
        return 0
    return int(pid) if pid > 0 else 1  # a holder in another container has no number here
