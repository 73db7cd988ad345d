"""The life of a topic, from its first record to the freedom of its name, as one table.

Only `TopicLife.move` changes the state of a topic; it raises for a step that `LIFE` lacks.
docs/operations.md shows the table, and a test keeps the page equal to it.

A life belongs to one topic id. A topic created later under the same name has another life, which
begins only after this one has ended; until then the name is taken.

    state      clients by name                           logs
    Creating   metadata says "no leader yet"             none: its records are not durable yet
    Online     everything                                open, each, or offline alone
    Growing    everything, on the partitions it had      those of new partitions follow
    Deleting   unknown topic                             as they were: a power cut may undo it
    Dropping   unknown topic                             being closed and renamed
    Deleted    the name is free                          none
    Undecided  KAFKA_STORAGE_ERROR for what is undecided as they were

Late is not failed: a change whose client got REQUEST_TIMED_OUT continues, and completes once it is
durable. Only a failed metadata log leaves a topic Undecided, since the disk may or may not have its
last record; the next start reads the log and decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from broker.metadata.image import TopicInfo


class TopicState(StrEnum):
    """Where a topic is in its life."""

    CREATING = "Creating"
    ONLINE = "Online"
    GROWING = "Growing"
    DELETING = "Deleting"
    DROPPING = "Dropping"
    DELETED = "Deleted"
    UNDECIDED = "Undecided"


class TopicEvent(StrEnum):
    """The events that change a topic's state."""

    GROWN = "more partitions are recorded"
    OPENED = "all partitions are durable and were opened"
    REMOVED = "its removal is recorded"
    GONE = "its removal is durable"
    DROPPED = "its directories are renamed"
    FAILED = "the metadata log fails first"


class Step(NamedTuple):
    """The state an event leads to, and the function that triggers it."""

    target: TopicState
    owner: str


_GROWS: Final = "Controller.record"
_OPENS: Final = "TopicLogs.open"
_REMOVES: Final = "Controller.delete_topics"
_FAILS: Final = "Topics._undecided"

LIFE: Final[Mapping[tuple[TopicState, TopicEvent], Step]] = {
    (TopicState.CREATING, TopicEvent.GROWN): Step(TopicState.CREATING, _GROWS),
    (TopicState.CREATING, TopicEvent.OPENED): Step(TopicState.ONLINE, _OPENS),
    (TopicState.CREATING, TopicEvent.REMOVED): Step(TopicState.DELETING, _REMOVES),
    (TopicState.CREATING, TopicEvent.FAILED): Step(TopicState.UNDECIDED, _FAILS),
    (TopicState.ONLINE, TopicEvent.GROWN): Step(TopicState.GROWING, _GROWS),
    (TopicState.ONLINE, TopicEvent.REMOVED): Step(TopicState.DELETING, _REMOVES),
    (TopicState.GROWING, TopicEvent.GROWN): Step(TopicState.GROWING, _GROWS),
    (TopicState.GROWING, TopicEvent.OPENED): Step(TopicState.ONLINE, _OPENS),
    (TopicState.GROWING, TopicEvent.REMOVED): Step(TopicState.DELETING, _REMOVES),
    (TopicState.GROWING, TopicEvent.FAILED): Step(TopicState.UNDECIDED, _FAILS),
    (TopicState.DELETING, TopicEvent.GONE): Step(TopicState.DROPPING, "Topics._drop"),
    (TopicState.DELETING, TopicEvent.FAILED): Step(TopicState.UNDECIDED, _FAILS),
    (TopicState.DROPPING, TopicEvent.DROPPED): Step(TopicState.DELETED, "Topics._drop"),
    (TopicState.UNDECIDED, TopicEvent.FAILED): Step(TopicState.UNDECIDED, _FAILS),
}

SERVING: Final = frozenset((TopicState.CREATING, TopicState.ONLINE, TopicState.GROWING))
LEAVING: Final = frozenset((TopicState.DELETING, TopicState.DROPPING))


class TopicLife:
    """One incarnation of a topic: its state, and which of its partitions may be and are open."""

    __slots__ = (
        "changes", "durable_count", "known_count", "logs_lock", "opened", "state", "topic",
    )  # fmt: skip

    def __init__(self, topic: TopicInfo) -> None:
        self.topic = topic
        self.state = TopicState.CREATING
        self.durable_count = 0  # partitions below it are durable, and may be opened
        self.known_count = 0  # and those below it were so when the broker started
        self.opened: set[int] = set()
        self.logs_lock = asyncio.Lock()  # held while its logs are opened or dropped
        self.changes: set[asyncio.Task[Any]] = set()  # that are under way

    def __repr__(self) -> str:
        return f"TopicLife({self.topic.name}, {self.state})"

    def move(self, event: TopicEvent) -> None:
        """Go where `event` leads. A step missing from the table is a bug here."""
        try:
            self.state = LIFE[self.state, event].target
        except KeyError:
            raise AssertionError(f"{self!r} was told: {event.name}") from None

    @property
    def is_serving(self) -> bool:
        """Whether its partitions may be opened and found by clients."""
        return self.state in SERVING

    @property
    def is_in_doubt(self) -> bool:
        """Whether the metadata log failed before the topic was durable: perhaps it exists."""
        return self.state is TopicState.UNDECIDED and not self.durable_count


class TopicLives:
    """The topics of the image, and those still being created or deleted."""

    def __init__(self) -> None:
        self._by_id: dict[bytes, TopicLife] = {}
        self._by_name: dict[str, TopicLife] = {}

    def __iter__(self) -> Iterator[TopicLife]:
        return iter(tuple(self._by_id.values()))

    def begin(self, topic: TopicInfo) -> TopicLife:
        """Return the new life of a topic whose name is free."""
        assert topic.name not in self._by_name, f"{self._by_name[topic.name]!r} has not ended"
        life = self._by_id[topic.topic_id] = self._by_name[topic.name] = TopicLife(topic)
        return life

    def of(self, topic: TopicInfo) -> TopicLife:
        """Return the life of a topic that has not ended."""
        return self._by_id[topic.topic_id]

    def of_name(self, name: str) -> TopicLife | None:
        """Return the life that has the name, if one does."""
        return self._by_name.get(name)

    def end(self, life: TopicLife) -> None:
        """Free the name of a topic that is deleted."""
        assert life.state is TopicState.DELETED, f"{life!r} has not ended"
        del self._by_id[life.topic.topic_id], self._by_name[life.topic.name]


def table() -> str:
    """Return `LIFE` as the table of docs/operations.md, a line for each step."""
    lines = ["| state | what happens | next | by |", "|---|---|---|---|"]
    lines += [
        f"| {state} | {event} | {step.target} | `{step.owner}` |"
        for (state, event), step in LIFE.items()
    ]
    return "\n".join(lines)
