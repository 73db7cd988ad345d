"""The names of the topics that a group member holds: the protocol uses ids, callers use names."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from client.msgpack.membership import Partition
from client.msgpack.transport import Transport
from client.places import Place


class TopicNames:
    """Names by topic id, requested when needed (Metadata)."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._names: dict[bytes, str] = {}

    @property
    def known(self) -> Collection[bytes]:
        """The ids whose names are known."""
        return self._names.keys()

    async def learn(self, needed: Collection[bytes]) -> None:
        """Request the names of new ids, and forget ids that are not needed."""
        self._names = {one: name for one, name in self._names.items() if one in needed}
        unknown = [{"topic_id": one, "name": None} for one in needed if one not in self._names]
        if unknown:
            answer = await self._transport.call(
                "metadata", {"topics": unknown, "allow_auto_topic_creation": False}
            )
            for topic in answer["topics"]:
                if not topic["error_code"]:
                    self._names[topic["topic_id"]] = topic["name"]

    def place(self, partition: Partition) -> Place:
        """Return a partition by topic name, which must be known."""
        return Place(self._names[partition.topic_id], partition.number)

    def places(self, partitions: Iterable[Partition]) -> list[Place]:
        """Return partitions by topic name, ordered."""
        return sorted(self.place(one) for one in partitions)

    def partitions(self, place: Place) -> list[Partition]:
        """Return the partitions of that name: a recreated topic has two ids for a while."""
        return [
            Partition(topic_id, place.partition)
            for topic_id, name in self._names.items()
            if name == place.topic
        ]
