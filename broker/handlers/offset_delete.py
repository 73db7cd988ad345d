"""OffsetDelete, API key 47, version 0: delete committed offsets of a group (KIP-496).

Behaviour
- A topic that a member subscribes to: GROUP_SUBSCRIBED_TO_TOPIC. A group with members that are not
  consumers: NON_EMPTY_GROUP for the whole request.
- Topics and partitions that do not exist are refused one by one, and come first in the answer, as
  in Kafka. An offset that was never committed is no error.
- A request may name any number of partitions: it is handled in turns of the loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker.groups.errors import GroupError
from broker.groups.removal import delete_offsets
from broker.runtime.request import Request
from broker.runtime.steps import Steps
from broker.runtime.turns import InTurns, with_partitions
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

PARTITIONS_PER_TURN = 1_000
ANSWERED_PER_STEP = 1_000
ANSWER_BYTES = 6  # of a partition


async def handle(request: Request, services: Services) -> OffsetDeleteResponse | Steps:
    """Delete the offsets of all partitions that exist and are not subscribed to."""
    body: OffsetDeleteRequest = request.body
    known, refused = await _sorted_out(services, body.topics)
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
            topic.partitions += [
                OffsetDeleteResponsePartition(partition_index=number, error_code=codes[name])
                for number in some
            ]
            yield ANSWER_BYTES * len(some)
    return OffsetDeleteResponse(topics=list(refused.values()))


async def _sorted_out(
    services: Services, topics: Sequence[OffsetDeleteRequestTopic]
) -> tuple[list[tuple[str, list[int]]], dict[str, OffsetDeleteResponseTopic]]:
    """Return the partitions that exist, by topic, and the refusals of those that do not."""
    known: list[tuple[str, list[int]]] = []
    refused: dict[str, OffsetDeleteResponseTopic] = {}
    existing: set[int] = set()
    async for asked, partition in InTurns(with_partitions(topics), PARTITIONS_PER_TURN):
        name = asked.name
        if partition is None:
            topic = services.topics.by_name(name)
            existing = set() if topic is None else {info.partition for info in topic.partitions}
            known.append((name, []))
            if topic is None:  # it is answered, also without partitions
                refused.setdefault(name, OffsetDeleteResponseTopic(name=name))
        elif partition.partition_index in existing:
            known[-1][1].append(partition.partition_index)
        else:  # a topic that is named again is answered once
            answer = refused.setdefault(name, OffsetDeleteResponseTopic(name=name))
            answer.partitions.append(
                OffsetDeleteResponsePartition(
                    partition_index=partition.partition_index,
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                )
            )
    return [one for one in known if one[1]], refused


def error_response(request: Request, code: ErrorCode) -> OffsetDeleteResponse:  # noqa: ARG001
    """Return an answer with `code` for the group."""
    return OffsetDeleteResponse(error_code=code)
