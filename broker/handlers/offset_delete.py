"""OffsetDelete, API key 47, version 0: delete committed offsets of a group (KIP-496).

Behaviour
- A topic that a member subscribes to: GROUP_SUBSCRIBED_TO_TOPIC. A group with members that are not
  consumers: NON_EMPTY_GROUP for the whole request.
- Topics and partitions that do not exist are refused one by one, and come first in the answer, as
  in Kafka. An offset that was never committed is no error.
- A request may name any number of partitions: it is handled in turns of the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from broker.groups.errors import GroupError
from broker.groups.removal import delete_offsets
from broker.runtime.request import Request
from broker.runtime.steps import Steps
from broker.runtime.turns import InTurns
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

TOPICS_PER_TURN = 200
PARTITIONS_PER_TURN = 5_000
ANSWERED_PER_STEP = 1_000
ANSWER_BYTES = 6  # of a partition


async def handle(request: Request, services: Services) -> OffsetDeleteResponse | Steps:
    """Delete the offsets of all partitions that exist and are not subscribed to."""
    body: OffsetDeleteRequest = request.body
    refused: dict[str, OffsetDeleteResponseTopic] = {}
    known: list[tuple[str, list[int]]] = []
    async for asked in InTurns(body.topics, TOPICS_PER_TURN):
        numbers = await _known_partitions(services, asked, refused)
        if numbers:
            known.append((asked.name, numbers))
    try:
        codes = await delete_offsets(services.groups, body.group_id, known)
    except GroupError as error:
        return error_response(request, error.code)
    return _answer(refused, known, codes)


def _answer(
    refused: dict[str, OffsetDeleteResponseTopic],
    known: list[tuple[str, list[int]]],
    codes: Mapping[str, ErrorCode],
) -> Steps:
    for topic in refused.values():
        yield ANSWER_BYTES * len(topic.partitions)
    for name, numbers in known:
        topic = refused.setdefault(name, OffsetDeleteResponseTopic(name=name))
        for start in range(0, len(numbers), ANSWERED_PER_STEP):
            some = numbers[start : start + ANSWERED_PER_STEP]
            topic.partitions += _each(some, codes[name])
            yield ANSWER_BYTES * len(some)
    return OffsetDeleteResponse(topics=list(refused.values()))


def _each(numbers: Iterable[int], code: ErrorCode) -> list[OffsetDeleteResponsePartition]:
    return [
        OffsetDeleteResponsePartition(partition_index=number, error_code=code) for number in numbers
    ]


async def _known_partitions(
    services: Services,
    asked: OffsetDeleteRequestTopic,
    refused: dict[str, OffsetDeleteResponseTopic],
) -> list[int]:
    """Return the partitions that exist, and refuse those that do not."""
    topic = services.topics.by_name(asked.name)
    existing = set() if topic is None else {info.partition for info in topic.partitions}
    known: list[int] = []
    unknown: list[int] = []
    for start in range(0, len(asked.partitions), PARTITIONS_PER_TURN):
        if start:
            await asyncio.sleep(0)
        for one in asked.partitions[start : start + PARTITIONS_PER_TURN]:
            number = one.partition_index
            (known if number in existing else unknown).append(number)
    if unknown or topic is None:  # a topic that is named again is answered once
        answer = refused.setdefault(asked.name, OffsetDeleteResponseTopic(name=asked.name))
        for start in range(0, len(unknown), PARTITIONS_PER_TURN):
            some = unknown[start : start + PARTITIONS_PER_TURN]
            answer.partitions += _each(some, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            await asyncio.sleep(0)
    return known


def error_response(request: Request, code: ErrorCode) -> OffsetDeleteResponse:  # noqa: ARG001
    """Return an answer with `code` for the group."""
    return OffsetDeleteResponse(error_code=code)
