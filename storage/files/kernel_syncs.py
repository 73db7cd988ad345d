"""fdatasyncs that the kernel runs beside this process: Linux's asynchronous I/O, without threads.

A thread for an fdatasync has to be woken, and takes the interpreter's lock before it and after it.
Both cost more CPU than most fdatasyncs, and hold up the loop's thread. Here one system call
(`io_submit` with IOCB_CMD_FDSYNC, since Linux 4.18) begins many fdatasyncs, and the kernel's
workers run any number of them side by side. As each one ends, the kernel counts up a descriptor (an
eventfd), which an event loop can wait for.

    begin([(number, fd), …])   never waits for the disk
    fileno()                   readable when an fdatasync has ended
    take()                     (number, errno) of those that have ended; 0: the data are on the disk

An error is reported as fdatasync would: it belongs to the open file, which the kernel holds open
until the fdatasync has ended. Other kernels, processors and some sandboxes refuse all this, and a
process may have no descriptor left for it: then `kernel_syncs` returns None, or `begin` does not
begin all, and the caller needs threads.

Source: the manual pages io_setup(2), io_submit(2), io_getevents(2) and the header linux/aio_abi.h.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Protocol, cast

SYNCS_MAX: Final = 256  # under way at a time; fs.aio-max-nr is 65,536 for all processes
BEGUN_MAX: Final = 64  # by one system call
TAKEN_MAX: Final = 128  # by one call of `take`

_CALLS: Final = {  # the numbers of io_setup, io_destroy, io_getevents, io_submit
    "x86_64": (206, 207, 208, 209),
    "aarch64": (0, 1, 4, 2),
}
_IOCB_CMD_FDSYNC: Final = 3
_IOCB_FLAG_RESFD: Final = 1
# data, key, rw_flags, opcode, priority, fd, buffer, nbytes, offset, reserved, flags, resfd
_IOCB: Final = struct.Struct("<QIiHhiQQqQII")
_EVENT: Final = struct.Struct("<QQqq")  # data, the iocb's address, result, result2
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_NONE, _MAX = ctypes.c_long(0), ctypes.c_long(TAKEN_MAX)


class SideSyncs(Protocol):
    """fdatasyncs that run beside their caller, which is one thread."""

    is_refused: bool  # for good: `begin` will begin none

    def fileno(self) -> int:
        """Return the descriptor that is readable when an fdatasync has ended."""

    def begin(self, wanted: Sequence[tuple[int, int]]) -> int:
        """Begin fdatasyncs of (number, descriptor); return how many, the first ones, run."""

    def take(self) -> list[tuple[int, int]]:
        """Return the number and errno of fdatasyncs that have ended. Does not wait."""

    def close(self) -> None:
        """Give everything back. Waits for what is under way."""


class KernelSyncs:
    """The fdatasyncs that the kernel runs for one caller, on one thread."""

    __slots__ = ("_context", "_destroy", "_ended", "_events", "_getevents", "_iocb", "_iocbs",
                 "_submit", "is_refused", "under_way")  # fmt: skip

    def __init__(self, context: ctypes.c_ulong, calls: tuple[int, int, int, int]) -> None:
        """`context` is what io_setup gave; it ends with `close`. Raises OSError: no descriptor."""
        self._context = context
        _, self._destroy, self._getevents, self._submit = map(ctypes.c_long, calls)
        self._ended = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._iocb = ctypes.create_string_buffer(_IOCB.size * BEGUN_MAX)  # the kernel copies it
        first = ctypes.addressof(self._iocb)
        places = (first + _IOCB.size * each for each in range(BEGUN_MAX))
        self._iocbs = (ctypes.c_void_p * BEGUN_MAX)(*places)
        self._events = ctypes.create_string_buffer(_EVENT.size * TAKEN_MAX)
        self.under_way = 0
        self.is_refused = False  # this kernel, or a filter of system calls, does not do it

    def fileno(self) -> int:
        """Return the descriptor that is readable when an fdatasync has ended."""
        return self._ended

    def begin(self, wanted: Sequence[tuple[int, int]]) -> int:
        """Begin fdatasyncs of (number, descriptor); return how many, the first ones, run."""
        begun = 0
        while begun < len(wanted) and not self.is_refused:
            count = self._submit_some(wanted[begun : begun + BEGUN_MAX])
            if count == 0:
                break
            begun += count
        return begun

    def _submit_some(self, wanted: Sequence[tuple[int, int]]) -> int:
        count = min(len(wanted), SYNCS_MAX - self.under_way)
        if count <= 0:
            return 0
        rest = 0, 0, 0, 0, _IOCB_FLAG_RESFD, self._ended
        for at, (number, fd) in enumerate(wanted[:count]):
            _IOCB.pack_into(
                self._iocb, at * _IOCB.size, number, 0, 0, _IOCB_CMD_FDSYNC, 0, fd, *rest
            )
        arguments = (self._context, ctypes.c_long(count), self._iocbs)
        taken = cast("int", _LIBC.syscall(self._submit, *arguments))
        if taken <= 0:  # the first is refused; one behind it only ends the call before
            self.is_refused = ctypes.get_errno() not in (errno.EAGAIN, errno.EBADF)
            return 0
        self.under_way += taken
        return taken

    def take(self) -> list[tuple[int, int]]:
        """Return the number and errno of fdatasyncs that have ended. Does not wait."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._ended)
        count = self._get()
        if count <= 0:
            return []
        if count == TAKEN_MAX:  # perhaps there are more
            os.eventfd_write(self._ended, 1)
        self.under_way -= count
        ended = memoryview(self._events)[: count * _EVENT.size]
        return [(number, -result) for number, _, result, _ in _EVENT.iter_unpack(ended)]

    def _get(self) -> int:
        arguments = (self._context, _NONE, _MAX, self._events, None)
        return cast("int", _LIBC.syscall(self._getevents, *arguments))

    def can_take(self) -> bool:
        """Return whether the kernel tells what has ended; for use before the first `begin`."""
        return self._get() == 0

    def close(self) -> None:
        """Give everything back. Waits for what is under way."""
        _LIBC.syscall(self._destroy, self._context)
        os.close(self._ended)


def kernel_syncs() -> KernelSyncs | None:
    """Return the fdatasyncs of a kernel that seems to run them, or None."""
    calls = _CALLS.get(platform.machine())
    if sys.platform != "linux" or calls is None or struct.calcsize("P") != 8:
        return None
    context = ctypes.c_ulong(0)
    if _LIBC.syscall(ctypes.c_long(calls[0]), ctypes.c_long(SYNCS_MAX), ctypes.byref(context)):
        return None
    try:
        syncs = KernelSyncs(context, calls)
    except OSError:
        _LIBC.syscall(ctypes.c_long(calls[1]), context)
        return None
    if syncs.can_take():
        return syncs
    syncs.close()
    return None
