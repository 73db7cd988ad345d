"""How a group member reads: where it starts in a partition, and how it handles a fetch.

A partition is read from its position. Without one, it starts at the committed offset, or else by
`auto_offset_reset`, which also applies to a position outside the log. An error of one partition
does not discard the records of others: it is kept in `trouble`, for the next poll to raise.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, NamedTuple

from client.codes import code_of, code_text
from client.msgpack.fetching import (
    END,
    READ_UNCOMMITTED,
    START,
    FetchError,
    fetch_body,
    opened,
)
from client.msgpack.group_offsets import GroupOffsets
from client.msgpack.membership import Membership, Partition
from client.msgpack.positions import Positions
from client.msgpack.topic_names import TopicNames
from client.msgpack.transport import Transport
from client.places import Place
from protocol.errors import ErrorCode
from protocol.record_errors import RecordError
from protocol.records import Record

RESETS: Final = {"earliest": START, "latest": END, "error": None}
# The topic was deleted or recreated: the broker will assign something else.
_PASSING: Final = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class Read(NamedTuple):
    """A record and its partition."""

    place: Place
    record: Record


class GroupReader:
    """Reads the partitions of `membership`, and advances `positions` past what it returns."""

    def __init__(
        self,
        transport: Transport,
        membership: Membership,
        positions: Positions,
        offsets: GroupOffsets,
        names: TopicNames,
        reset: str,
        isolation: int = READ_UNCOMMITTED,
    ) -> None:
        self.trouble: FetchError | RecordError | None = None
        self._transport = transport
        self._membership = membership
        self._positions = positions
        self._offsets = offsets
        self._names = names
        self._reset = reset
        self._isolation = isolation

    async def find_positions(self) -> None:
        """Find positions for partitions without: the committed offset, or by the reset."""
        unplaced = self._positions.unplaced()
        if not unplaced or not self._membership.is_member:
            return
        found = await self._offsets.fetch(unplaced)
        fresh = []
        for one, offset in found.items():
            if offset >= 0:
                self._positions.place(one, offset, committed=True)
            else:
                fresh.append(one)
        if fresh:
            await self._place_by_reset(fresh, "the group has no committed offset for it")

    async def _place_by_reset(self, partitions: list[Partition], why: str) -> None:
        timestamp = RESETS[self._reset]
        if timestamp is None:
            raise FetchError(
                f"{self._names.place(partitions[0])} has no position: {why}, and "
                "auto_offset_reset is error. Seek, or set one by `barnabas groups reset-offsets`.",
                retriable=False,
            )
        by_place = {self._names.place(one): one for one in partitions}
        found = await self._list_offsets(sorted(by_place), timestamp)
        for place, (number, offset) in found.items():
            if not number:
                self._positions.place(by_place[place], offset)
            elif not code_of(number).retriable:
                raise _fetch_error(place, number)

    async def end_offsets(self) -> dict[Place, int]:
        """Return the end offset of each partition that is held."""
        found = await self._list_offsets(self._names.places(self._positions), END)
        for place, (number, _) in found.items():
            if number:
                raise _fetch_error(place, number)
        return {place: offset for place, (_, offset) in found.items()}

    async def _list_offsets(
        self, places: Collection[Place], timestamp: int
    ) -> dict[Place, tuple[int, int]]:
        """Return the error code and the offset of START or END, by partition."""
        topics: dict[str, list[dict[str, int]]] = {}
        for place in places:
            asked = {"partition_index": place.partition, "timestamp": timestamp}
            topics.setdefault(place.topic, []).append(asked)
        body = {
            "replica_id": -1,
            "isolation_level": self._isolation,
            "topics": [{"name": name, "partitions": asked} for name, asked in topics.items()],
        }
        answer = await self._transport.call("list_offsets", body)
        return {
            Place(topic["name"], one["partition_index"]): (one["error_code"], one["offset"])
            for topic in answer["topics"]
            for one in topic["partitions"]
        }

    async def read(self, wait_ms: int) -> list[Read] | None:
        """Fetch once, waiting up to `wait_ms` for a record; None if there is nothing to fetch."""
        asked = self._positions.readable() if self._membership.is_member else []
        if not asked:
            return None
        wanted: dict[bytes, list[tuple[int, int]]] = {}
        for one in asked:
            at = one.number, self._positions.offset(one)
            wanted.setdefault(one.topic_id, []).append(at)
        body = fetch_body(wanted, wait_ms, self._isolation)
        answer = await self._transport.call("fetch", body, wait_ms=wait_ms)
        await self._reset_those_outside(answer)
        if not self._membership.is_member:
            return []  # other members may hold these by now
        found: list[Read] = []
        is_passing = False
        for topic in answer["responses"]:
            for one in topic["partitions"]:
                partition = Partition(topic["topic_id"], one["partition_index"])
                code = code_of(one["error_code"])
                if code in _PASSING:
                    is_passing = True
                elif code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                    self._open(partition, one, found)
        return None if is_passing and not found else found

    async def _reset_those_outside(self, answer: dict[str, Any]) -> None:
        """Place the partitions whose position is outside the log.

        Before the others are opened: what this raises would take along records that positions have
        passed, and nobody would read them again.
        """
        outside = [
            Partition(topic["topic_id"], one["partition_index"])
            for topic in answer["responses"]
            for one in topic["partitions"]
            if one["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE
        ]
        if outside:
            try:
                await self._place_by_reset(outside, "its position is outside the log")
            except FetchError as error:
                self.trouble = self.trouble or error

    def _open(self, partition: Partition, one: dict[str, Any], found: list[Read]) -> None:
        """Add a partition's records, and advance its position after each batch."""
        place = self._names.place(partition)
        try:
            if one["error_code"]:
                raise _fetch_error(place, one["error_code"])
            position = self._positions.offset(partition)
            aborted = one.get("aborted_transactions") or ()
            for records, batch in opened(one["records"] or b"", position, aborted):
                self._positions.move(partition, batch.next_offset, batch.leader_epoch)
                found += [Read(place, record) for record in records]
        except (FetchError, RecordError) as error:
            self.trouble = self.trouble or error


def _fetch_error(place: Place, number: int) -> FetchError:
    return FetchError(f"{place}: {code_text(number)}", retriable=code_of(number).retriable)
