"""A log that holds no bytes: offsets only, and a flush that waits until the test releases it.

It serves the tests of code that waits for logs. Tests with real logs show that they behave like
this (tests/unit/storage/test_log.py, and every integration test).
"""

import threading
from dataclasses import dataclass, field

from storage.errors import LogFailed
from storage.files.room import NO_DESCRIPTOR
from storage.log import Appended


@dataclass
class FakeFlush:
    """A flush that finishes when `release` is set; raises `error` if there is one."""

    end_offset: int
    release: threading.Event = field(default_factory=threading.Event)
    error: OSError | None = None
    elapsed_ns: int = 0

    def run(self) -> None:
        assert self.release.wait(120), "the test never released its flush"
        if self.error is not None:
            raise self.error


class FakeLog:
    """A log of offsets: appends raise the end; a finished flush makes what it captured durable."""

    def __init__(self, *, write_caching: bool = False) -> None:
        self.topic = "t"
        self.directory = "/data/t-0"
        self.partition = 0
        self.write_caching = write_caching
        self.is_end_loaded = True
        self.start_offset = 0
        self.end_offset = self.opened_at = 0
        self.appended_bytes = self.read_bytes = 0
        self.durable_offset = 0
        self.high_watermark = 0
        self.leader_epoch = 0
        self.failed: LogFailed | None = None
        self.is_closed = False
        self.flushes: list[FakeFlush] = []
        self.open_flush: FakeFlush | None = None
        self.appended: list[bytes] = []

    def append(self, batch: memoryview, now_ms: int, transaction: int = 0) -> Appended:
        if self.failed is not None:
            raise self.failed
        self.appended.append(bytes(batch))
        self.end_offset += 1
        if self.write_caching:
            self.high_watermark = self.end_offset
        return Appended(self.end_offset - 1, self.end_offset - 1, -1, 0, False)

    def flush_due(self, now_ms: int | None = None) -> bool:
        return False

    def begin_flush(self) -> FakeFlush | None:
        nothing_to_do = self.failed is not None or self.durable_offset == self.end_offset
        if self.open_flush is not None or nothing_to_do:
            return None
        self.open_flush = FakeFlush(self.end_offset)
        self.flushes.append(self.open_flush)
        return self.open_flush

    def finish_flush(self, flush: FakeFlush, error: OSError | None) -> None:
        assert flush is self.open_flush
        self.open_flush = None
        if error is not None and error.errno in NO_DESCRIPTOR:
            return
        if error is not None:
            self.failed = LogFailed("t-0", f"fsync failed: {error}")
            return
        self.durable_offset = flush.end_offset
        if not self.write_caching:
            self.high_watermark = flush.end_offset
