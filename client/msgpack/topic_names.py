"""The names of the topics that a group's member holds: the group speaks of ids, a user of names."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from client.msgpack.membership import Partition
from client.msgpack.transport import Transport
from client.places import Place


class TopicNames:
    """Names by topic id, asked for when needed (Metadata)."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._names: dict[bytes, str] = {}

    @property
    def known(self) -> Collection[bytes]:
        """The ids that have a name."""
        return self._names.keys()

    async def learn(self, needed: Collection[bytes]) -> None:
        """Ask for the names of ids that are new, and forget those that are not needed."""
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
        """Return a partition by its topic's name, which must be known."""
        return Place(self._names[partition.topic_id], partition.number)

    def places(self, partitions: Iterable[Partition]) -> list[Place]:
        """Return partitions by their topics' names, ordered."""
        return sorted(self.place(one) for one in partitions)

    def partitions(self, place: Place) -> list[Partition]:
        """Return what a place may stand for: a topic made anew has its name under two ids."""
        return [
            Partition(topic_id, place.partition)
            for topic_id, name in self._names.items()
            if name == place.topic
        ]
