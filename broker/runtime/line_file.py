"""The file of `barnabas.log.file`: one write appends each line, and it can be opened again.

logrotate renames the file and sends SIGHUP. Until the file is opened again, lines go to the renamed
one, so none is lost. `copytruncate` works too, since each write goes to the end of the file. A line
that cannot be written, such as on a full disk, goes to standard error.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
import sys
from contextlib import suppress

MODE = 0o640  # lines name topics, clients and addresses


class LineFile(logging.Handler):
    """Appends log lines to a file."""

    def __init__(self, path: str, outside: str) -> None:
        """Open the file; `outside` is the data directory. Raises OSError, with a sentence."""
        super().__init__()
        self.path = os.path.abspath(path)
        self._outside = outside
        self._descriptor = self._opened()

    def _opened(self) -> int:
        if _is_inside(self.path, self._outside):
            raise OSError(
                errno.EINVAL,
                f"barnabas.log.file is {self.path}, inside the data directory {self._outside},"
                " which holds nothing but logs of topics; choose a file elsewhere",
            )
        # Without O_NONBLOCK, a pipe that nobody reads would hold the broker up for ever.
        how = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
        try:
            descriptor = os.open(self.path, how, MODE)
        except OSError as error:
            reason = f"barnabas.log.file {self.path} cannot be opened: {error.strerror}"
            raise OSError(error.errno, reason) from None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, f"barnabas.log.file {self.path} is no regular file")
        return descriptor

    def reopen(self) -> None:
        """Open the path again, for all later lines; on OSError the open file stays in use."""
        opened = self._opened()
        self.acquire()
        try:
            before, self._descriptor = self._descriptor, opened
        finally:
            self.release()
        os.close(before)

    def emit(self, record: logging.LogRecord) -> None:
        """Append one line. `handle` holds the lock."""
        line = self.format(record) + "\n"
        left = memoryview(line.encode(errors="backslashreplace"))
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError:
            with suppress(OSError, ValueError):
                sys.stderr.write(line)


def _is_inside(path: str, directory: str) -> bool:
    """Whether a path lies below a directory, links resolved."""
    folder, home = os.path.realpath(os.path.dirname(path)), os.path.realpath(directory)
    return os.path.commonpath([folder, home]) == home
