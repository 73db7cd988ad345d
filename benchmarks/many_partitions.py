"""A consumer of many partitions of which a few get records one by one: CPU of the broker a record.

`python -m benchmarks.many_partitions [--kafka]`. The consumer fetches 1,000 partitions, in a
session and in full; a producer appends one record at a time to ten of them, and waits until the
consumer has it. The CPU is of the whole broker and includes the produce request. Rounds alternate;
the table shows medians, with the smallest and largest.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from benchmarks import frames, interpreter, load
from benchmarks.servers import Server, barnabas, kafka
from client.kafka.connection import Connection
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

TOPIC = "many"
BY_NAME = 12
PARTITIONS, ACTIVE = 1_000, 10
TIMEOUT_S = 30


class Consumer:
    """Fetches all partitions, and counts records."""

    def __init__(self, server: Server, *, in_session: bool) -> None:
        self._connection = Connection(f"127.0.0.1:{server.port}", TIMEOUT_S)
        self._connection.open()
        self._in_session = in_session
        self._session_id, self._epoch = 0, 0 if in_session else -1
        self._offsets = dict.fromkeys(range(PARTITIONS), 0)
        self._moved = dict(self._offsets)
        self.got = threading.Semaphore(0)

    def fetch(self, wait_ms: int) -> None:
        """Fetch once."""
        named = self._moved if self._in_session and self._epoch else self._offsets
        partitions = [
            FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=1 << 20)
            for number, offset in named.items()
        ]
        asked = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=50 << 20,
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=[FetchTopic(topic=TOPIC, partitions=partitions)] if partitions else [],
        )
        answer = self._connection.call(asked, FetchResponse, version_max=BY_NAME)
        assert not answer.error_code, answer
        self._moved = {}
        for topic in answer.responses:
            for one in topic.partitions:
                assert not one.error_code, one
                if one.records:
                    self._offsets[one.partition_index] = one.high_watermark
                    self._moved[one.partition_index] = one.high_watermark
                    self.got.release()
        if self._in_session:
            assert answer.session_id, "no session"
            self._session_id, self._epoch = answer.session_id, self._epoch + 1

    def run(self, count: int) -> None:
        """Fetch so often."""
        for _ in range(count):
            self.fetch(TIMEOUT_S * 1_000)


def measure(server: Server, count: int, *, in_session: bool) -> float:
    """Return the broker's CPU in microseconds a record."""
    server.create_topic(TOPIC, PARTITIONS)
    consumer = Consumer(server, in_session=in_session)
    for _ in range(3):
        consumer.fetch(0)
    batch = frames.record_batch([bytes(100)], time.time_ns() // 1_000_000)
    requests = [frames.produce(TOPIC, number * 97, batch, 1) for number in range(ACTIVE)]
    fetching = threading.Thread(target=consumer.run, args=(count,))
    fetching.start()
    time.sleep(0.2)
    before = server.cpu_seconds()
    with load.connect(server.port) as sock:
        for number in range(count):
            load.exchange(sock, requests[number % ACTIVE])
            assert consumer.got.acquire(timeout=TIMEOUT_S), "no record came"
    fetching.join()
    taken = server.cpu_seconds() - before
    server.delete_topic(TOPIC)
    return taken / count * 1e6


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_partitions")
    parser.add_argument("--kafka", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=500)
    options = parser.parse_args()
    interpreter.announce()
    with tempfile.TemporaryDirectory() as directory:
        servers = [barnabas(Path(directory) / "ours", write_caching=True)]
        if options.kafka:
            servers.append(kafka(Path(directory) / "kafka"))
        figures: dict[tuple[str, bool], list[float]] = {}
        try:
            for server in servers:
                server.start()
            for _ in range(options.rounds):
                for server in servers:
                    for in_session in (True, False):
                        found = measure(server, options.count, in_session=in_session)
                        figures.setdefault((server.name, in_session), []).append(found)
        finally:
            for server in servers:
                server.stop()
    print("| broker | fetches | CPU us a record |\n|---|---|---:|")
    for (name, in_session), some in figures.items():
        kind = "in a session" if in_session else "in full"
        print(
            f"| {name} | {kind} | {statistics.median(some):.0f} ({min(some):.0f}-{max(some):.0f}) |"
        )


if __name__ == "__main__":
    sys.exit(main())
