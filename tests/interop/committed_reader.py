"""A consumer with read_committed that looks on while brokers and producers are killed."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from confluent_kafka import Consumer, TopicPartition

PATIENCE_S = 240.0
Read = list[list[tuple[bytes | None, bytes | None]]]  # keys and values, partition by partition


def consumer_of(address: str, topic: str, partition_count: int) -> Consumer:
    """Return a consumer at the start of each partition of a topic."""
    made = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": f"readers-of-{topic}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
    )
    made.assign([TopicPartition(topic, partition, 0) for partition in range(partition_count)])
    return made


def read_all(address: str, topic: str, partition_count: int) -> Read:
    """Return what a consumer reads up to the end of each partition."""
    found: Read = [[] for _ in range(partition_count)]
    at_end: set[int] = set()
    deadline = time.monotonic() + PATIENCE_S
    consumer = consumer_of(address, topic, partition_count)
    while len(at_end) < partition_count:
        assert time.monotonic() < deadline, f"no end of {topic}: {[len(one) for one in found]}"
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error() is None:
            found[message.partition()].append((message.key(), message.value()))
        elif message.error().name() == "_PARTITION_EOF":
            at_end.add(message.partition())
    consumer.close()
    return found


class Onlooker(threading.Thread):
    """Reads a topic until it has as many records of each partition as it is told in the end."""

    def __init__(self, address: str, topic: str, partition_count: int) -> None:
        super().__init__(daemon=True)
        self.found: Read = [[] for _ in range(partition_count)]
        self._over = threading.Event()
        self._consumer = consumer_of(address, topic, partition_count)

    def run(self) -> None:
        """Read; errors are what a killed broker gives."""
        while not self._over.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.found[message.partition()].append((message.key(), message.value()))
        self._consumer.close()

    def all_of(self, counts: Sequence[int]) -> Read:
        """Wait until it has read so many, and return everything that it read."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and any(
            len(one) < count for one, count in zip(self.found, counts, strict=True)
        ):
            time.sleep(0.05)
        self.end()
        return self.found

    def end(self) -> None:
        """Stop it."""
        self._over.set()
        if self.is_alive():
            self.join(PATIENCE_S)
