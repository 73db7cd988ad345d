"""The committed offsets of a group, for a member of it (OffsetCommit, OffsetFetch).

Every request carries the member's epoch, so that a member that was replaced cannot commit. On
STALE_MEMBER_EPOCH a heartbeat has changed the epoch meanwhile: the request is repeated with the new
one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from client.codes import code_of, code_text
from client.msgpack.backoff import Backoff
from client.msgpack.membership import Membership, Partition, by_topic
from client.msgpack.positions import Positions
from client.msgpack.transport import Transport
from protocol.errors import ErrorCode

# The broker no longer knows this member.
_DISOWNED: Final = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
)
# Retriable for clients that wait for a topic to be created; here it was deleted.
_GONE: Final = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class CommitError(Exception):
    """Offsets were not committed, or it is unknown whether they were; the text says why."""


class GroupOffsets:
    """The committed offsets of the group of `membership`."""

    def __init__(
        self, transport: Transport, membership: Membership, positions: Positions, timeout_s: float
    ) -> None:
        self._transport = transport
        self._membership = membership
        self._positions = positions
        self._timeout_s = timeout_s

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit offsets; return when they are durable.

        Retries until the timeout while the coordinator is not available. Raises CommitError,
        TransportError.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._timeout_s
        backoff = Backoff()
        left = dict(offsets)
        while left:
            if not self._membership.is_member:
                raise CommitError(
                    "this consumer is currently not a member of its group: nothing was committed"
                )
            answer = await self._transport.call("offset_commit", self._body(left))
            codes = {**dict.fromkeys(left, ErrorCode.UNKNOWN_SERVER_ERROR), **dict(_codes(answer))}
            done = {one: offset for one, offset in left.items() if not codes[one]}
            self._positions.committed(done)
            left = {one: offset for one, offset in left.items() if one not in done}
            for one in left:
                self._check(codes[one], one)
            if left and loop.time() + backoff.next_s > until_s:
                code = codes[next(iter(left))]
                raise CommitError(f"no success within {self._timeout_s:g} s: {code_text(code)}")
            if left:
                await backoff.pause()

    def _body(self, offsets: Mapping[Partition, int]) -> dict[str, Any]:
        topics: dict[bytes, list[dict[str, Any]]] = {}
        for one, offset in offsets.items():
            partition = {
                "partition_index": one.number,
                "committed_offset": offset,
                "committed_leader_epoch": self._positions.leader_epoch(one),
            }
            topics.setdefault(one.topic_id, []).append(partition)
        return {
            "group_id": self._membership.settings.group_id,
            "generation_id_or_member_epoch": self._membership.epoch,
            "member_id": self._membership.settings.member_id,
            "group_instance_id": self._membership.settings.instance_id,
            "topics": [
                {"topic_id": topic_id, "partitions": found} for topic_id, found in topics.items()
            ],
        }

    def _check(self, number: int, partition: Partition) -> None:
        """Raise CommitError, unless a retry may succeed."""
        code = code_of(number)
        if code in _DISOWNED:
            self._membership.disowned()
        elif code is ErrorCode.STALE_MEMBER_EPOCH or (code.retriable and code not in _GONE):
            return
        raise CommitError(f"partition {partition.number}: {code_text(number)}")

    async def fetch(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the committed offset by partition, -1 if there is none.

        Partitions with a retriable error are left out. Raises TransportError, CommitError.
        """
        asked = {
            "group_id": self._membership.settings.group_id,
            "member_id": self._membership.settings.member_id,
            "member_epoch": self._membership.epoch,
            "topics": [
                {"topic_id": topic["topic_id"], "partition_indexes": topic["partitions"]}
                for topic in by_topic(partitions)
            ],
        }
        answer = await self._transport.call(
            "offset_fetch", {"groups": [asked], "require_stable": True}
        )
        (group,) = answer["groups"]
        if not self._may_go_on(group["error_code"]):
            return {}
        return {
            Partition(topic["topic_id"], one["partition_index"]): one["committed_offset"]
            for topic in group["topics"]
            for one in topic["partitions"]
            if self._may_go_on(one["error_code"])
        }

    def _may_go_on(self, number: int) -> bool:
        code = code_of(number)
        if code in _DISOWNED:
            self._membership.disowned()
        elif number and code is not ErrorCode.STALE_MEMBER_EPOCH and not code.retriable:
            raise CommitError(f"committed offsets cannot be read: {code_text(number)}")
        return not number


def _codes(answer: Mapping[str, Any]) -> Iterator[tuple[Partition, int]]:
    for topic in answer["topics"]:
        for one in topic["partitions"]:
            yield Partition(topic["topic_id"], one["partition_index"]), one["error_code"]
