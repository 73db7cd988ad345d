"""The broker's CPU time for one transaction: `python -m benchmarks.bench_transactions`.

A broker without sockets on its own directory, and producers that run one transaction of TV2 after
the other: Produce 12 with a record for each of their partitions, then EndTxn 5. The figures are
microseconds a transaction: CPU of the loop's thread, which includes reading the requests and
writing the answers, and of the other threads, which sync files; and syncs a transaction. Each
round runs all shapes; the figure is the best round's. With `--profile` the loop's calls are listed.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import uvloop

from benchmarks import frames, interpreter
from benchmarks import transaction_frames as raw
from benchmarks.frames import LoadError
from benchmarks.transaction_frames import TransactionFrames
from broker.handlers import HANDLERS
from broker.runtime.request import Request
from protocol.kafka.dialect import KafkaDialect
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from tests.support.broker_rig import Rig

SHAPES = {  # producers, partitions of each, partitions that they share or 0
    "1 producer, 1 partition": (1, 1, 0),
    "1 producer, 3 partitions": (1, 3, 0),
    "40 producers, a partition each": (40, 1, 0),
    "40 producers, 4 partitions shared": (40, 1, 4),
}
TRANSACTIONS, ROUNDS = 400, 5
US = 1e6


class Producer:
    """Runs transactions: sends a request, and the next when it is answered."""

    def __init__(self, load: Load, asked: TransactionFrames) -> None:
        self.info = load
        self._load = load
        self._frames = asked
        self._is_producing = False

    def begin(self) -> None:
        """Send the Produce of the next transaction."""
        self._is_producing = True
        self._send(self._frames.begin()[0])

    def _send(self, frame: bytearray) -> None:
        decoded = self._load.dialect.decode_request(memoryview(bytearray(frame))[4:])
        self._load.rig.dispatcher.dispatch(
            Request(self, decoded.header, decoded.body, len(frame))  # type: ignore[arg-type]
        )

    def respond(self, _: Request, buffers: Sequence[Any]) -> None:
        """Take an answer, and send the next request in the next turn of the loop."""
        answer = b"".join(buffers)
        if self._is_producing:
            if code := max(self._frames.produced_errors(answer)):
                raise LoadError(f"a Produce failed with {code}")
            self._is_producing = False
            self._load.loop.call_soon(self._send, self._frames.end())
            return
        code, producer_id, epoch = raw.ended(answer)
        if code:
            raise LoadError(f"EndTxn failed with {code}")
        self._frames.use(producer_id, epoch)
        self._load.ended(self)


class Load:
    """The producers of one shape."""

    def __init__(self, rig: Rig, dialect: KafkaDialect) -> None:
        self.rig = rig
        self.dialect = dialect
        self.loop = asyncio.get_running_loop()
        self._left = 0
        self._running = 0
        self._done = self.loop.create_future()
        self.producers: list[Producer] = []

    async def prepare(self, name: str, producers: int, partitions: int, shared: int) -> None:
        """Create the topic and the producers."""
        count = shared or producers * partitions
        asked = CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        await self.rig.call(CreateTopicsRequest(topics=[asked]), 7)
        batch = frames.record_batch([bytes(100)], self.rig.services.clock.now_ms())
        for number in range(producers):
            transactional_id = f"{name}-{number}"
            await self.rig.call(FindCoordinatorRequest(key=transactional_id, key_type=1), 2)
            first = number * partitions
            made = TransactionFrames(
                transactional_id,
                name,
                [(first + each) % count for each in range(partitions)],
                batch,
            )
            init = InitProducerIdRequest(
                transactional_id=transactional_id, transaction_timeout_ms=60_000
            )
            answer = await self.rig.call(init, 4)
            made.use(answer.producer_id, answer.producer_epoch)
            self.producers.append(Producer(self, made))

    async def run(self, count: int) -> None:
        """Run so many transactions."""
        self._left, self._running = count, len(self.producers)
        self._done = self.loop.create_future()
        for one in self.producers:
            one.begin()
        await self._done

    def ended(self, producer: Producer) -> None:
        """Begin the producer's next transaction, if there is to be one."""
        self._left -= 1
        if self._left > 0:
            self.loop.call_soon(producer.begin)
            return
        self._running -= 1
        if not self._running:
            self._done.set_result(None)


async def measure(directory: Path, options: argparse.Namespace) -> None:
    """Print a table."""
    rig = Rig(directory, is_timed=True)
    await rig.loading
    dialect = KafkaDialect({int(row.api_key): row for row in HANDLERS})
    shapes: dict[str, Load] = {}
    for number, (name, shape) in enumerate(SHAPES.items()):
        if not options.only or options.only in name:
            shapes[name] = Load(rig, dialect)
            await shapes[name].prepare(f"bench-{number}", *shape)
            await shapes[name].run(options.transactions)
    metrics = rig.services.metrics
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in shapes}
    profile = cProfile.Profile()
    for _ in range(options.rounds):
        for name, load in shapes.items():
            if options.profile:
                profile.enable()
            flushes, begun = metrics.flushes, time.perf_counter()
            loop_cpu, cpu = time.thread_time(), time.process_time()
            await load.run(options.transactions)
            loop_cpu, cpu = time.thread_time() - loop_cpu, time.process_time() - cpu
            profile.disable()
            taken = loop_cpu * US, (cpu - loop_cpu) * US, metrics.flushes - flushes
            seconds = time.perf_counter() - begun
            found[name].append((*(each / options.transactions for each in taken), seconds))
    sys.stdout.write("| shape | loop µs | other threads µs | syncs | transactions/s |\n")
    sys.stdout.write("|---|---:|---:|---:|---:|\n")
    for name, rounds in found.items():
        loop_us, other_us, syncs, seconds = map(min, zip(*rounds, strict=True))
        rate = options.transactions / seconds
        sys.stdout.write(
            f"| {name} | {loop_us:.0f} | {other_us:.0f} | {syncs:.1f} | {rate:.0f} |\n"
        )
    if options.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(70)
    await rig.close()


def main() -> int:
    """Measure in a directory of its own."""
    interpreter.announce()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", help="shapes with this in their names")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--transactions", type=int, default=TRANSACTIONS, help="of a round")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        uvloop.run(measure(Path(directory), options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
