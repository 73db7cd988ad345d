"""Recovery from every disk state that a power cut may leave in the middle of a small workload.

Small workloads find most crash bugs: of the known crash bugs of file systems,
nearly all show with three operations or fewer behind an fsync (CrashMonkey, OSDI 2018). So: a log
with some synced batches, then every sequence of up to three operations, and at each
of their file calls the power is cut. `tests.support.crash_states` lists what the disk may then
hold: unsynced writes in part, without one in the middle, torn, or as zeros, and names present or
missing. The next start must find, in each of these states:

- every record that was durable, and none that was never appended, without a hole or a change;
- the start offset that clients have seen, or a later one;
- the same after an immediate kill: recovery is complete and idempotent.

Sequences of one and two run with all tests, those of three with the long ones.
BARNABAS_CRASH_STATES limits the states that are checked for each cut.
"""

import itertools
import logging
import os
import random
from collections.abc import Callable, Iterator

import pytest

from storage.errors import StorageError
from storage.log import Log
from tests.support import crash_states
from tests.support.log_house import (
    House,
    append,
    apply_retention,
    batch,
    checkpoint,
    delete_records,
    flush,
    read_all,
)
from tests.support.memory_broker import Killed
from tests.support.memory_filesystem import MemoryFileSystem
from tests.support.thorough import some_of

STATES_MAX = int(os.environ.get("BARNABAS_CRASH_STATES", "12"))  # for each cut
CONFIG = {
    "internal_segment_bytes": 330,
    "index_interval_bytes": 60,
    "file_delete_delay_ms": 0,
    "retention_bytes": 0,
}


class Run:
    """One log through a sequence of operations, and what it acknowledged."""

    def __init__(self, filesystem: MemoryFileSystem) -> None:
        self.house = House(filesystem)
        self.house.open()
        self.log: Log = self.house.log(**CONFIG)
        self.values: list[bytes] = []  # of each offset, as appended
        self.durable = 0
        for _ in range(3):
            self.append()
        self.flush()
        self.checkpoint()

    def append(self) -> None:
        self._append(1)

    def append_more(self) -> None:
        self._append(3)

    def _append(self, count: int) -> None:
        value = b"%03d" % len(self.values) * 9
        self.values += [value] * count
        append(self.log, value=value, count=1) if count == 1 else self.log.append(
            batch(value, count), self.house.now_ms
        )

    def append_idempotent(self) -> None:
        value = b"%03d" % len(self.values) * 9
        entry = self.log.producers.entries.get(7)
        sequence = 0 if entry is None else entry.batches[-1].last_sequence + 1
        self.values.append(value)
        self.log.append(batch(value, pid=7, epoch=0, sequence=sequence), self.house.now_ms)

    def flush(self) -> None:
        flush(self.log)
        self.durable = self.log.durable_offset

    def checkpoint(self) -> None:
        checkpoint(self.house, self.log)

    def delete(self) -> None:
        if self.log.high_watermark > self.log.start_offset:
            delete_records(self.house, self.log, self.log.start_offset + 1)

    def retain(self) -> None:
        self._retain(sync=False)

    def retain_without_checkpoint(self) -> None:
        """Apply retention as on a disk that has no room for the checkpoint."""
        self._retain(sync=True)

    def _retain(self, *, sync: bool) -> None:
        apply_retention(self.house, self.log, self.house.now_ms, sync=sync)
        self.house.purge(self.house.now_ms)


ALPHABET: dict[str, Callable[[Run], None]] = {
    "append": Run.append,
    "append three": Run.append_more,
    "append idempotent": Run.append_idempotent,
    "flush": Run.flush,
    "checkpoint": Run.checkpoint,
    "delete": Run.delete,
    "retain": Run.retain,
    "retain without checkpoint": Run.retain_without_checkpoint,
}


class _Cut:
    """Ends the process at the nth call."""

    def __init__(self, nth: int) -> None:
        self.nth = nth
        self.calls = 0

    def __call__(self, _operation: str, _path: str) -> tuple[BaseException, float] | None:
        self.calls += 1
        return (Killed(), 0.0) if self.calls >= self.nth else None


def cuts(row: tuple[str, ...]) -> Iterator[Run]:
    """Run the sequence once for each of its file calls, up to that call; and once whole."""
    for nth in itertools.count(1):
        run = Run(MemoryFileSystem())
        run.house.filesystem.before = cut = _Cut(nth)
        try:
            for name in row:
                ALPHABET[name](run)
        except Killed:
            pass
        run.house.filesystem.before = None
        yield run
        if cut.calls < nth:
            return


def check(run: Run, content: crash_states.Content) -> None:
    """Recover from a state of the disk, twice."""
    house = House(crash_states.disk_of(content))
    found: list[tuple[int, dict[int, bytes | None]]] = []
    for _ in range(2):
        log = house.restart(**CONFIG)
        assert log.failed is None
        assert log.high_watermark == log.durable_offset == log.end_offset
        found.append((log.start_offset, read_all(log)))
        house.kill()
    (start, values), again = found
    assert again == (start, values), "the second recovery finds something else"
    seen, moved_to = run.log.start_offset, run.log.next_start_offset
    assert seen <= start <= moved_to, f"starts at {start}, clients have seen {seen}"
    end = start + len(values)
    assert list(values) == list(range(start, end)), "a hole"
    assert end >= run.durable, f"ends at {end}, {run.durable} was durable"
    assert end <= len(run.values)
    for offset, value in values.items():
        assert value == run.values[offset], f"offset {offset} holds {value!r}"


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(
    ("length", "most"),
    [(1, 200), (2, STATES_MAX), pytest.param(3, STATES_MAX, marks=pytest.mark.slow)],
)
def test_recovery_succeeds_from_every_state(length: int, most: int) -> None:
    chance = random.Random(length)
    count, failures = 0, []
    rows = list(itertools.product(ALPHABET, repeat=length))
    for row in rows if length == 1 else some_of(rows):
        for run in cuts(row):
            for content in crash_states.states(run.house.filesystem, chance, most):
                count += 1
                try:
                    check(run, content)
                except Exception as error:
                    failures.append(f"{row}: {type(error).__name__}: {error}")
    assert not failures, f"{len(failures)} of {count}:\n" + "\n".join(failures[:20])
    assert count > 100
    print(f"{count} states")


def test_a_broken_log_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that reports unsynced records as durable."""
    monkeypatch.setattr("storage.flush.Flush.run", lambda _flush: None)
    caught = 0
    for run in cuts(("append", "flush", "append")):
        for content in crash_states.states(run.house.filesystem, random.Random(1), 50):
            try:
                check(run, content)
            except (AssertionError, StorageError):
                caught += 1
    assert caught > 5
