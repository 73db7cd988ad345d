"""A commit by a group that reads nothing: the first that a broker gets, maybe.

Apache Kafka makes `__consumer_offsets` when a coordinator is first asked for, and answers
NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS until its partition is loaded. librdkafka passes
that on to a caller whose consumer is in no group, so the caller tries again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

PATIENCE_S = 60.0
_NOT_YET = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
)


def commit(address: str, group: str, places: Sequence[TopicPartition]) -> None:
    """Commit offsets for a group without members."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": group})
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            consumer.commit(offsets=list(places), asynchronous=False)
            break
        except KafkaException as error:
            if error.args[0].code() not in _NOT_YET or time.monotonic() > deadline:
                raise
        time.sleep(0.2)
    consumer.close()
