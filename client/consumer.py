"""A consumer for asyncio: partitions of one topic, each at a position of its own.

    async with Consumer("127.0.0.1:9094", "words") as consumer:
        await consumer.seek_to(START)                 # or END, a time in ms, or seek(partition, 5)
        while records := await consumer.poll():
            ...

Fetching is the reader's decision: `poll` asks once, for raw batches from every position, opens
them, and moves the positions behind what it returns. Nothing is read ahead and nothing is
remembered by the broker. A position moves behind control batches and holes too, by the batches' own
offsets. A lost connection is made anew by the next `poll`; the positions stay.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple, Self

from client.transport import Topics, Transport, UnknownPlace
from protocol.errors import ErrorCode
from protocol.records import Record, batches, read_records, verify

END: Final = -1  # the places of ListOffsets
START: Final = -2
TIMEOUT_S: Final = 30.0
FETCH_BYTES: Final = 4 * 1024 * 1024
PARTITION_BYTES: Final = 1024 * 1024
OPENED_BYTES_MAX: Final = 256 * 1024 * 1024


class FetchError(Exception):
    """A partition cannot be read from where its position is."""


class Consumed(NamedTuple):
    """A record and the partition it stands in."""

    partition: int
    record: Record


class Consumer:
    """Reads partitions of `topic`, all of them unless `partitions` says which."""

    def __init__(
        self,
        address: str,
        topic: str,
        *,
        partitions: Iterable[int] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.topic = topic
        self.positions: dict[int, int] = {}
        self._wanted = None if partitions is None else sorted(set(partitions))
        self._transport = Transport(address, timeout_s)
        self._topics = Topics(self._transport)

    async def __aenter__(self) -> Self:
        """Connect and find the topic; positions are its partitions' starts.

        Raises TransportError, and UnknownPlace for an unknown topic or partition.
        """
        try:
            _, count = await self._topics.find(self.topic, create=False)
            wanted = list(range(count)) if self._wanted is None else self._wanted
            self._take(wanted, count)
            await self.seek_to(START)
        except BaseException:
            self._transport.close()
            raise
        return self

    def _take(self, partitions: list[int], count: int) -> None:
        for partition in partitions:
            if not 0 <= partition < count:
                raise UnknownPlace(
                    f"topic {self.topic!r} has partitions 0 to {count - 1}, not {partition}"
                )
        self.positions = dict.fromkeys(partitions, 0)

    async def __aexit__(self, *_: object) -> None:
        """Hang up."""
        self._transport.close()

    def seek(self, partition: int, offset: int) -> None:
        """Read a partition from `offset` on."""
        if partition not in self.positions:
            raise UnknownPlace(f"partition {partition} is not read here")
        self.positions[partition] = offset

    async def seek_to(self, timestamp: int) -> None:
        """Read from the first record at or after a time (ms since 1970), START or END.

        Where no record is as late as that, from the end.
        """
        found = await self.offsets(timestamp)
        ends = await self.offsets(END) if -1 in found.values() else {}
        for partition, offset in found.items():
            self.positions[partition] = ends[partition] if offset == -1 else offset

    async def end_offsets(self) -> dict[int, int]:
        """Return the offset behind the last record of every partition that is read."""
        return await self.offsets(END)

    async def offsets(self, timestamp: int) -> dict[int, int]:
        """Return the offset of a time or place in every partition, -1 where there is none."""
        asked = [{"partition_index": one, "timestamp": timestamp} for one in self.positions]
        answer = await self._transport.call(
            "list_offsets",
            {"replica_id": -1, "topics": [{"name": self.topic, "partitions": asked}]},
        )
        found = {}
        for one in answer["topics"][0]["partitions"]:
            self._check(one["partition_index"], one["error_code"])
            found[one["partition_index"]] = one["offset"]
        return found

    async def poll(self, *, wait_ms: int = 500, partitions: Iterable[int] = ()) -> list[Consumed]:
        """Return records behind the positions, in order within each partition.

        Waits up to `wait_ms` for the first; none is an empty list. `partitions` narrows the
        question. Raises TransportError, FetchError, and RecordError for a damaged batch.
        """
        topic_id, _ = await self._topics.find(self.topic, create=False)
        asked = list(partitions) or list(self.positions)
        # The first partition of a request is served first: everyone has a turn.
        self.positions[asked[0]] = self.positions.pop(asked[0])
        wanted = [
            {
                "partition": partition,
                "fetch_offset": self.positions[partition],
                "partition_max_bytes": PARTITION_BYTES,
            }
            for partition in asked
        ]
        body = {
            "max_wait_ms": wait_ms,
            "min_bytes": 1,
            "max_bytes": FETCH_BYTES,
            "topics": [{"topic_id": topic_id, "partitions": wanted}],
            "raw": True,
        }
        answer = await self._transport.call("fetch", body, wait_ms=wait_ms)
        consumed: list[Consumed] = []
        for topic in answer["responses"]:
            for one in topic["partitions"]:
                partition = one["partition_index"]
                self._check(partition, one["error_code"])
                records, position = opened(one["records"] or b"", self.positions[partition])
                self.positions[partition] = position
                consumed += [Consumed(partition, record) for record in records]
        return consumed

    def _check(self, partition: int, code_number: int) -> None:
        if not code_number:
            return
        code = ErrorCode(code_number)  # type: ignore[call-arg]
        at = self.positions.get(partition)
        raise FetchError(
            f"{self.topic}-{partition} at offset {at}: {code.name} ({int(code)}): {code.message}"
        )


def opened(raw: Any, position: int) -> tuple[list[Record], int]:
    """Return the records of raw batches from offset `position` on, and the next position.

    Every batch's CRC is checked. An incomplete batch at the end is left for the next fetch.
    """
    found: list[Record] = []
    for start, header in batches(raw):
        if header.next_offset <= position:
            continue
        verify(raw, start)
        if not header.is_control:
            found += [
                record
                for record in read_records(raw, start, size_max=OPENED_BYTES_MAX)
                if record.offset >= position
            ]
        position = header.next_offset
    return found, position
