"""Making several logs durable at once: `python -m benchmarks.bench_commit_round [LOGS] [ROUNDS]`.

What the end of a transaction waits for: its partitions, its offsets and its state, 4 logs unless
told. A round appends one small batch to each log; the figure is the time until all of them are on
the disk, in milliseconds. Four ways take turns, so that they see the same disk:

    bare, in turn             fdatasync of plain files, one after the other
    bare, side by side        the same in a thread each
    rounds of group commit    GroupCommit.durable for each log: one after the other, in one call
    durable_together          GroupCommit.durable_together
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

from benchmarks import frames, interpreter
from broker.partitions.group_commit import GroupCommit
from broker.partitions.partition import Partition
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.broker_rig import Rig

LOGS, ROUNDS = 4, 1000
NEVER_MS = 60_000
BATCH_BYTES = 100

Way = Callable[[], Awaitable[None]]


class BareFiles:
    """As many plain files as logs, written to like them."""

    def __init__(self, directory: Path, count: int) -> None:
        flags = os.O_CREAT | os.O_RDWR
        self._files = [os.open(directory / f"bare-{number}", flags) for number in range(count)]
        self._position = 0
        self._threads = ThreadPoolExecutor(count)

    def write(self) -> None:
        """Append to each file."""
        for file in self._files:
            os.pwrite(file, bytes(BATCH_BYTES), self._position)
        self._position += BATCH_BYTES

    async def in_turn(self) -> None:
        """Sync one file after the other."""
        for file in self._files:
            os.fdatasync(file)

    async def side_by_side(self) -> None:
        """Sync all files at the same time."""
        wait([self._threads.submit(os.fdatasync, file) for file in self._files])

    def close(self) -> None:
        """Close the files."""
        self._threads.shutdown()
        for file in self._files:
            os.close(file)


async def rounds(commit: GroupCommit, partitions: list[Partition]) -> None:
    """Wait for each log by itself."""
    waits = (commit.durable(one, one.log.end_offset, NEVER_MS) for one in partitions)
    assert set(await asyncio.gather(*waits)) == {ErrorCode.NONE}


async def together(commit: GroupCommit, partitions: list[Partition]) -> None:
    """Wait for all logs at once."""
    answer: asyncio.Future[list[ErrorCode]] = asyncio.get_running_loop().create_future()
    places = [(one, one.log.end_offset) for one in partitions]
    commit.durable_together(places, answer.set_result)
    assert set(await answer) == {ErrorCode.NONE}


async def measure(directory: Path, log_count: int, round_count: int) -> None:
    """Print a table."""
    rig = Rig(directory / "data", is_timed=True)
    await rig.loading
    asked = CreatableTopic(name="t", num_partitions=log_count, replication_factor=1)
    await rig.call(CreateTopicsRequest(topics=[asked]), 7)
    services = rig.services
    partitions = [services.partitions.get("t", number) for number in range(log_count)]
    files = BareFiles(directory, log_count)
    now_ms = services.clock.now_ms()

    def append() -> None:
        for one in partitions:
            batch = bytearray(frames.record_batch([bytes(BATCH_BYTES)], now_ms))
            one.log.append(memoryview(batch), now_ms)

    ways: dict[str, tuple[Callable[[], None], Way]] = {
        "bare, in turn": (files.write, files.in_turn),
        "bare, side by side": (files.write, files.side_by_side),
        "rounds of group commit": (append, lambda: rounds(services.commit, partitions)),
        "durable_together": (append, lambda: together(services.commit, partitions)),
    }
    taken_ms: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(round_count):
        for name, (write, way) in ways.items():
            write()
            begun = time.perf_counter()
            await way()
            taken_ms[name].append((time.perf_counter() - begun) * 1000)
    sys.stdout.write(f"| {log_count} logs, ms | p50 | p90 | p99 |\n|---|---:|---:|---:|\n")
    for name, taken in taken_ms.items():
        taken.sort()
        figures = " | ".join(f"{taken[int(len(taken) * part)]:.2f}" for part in (0.5, 0.9, 0.99))
        sys.stdout.write(f"| {name} | {figures} |\n")
    files.close()
    await rig.close()


def main(arguments: list[str]) -> int:
    """Measure in a directory of its own, on the disk of the temporary directory."""
    log_count, round_count = [int(text) for text in arguments] + [LOGS, ROUNDS][len(arguments) :]
    interpreter.announce()
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(measure(Path(directory), log_count, round_count))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
