"""Topics for code that only looks them up: `broker.topics.Topics` without logs and metadata."""

from __future__ import annotations

from broker.metadata.image import PartitionInfo, TopicInfo


class FakeTopics:
    """Topics by name; ids are their names, padded."""

    def __init__(self, **partition_counts: int) -> None:
        self._topics: dict[str, TopicInfo] = {}
        for name, count in partition_counts.items():
            self.set(name, count)

    def set(self, name: str, partition_count: int) -> None:
        """Create a topic or change its number of partitions; 0 deletes it."""
        if partition_count == 0:
            del self._topics[name]
            return
        self._topics[name] = TopicInfo(
            name,
            topic_id(name),
            [
                PartitionInfo(number, [1], [1], 1, 0, 0, [bytes(16)])
                for number in range(partition_count)
            ],
        )

    def by_name(self, name: str) -> TopicInfo | None:
        return self._topics.get(name)

    def by_id(self, wanted: bytes) -> TopicInfo | None:
        return next((of for of in self._topics.values() if of.topic_id == wanted), None)

    def all(self) -> list[TopicInfo]:
        return list(self._topics.values())


def topic_id(name: str) -> bytes:
    """Return the id of the topic with that name."""
    return name.encode().ljust(16, b".")
