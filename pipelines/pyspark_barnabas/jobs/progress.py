"""The progress of a run: one changing line on a terminal, an occasional line elsewhere.

`show` takes the current state and may be called as often as you like; `say` writes a line that
stays. `watching` shows from its own thread how many of Spark's tasks are done. Everything goes to
standard error.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TextIO

from pyspark_barnabas.clock import Clock

TERMINAL_EVERY_MS: Final = 200
PLAIN_EVERY_MS: Final = 10_000
_WIDTH_MAX: Final = 100
_CLEAR: Final = "\r\x1b[K"


class Progress:
    """The progress line of one stream."""

    def __init__(self, stream: TextIO, *, is_quiet: bool = False, clock: Clock | None = None):
        self._stream = stream
        self._is_quiet = is_quiet
        self._is_terminal = stream.isatty()
        self._every_ms = TERMINAL_EVERY_MS if self._is_terminal else PLAIN_EVERY_MS
        self._clock = clock or Clock()
        # A run that ends before a line is due writes none.
        self._due_ms = self._clock.elapsed_ms() + (0 if self._is_terminal else PLAIN_EVERY_MS)
        self._is_shown = False
        self._lock = threading.Lock()

    def show(self, text: str) -> None:
        """Show the current state, unless something was shown a moment ago."""
        with self._lock:
            now_ms = self._clock.elapsed_ms()
            if self._is_quiet or now_ms < self._due_ms:
                return
            self._due_ms = now_ms + self._every_ms
            if self._is_terminal:
                self._stream.write(f"{_CLEAR}{text[:_WIDTH_MAX]}")
                self._is_shown = True
            else:
                self._stream.write(f"{text}\n")
            self._stream.flush()

    def say(self, text: str) -> None:
        """Write a line that stays."""
        if not self._is_quiet:
            self.clear()
            self._stream.write(f"{text}\n")
            self._stream.flush()

    def clear(self) -> None:
        """Remove the changing line."""
        with self._lock:
            if self._is_shown:
                self._stream.write(_CLEAR)
                self._stream.flush()
                self._is_shown = False

    def trace(self, error: BaseException) -> None:
        """Write an error's full trace."""
        self.clear()
        traceback.print_exception(error, file=self._stream)

    @contextmanager
    def showing(self, text: Callable[[], str]) -> Iterator[None]:
        """Show what `text` returns, repeatedly, until the block ends."""
        ended = threading.Event()

        def repeat() -> None:
            while not ended.wait(TERMINAL_EVERY_MS / 1000):
                try:
                    said = text()
                except Exception:  # Spark is going away; the main thread reports it
                    return
                self.show(said)

        thread = threading.Thread(target=repeat, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(5)
            self.clear()

    @contextmanager
    def watching(self, spark: Any, what: str) -> Iterator[None]:
        """Show `what` and how many tasks of Spark's running stages are done."""
        tracker = spark.sparkContext.statusTracker()
        with self.showing(lambda: f"{what}: {tasks_text(tracker)}"):
            yield


def tasks_text(tracker: Any) -> str:
    """Return how many tasks of Spark's running stages are done."""
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    stages = [stage for stage in stages if stage is not None]
    done = sum(stage.numCompletedTasks for stage in stages)
    total = sum(stage.numTasks for stage in stages)
    running = sum(stage.numActiveTasks for stage in stages)
    failed = sum(stage.numFailedTasks for stage in stages)
    if not total:
        return "planning"
    text = f"{done} of {total} tasks done, {running} running"
    return f"{text}, {failed} failed and retried" if failed else text
