"""The cost of each step of one small request in the broker: `python -m benchmarks.bench_steps`.

A broker without sockets on its own directory; each step is called in isolation over and over. The
figure is the CPU time of the best of many rounds, in microseconds a call. Shapes: a
Produce of one record of 100 B, acks 1, page cache; a Fetch of one 16 KiB batch from the page cache,
one batch after the other, as a consumer reads.
"""

from __future__ import annotations

import asyncio
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import frames, interpreter
from broker.handlers import HANDLERS, fetch, produce
from broker.runtime.request import Request
from protocol.kafka.dialect import KafkaDialect
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.record_batch import verify_produced
from storage.log import Log
from tests.support.broker_rig import Rig

CALLS, ROUNDS = 2000, 40
BATCHES = 1500
BATCH_SIZE = 16384


class NoConnection:
    """Stands for the connection of a request that is never answered."""

    info = None


def best_us(call: Callable[[], object]) -> float:
    """Return the CPU time of one call in the best round."""
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.thread_time()
        for _ in range(CALLS):
            call()
        best = min(best, (time.thread_time() - begun) / CALLS)
    return best * 1e6


async def topic(rig: Rig, name: str) -> Log:
    """Create a topic of one partition and return its log."""
    asked = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    await rig.call(CreateTopicsRequest(topics=[asked]), 7)
    log: Log = rig.services.partitions.get(name, 0).log
    return log


def request(dialect: KafkaDialect, frame: bytes | bytearray) -> Request:
    """Read a request, as a processor does."""
    decoded = dialect.decode_request(memoryview(bytearray(frame))[4:])
    return Request(NoConnection(), decoded.header, decoded.body, len(frame))  # type: ignore[arg-type]


async def produce_steps(rig: Rig, dialect: KafkaDialect) -> dict[str, Callable[[], Any]]:
    """The steps of a Produce; each starts with a batch that has not been stamped."""
    log = await topic(rig, "small")
    partition = rig.services.partitions.get("small", 0)
    now_ms = rig.services.clock.now_ms()
    frame = frames.produce("small", 0, frames.record_batch([bytes(100)], now_ms), 1)
    asked = request(dialect, frame)
    batch = asked.body.topic_data[0].partition_data[0].records
    whole = memoryview(bytearray(frame))[4:]
    answer = produce.handle(asked, rig.services)
    file = log.segments.active.log_file

    def fresh(call: Callable[[], object]) -> Callable[[], object]:
        def step() -> object:
            struct.pack_into(">q", batch, 0, 0)
            return call()

        return step

    return {
        "Produce: read the request": lambda: dialect.decode_request(whole),
        "Produce: handle it": fresh(lambda: produce.handle(asked, rig.services)),
        "- of it, append and tell who waits": fresh(
            lambda: rig.services.appends.append(partition, batch, now_ms)
        ),
        "- - of it, the log": fresh(lambda: log.append(batch, now_ms)),
        "- - - of it, check header and CRC": fresh(lambda: verify_produced(batch, 1 << 20)),
        "- - - of it, write to the file": lambda: file.append(batch),
        "Produce: write the answer": lambda: dialect.encode_response(asked.header, answer),
    }


async def fetch_steps(rig: Rig, dialect: KafkaDialect) -> dict[str, Callable[[], Any]]:
    """The steps of a Fetch, over a log that has been filled."""
    log = await topic(rig, "large")
    now_ms = rig.services.clock.now_ms()
    batch, records = frames.filled_batch(100, BATCH_SIZE, now_ms)
    for _ in range(BATCHES):
        produce.handle(request(dialect, frames.produce("large", 0, batch, 1)), rig.services)
    asked = [
        request(dialect, frames.fetch("large", 0, records * number, BATCH_SIZE, 500)[0])
        for number in range(BATCHES)
    ]
    whole = memoryview(frames.fetch("large", 0, 0, BATCH_SIZE, 500)[0])[4:]
    answer = fetch.handle(asked[0], rig.services)
    turn = [0]

    def following() -> int:
        turn[0] = (turn[0] + 1) % BATCHES
        return turn[0]

    piece = log.read(0, BATCH_SIZE)
    assert piece is not None
    return {
        "Fetch: read the request": lambda: dialect.decode_request(whole),
        "Fetch: handle it": lambda: fetch.handle(asked[following()], rig.services),
        "- of it, which bytes": lambda: log.read(records * following(), BATCH_SIZE),
        "- of it, the bytes": piece.load_hot,
        "Fetch: write the answer": lambda: dialect.encode_response(asked[0].header, answer),
    }


async def measure(directory: Path) -> None:
    """Print a table."""
    rig = Rig(directory, is_timed=True, write_caching="true")
    await rig.loading
    dialect = KafkaDialect({int(row.api_key): row for row in HANDLERS})
    steps = await produce_steps(rig, dialect) | await fetch_steps(rig, dialect)
    sys.stdout.write("| step | µs |\n|---|---:|\n")
    for name, call in steps.items():
        sys.stdout.write(f"| {name} | {best_us(call):.1f} |\n")
        sys.stdout.flush()
    del steps, call  # they hold views of mapped files
    await rig.close()


def main() -> int:
    """Measure in a directory of its own."""
    interpreter.announce()
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(measure(Path(directory)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
