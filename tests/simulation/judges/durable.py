"""Durable: what a reader may be told of is on the disk (I6), whether the power is cut or not.

A power cut shows only now and then that something was told too early. This judge compares instead:
the bytes of all batches below a high watermark, and the names of their files, must be on the disk
at the moment at which the high watermark is there. So must those below an end that an answer tells:
a high watermark, the offset of a time, the end of an acknowledged batch. Logs that have, or had,
write.caching promise less, and are left out: of these, too, the high watermark never falls.

So it is with the start of each log: after a power cut it would begin no earlier than readers see.
Then it would begin where the file of starts says, or where its first segment does. And no log, with
write.caching or without, begins behind what is on the disk of it: its end could fall below that.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from tests.simulation import disk_logs

if TYPE_CHECKING:
    from broker.server import Broker
    from storage.log import Log
    from tests.support.memory_inodes import Directory

FOUND_MAX: Final = 5


class DurableWatch:
    """Looks at the logs of one broker, each time at what is new. `found` holds the objections.

    `volatile()`: the topics that have had write.caching.
    """

    def __init__(
        self, broker: Broker, data: Directory, volatile: Callable[[], Collection[str]]
    ) -> None:
        self.found: list[str] = []
        self._broker = broker
        self._data = data
        self._volatile = volatile
        self._seen: dict[tuple[str, Log], int] = {}  # the high watermark that was looked at
        self._starts: dict[tuple[str, Log], int] = {}  # the start that was looked at
        self.look()

    def look(self) -> None:
        """Compare the logs with the disk."""
        volatile = self._volatile()
        for partition in self._broker._assembly.services.partitions.all():
            log = partition.log
            place = log.directory, log
            if log.start_offset != self._starts.get(place, 0):
                self._starts[place] = log.start_offset
                self._compare_start(log)
            before, now = self._seen.get(place, -1), log.high_watermark
            if now == before or len(self.found) >= FOUND_MAX:
                continue
            self._seen[place] = now
            if now < before and log.failed is None:
                name = posixpath.basename(log.directory)
                self.found.append(f"the high watermark of {name} went from {before} to {now}")
            elif not log.write_caching and log.topic not in volatile:
                self._compare(log, now, before)

    def _compare_start(self, log: Log) -> None:
        start, name = log.start_offset, posixpath.basename(log.directory)
        if len(self.found) >= FOUND_MAX or name not in self._data.live:
            return
        if start > log.durable_offset and log.failed is None:
            self.found.append(
                f"{name} begins at {start}, and is durable up to {log.durable_offset}"
            )
        durable = disk_logs.durable_start(self._data, name)
        if durable is not None and start > durable:
            self.found.append(f"{name} is seen to begin at {start}, and on the disk at {durable}")

    def _compare(self, log: Log, end_offset: int, begin_offset: int) -> None:
        name = posixpath.basename(log.directory)
        directory = self._data.live.get(name)
        if directory is None or not end_offset:
            return  # its topic is being deleted
        what = _missing(self._data, name, end_offset, begin_offset)
        if what:
            self.found.append(
                f"records of {name} below {end_offset} may be seen, and {what} is not on the disk"
            )


def told(data: Directory, name: str, end_offset: int) -> list[str]:
    """Judge an answer that tells of records of a log below an offset."""
    what = _missing(data, name, end_offset) if end_offset > 0 and name in data.live else ""
    return [f"{name} is told to end at {end_offset}, and {what} is not on the disk"] if what else []


def _missing(data: Directory, name: str, end_offset: int, begin_offset: int = 0) -> str:
    directory = data.live[name]
    what = disk_logs.missing(directory, end_offset, begin_offset)  # type: ignore[arg-type]
    return what or disk_logs.missing_name(data, name)
