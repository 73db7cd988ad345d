"""A metadata log whose fsync waits until the test releases it, and may fail."""

from __future__ import annotations

import threading
from collections.abc import Callable

from storage.files.filenames import METADATA_DIRECTORY
from storage.flush import Flush

DEADLINE_S = 60


class SlowMetadata:
    """A replacement for `Flush.run`, installed by `hold`; `release` lets all fsyncs end."""

    def __init__(self) -> None:
        self._run = Flush.run
        self._may_end = threading.Event()
        self.error: OSError | None = None
        self.held_count = 0

    def release(self, error: OSError | None = None) -> None:
        """Let held and later fsyncs end, with `error` if given."""
        self.error = error
        self._may_end.set()

    def run(self, flush: Flush) -> None:
        """Do what `Flush.run` does, but late if it is the metadata log's."""
        if any(METADATA_DIRECTORY in file.path for file in flush._files):
            self.held_count += 1
            assert self._may_end.wait(DEADLINE_S), "the test did not release the metadata log"
            if self.error is not None:
                raise self.error
        self._run(flush)


def hold(setattr_: Callable[[object, str, object], None]) -> SlowMetadata:
    """Hold the fsyncs of the metadata log; `setattr_` is the method of a MonkeyPatch."""
    slow = SlowMetadata()
    setattr_(Flush, "run", lambda flush: slow.run(flush))
    return slow
