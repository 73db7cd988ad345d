"""A partition by the name of its topic: the word that all commands and both clients share."""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    """A partition of a topic; as text `orders-3`, as Kafka names its directory."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
