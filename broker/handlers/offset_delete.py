"""OffsetDelete, API key 47, version 0: delete committed offsets of a group (KIP-496).

Behaviour
- A topic that a member subscribes to: GROUP_SUBSCRIBED_TO_TOPIC. A group with members that are not
  consumers: NON_EMPTY_GROUP for the whole request.
- Topics and partitions that do not exist are refused one by one, and come first in the answer, as
  in Kafka. An offset that was never committed is no error.
"""

from __future__ import annotations

from broker.groups.errors import GroupError
from broker.groups.removal import delete_offsets
from broker.runtime.request import Request
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


async def handle(request: Request, services: Services) -> OffsetDeleteResponse:
    """Delete the offsets of all partitions that exist and are not subscribed to."""
    body: OffsetDeleteRequest = request.body
    refused: dict[str, OffsetDeleteResponseTopic] = {}
    known: list[tuple[str, list[int]]] = []
    for asked in body.topics:
        numbers = _known_partitions(services, asked, refused)
        if numbers:
            known.append((asked.name, numbers))
    try:
        codes = await delete_offsets(services.groups, body.group_id, known)
    except GroupError as error:
        return error_response(request, error.code)
    for name, numbers in known:
        topic = refused.setdefault(name, OffsetDeleteResponseTopic(name=name))
        topic.partitions += [
            OffsetDeleteResponsePartition(partition_index=number, error_code=codes[name])
            for number in numbers
        ]
    return OffsetDeleteResponse(topics=list(refused.values()))


def _known_partitions(
    services: Services,
    asked: OffsetDeleteRequestTopic,
    refused: dict[str, OffsetDeleteResponseTopic],
) -> list[int]:
    """Return the partitions that exist, and refuse those that do not."""
    topic = services.topics.by_name(asked.name)
    existing = set() if topic is None else {info.partition for info in topic.partitions}
    numbers = [one.partition_index for one in asked.partitions]
    unknown = [number for number in numbers if number not in existing]
    if unknown or topic is None:  # a topic that is named again is answered once
        answer = refused.setdefault(asked.name, OffsetDeleteResponseTopic(name=asked.name))
        answer.partitions += [
            OffsetDeleteResponsePartition(
                partition_index=number, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            for number in unknown
        ]
    return [number for number in numbers if number in existing]


def error_response(request: Request, code: ErrorCode) -> OffsetDeleteResponse:  # noqa: ARG001
    """Return an answer with `code` for the group."""
    return OffsetDeleteResponse(error_code=code)
