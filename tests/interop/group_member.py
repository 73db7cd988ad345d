"""One member of a consumer group, as a process: it prints what it reads.

    python -m tests.interop.group_member CLIENT ADDRESS GROUP TOPIC

Each record is a line "PARTITION OFFSET", written before it is committed; after each batch the
member commits. SIGTERM makes it leave the group and end. All clients speak the range assignor, so
that they can be members of one group. CLIENT is confluent-kafka, kafka-python or aiokafka.
"""

import asyncio
import signal
import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any

SESSION_MS = 10_000
POLL_SECONDS = 0.2


class Leaving:
    """Set by SIGTERM."""

    def __init__(self) -> None:
        self.asked = False
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True


def tell(records: Iterable[tuple[int, int]]) -> None:
    """Print the records read."""
    lines = [f"{partition} {offset}\n" for partition, offset in records]
    sys.stdout.write("".join(lines))
    sys.stdout.flush()


def confluent(address: str, group: str, topic: str, leaving: Leaving) -> None:
    """Read with confluent-kafka, by the classic protocol."""
    import confluent_kafka

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 500,
            "partition.assignment.strategy": "range",
        }
    )
    consumer.subscribe([topic])
    while not leaving.asked:
        messages = [one for one in consumer.consume(500, POLL_SECONDS) if one.error() is None]
        if messages:
            tell((one.partition(), one.offset()) for one in messages)
            try:
                consumer.commit(asynchronous=False)
            except confluent_kafka.KafkaException:
                continue  # a rebalance: the same records will be printed again
    consumer.close()


def _settings(address: str, group: str) -> dict[str, Any]:
    """Return a consumer's settings, which have the same names in both Python clients."""
    return {
        "bootstrap_servers": address,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "session_timeout_ms": SESSION_MS,
        "heartbeat_interval_ms": 500,
    }


def python(address: str, group: str, topic: str, leaving: Leaving) -> None:
    """Read with kafka-python."""
    from kafka import KafkaConsumer
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.errors import KafkaError

    consumer = KafkaConsumer(
        topic, partition_assignment_strategy=(RangePartitionAssignor,), **_settings(address, group)
    )
    while not leaving.asked:
        batches = consumer.poll(timeout_ms=int(POLL_SECONDS * 1000))
        if batches:
            tell((one.partition, one.offset) for batch in batches.values() for one in batch)
            try:
                consumer.commit()
            except KafkaError:
                continue
    consumer.close(autocommit=False)


def aio(address: str, group: str, topic: str, leaving: Leaving) -> None:
    """Read with aiokafka."""
    asyncio.run(_aio(address, group, topic, leaving))


async def _aio(address: str, group: str, topic: str, leaving: Leaving) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.errors import KafkaError

    consumer = AIOKafkaConsumer(
        topic, partition_assignment_strategy=(RangePartitionAssignor,), **_settings(address, group)
    )
    await consumer.start()
    while not leaving.asked:
        batches = await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000))
        if batches:
            tell((one.partition, one.offset) for batch in batches.values() for one in batch)
            try:
                await consumer.commit()
            except KafkaError:
                continue
    await consumer.stop()


CLIENTS = {"confluent-kafka": confluent, "kafka-python": python, "aiokafka": aio}


def main(arguments: list[str]) -> None:
    """Read until SIGTERM."""
    client, address, group, topic = arguments
    CLIENTS[client](address, group, topic, Leaving())


if __name__ == "__main__":
    main(sys.argv[1:])
