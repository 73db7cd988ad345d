"""The topics and partitions that a request names, and a request with some of them only.

An API is listed here if its request is a list of topics, with partitions or without, and its
answer a list of the same topics. A rule for a topic answers its error for that topic's part of the
request, as a broker does; the rest is handled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from protocol.api_keys import ApiKey


@dataclass(frozen=True, slots=True)
class Shape:
    """The names of the fields that hold topics, and partitions if the API has any."""

    topics: str = "topics"
    name: str = "name"
    partitions: str | None = "partitions"
    index: str = "partition_index"
    answers: str = "topics"


_USUAL: Final = Shape()
SHAPES: Final = {
    ApiKey.PRODUCE: Shape("topic_data", "name", "partition_data", "index", "responses"),
    ApiKey.FETCH: Shape("topics", "topic", "partitions", "partition", "responses"),
    ApiKey.LIST_OFFSETS: _USUAL,
    ApiKey.OFFSET_COMMIT: _USUAL,
    ApiKey.TXN_OFFSET_COMMIT: _USUAL,
    ApiKey.DELETE_RECORDS: _USUAL,
    ApiKey.OFFSET_DELETE: _USUAL,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Shape("topics", "topic", "partitions", "partition"),
    ApiKey.METADATA: Shape(partitions=None),
    ApiKey.CREATE_TOPICS: Shape(partitions=None),
    ApiKey.CREATE_PARTITIONS: Shape(partitions=None, answers="results"),
}

NameOf = Callable[[bytes], str | None]  # of a topic, by its id
Wanted = Callable[[str, int | None], bool]


def named(api_key: int, body: Any, name_of: NameOf) -> dict[str, list[int]]:
    """Return the partitions of each topic that a request names."""
    shape = SHAPES.get(ApiKey(api_key))
    found: dict[str, list[int]] = {}
    for topic in (getattr(body, shape.topics) or ()) if shape is not None else ():
        assert shape is not None
        partitions = found.setdefault(_name(shape, topic, name_of), [])
        if shape.partitions is not None:
            partitions += [getattr(one, shape.index) for one in getattr(topic, shape.partitions)]
    return found


def split(api_key: int, body: Any, name_of: NameOf, wanted: Wanted) -> tuple[Any, Any]:
    """Return a body with what is `wanted` only, and one with the rest; None for an empty one."""
    shape = SHAPES[ApiKey(api_key)]
    taken: list[Any] = []
    left: list[Any] = []
    for topic in getattr(body, shape.topics) or ():
        name = _name(shape, topic, name_of)
        if shape.partitions is None:
            (taken if wanted(name, None) else left).append(topic)
            continue
        partitions = getattr(topic, shape.partitions)
        ours = [one for one in partitions if wanted(name, getattr(one, shape.index))]
        others = [one for one in partitions if not wanted(name, getattr(one, shape.index))]
        if ours:
            taken.append(replace(topic, **{shape.partitions: ours}))
        if others:
            left.append(replace(topic, **{shape.partitions: others}))
    return (
        replace(body, **{shape.topics: taken}) if taken else None,
        replace(body, **{shape.topics: left}) if left else None,
    )


def joined(api_key: int, answer: Any, more: Any) -> Any:
    """Return an answer with the topics of another one behind its own."""
    field = SHAPES[ApiKey(api_key)].answers
    return replace(answer, **{field: [*getattr(answer, field), *getattr(more, field)]})


def _name(shape: Shape, topic: Any, name_of: NameOf) -> str:
    name = getattr(topic, shape.name)
    if not name and hasattr(topic, "topic_id"):
        return name_of(topic.topic_id) or ""
    return str(name or "")
