"""Waits until the transactions of a topic have ended.

Kafka answers EndTxn once the decision is in its own log, and writes the markers afterwards: right
after a commit, a test may find an open transaction.
"""

from __future__ import annotations

import time

TIMEOUT_S = 30.0


def wait_until_decided(address, topic):
    """Return when the last stable offset of each partition is its end; else TimeoutError."""
    from confluent_kafka import IsolationLevel, TopicPartition, admin

    client = admin.AdminClient({"bootstrap.servers": address})
    asked = {
        TopicPartition(topic, index): admin.OffsetSpec.latest()
        for index in client.list_topics(topic).topics[topic].partitions
    }

    def ends(level):
        answers = client.list_offsets(asked, isolation_level=level)
        return {at.partition: answer.result().offset for at, answer in answers.items()}

    deadline = time.monotonic() + TIMEOUT_S
    while True:
        stable, last = ends(IsolationLevel.READ_COMMITTED), ends(IsolationLevel.READ_UNCOMMITTED)
        if stable == last:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"{topic} has open transactions: stable {stable}, end {last}")
        time.sleep(0.05)
