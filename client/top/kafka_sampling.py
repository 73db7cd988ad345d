"""Samples of any Kafka by its APIs: end offsets, sizes, groups. They tell nothing of clients.

A cluster's topics are asked of one broker; those of its partitions that another one leads have no
offsets in its answer, so only a single node is shown whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from client.kafka import groups as group_admin
from client.kafka.admin import LATEST, cluster, offsets, sizes
from client.kafka.connection import Connection
from client.top.snapshot import GroupLine, Snapshot, TopicLine
from client.units import count_text, size_text

GROUPS_MAX: Final = 20  # whose lag is asked for in each sample


class KafkaSampling:
    """Asks over one open connection; after a failure, over another."""

    def __init__(self, connection: Connection, clock: Callable[[], float] = time.monotonic) -> None:
        self._connection = connection
        self._clock = clock
        self._is_usable = True  # or an answer to an earlier question may still come

    def sample(self) -> Snapshot:
        """Return the broker as it is now. Raises BrokerError, after which it may be asked again."""
        if not self._is_usable:
            self._connection.close()
            self._connection.open()
        self._is_usable = False
        found = self._sampled()
        self._is_usable = True
        return found

    def _sampled(self) -> Snapshot:
        found = cluster(self._connection)
        partitions = {
            topic.name or "": [one.partition_index for one in topic.partitions]
            for topic in found.topics
        }
        ends = offsets(self._connection, partitions, LATEST)
        used = sizes(self._connection)
        topics = [
            TopicLine(
                name,
                len(numbers),
                sum(ends.get((name, number), (0, 0))[0] for number in numbers),
                None if used is None else sum(used.get((name, number), 0) for number in numbers),
            )
            for name, numbers in partitions.items()
        ]
        groups = self._groups({place: end for place, (end, _) in ends.items()})
        facts = [
            ("brokers", str(len(found.brokers))),
            ("topics", count_text(len(topics))),
            ("partitions", count_text(sum(one.partitions for one in topics))),
            ("log", "?" if used is None else size_text(sum(used.values()))),
        ]
        title = f"Kafka at {self._connection.address}, by its APIs"
        return Snapshot(self._clock(), title, facts, [], topics, groups)

    def _groups(self, ends: dict[tuple[str, int], int]) -> list[GroupLine]:
        found = []
        for listed in group_admin.list_groups(self._connection)[:GROUPS_MAX]:
            lag = 0
            for place, offset in group_admin.committed(self._connection, listed.group_id).items():
                lag += max(0, ends.get((place[0], place[1]), offset) - offset)
            found.append(GroupLine(listed.group_id, lag, None, listed.group_state or ""))
        return found
