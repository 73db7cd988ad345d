"""Fetches the batches of one partition between two offsets, one request ahead of the caller.

It walks the batch headers of a response, sends the next request, and only then yields the batches,
so the broker works while they are decoded. CRCs are checked here.

After a lost connection it reconnects and repeats the fetch from the last offset it yielded, so
nothing is read twice. If no broker answers in time, BrokerUnreachable names the offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pyspark_barnabas.wire import protocol
from pyspark_barnabas.wire.batches import Batch, first_batch_size, read_batches
from pyspark_barnabas.wire.cluster import Cluster
from pyspark_barnabas.wire.connection import Connection
from pyspark_barnabas.wire.error_codes import OFFSET_OUT_OF_RANGE, Retriable, check_partition
from pyspark_barnabas.wire.errors import BatchTooLarge, CorruptBatch, DataLost
from pyspark_barnabas.wire.primitives import parse
from pyspark_barnabas.wire.protocol import EARLIEST, FetchLimits

MiB = 1024 * 1024
_FETCH_BYTES_MAX = 256 * MiB  # larger batches are refused: no broker accepts them


def fail(what: str) -> None:
    """Raise DataLost, the default for offsets that are not in the log."""
    raise DataLost(what)


@dataclass(frozen=True)
class FetchPlan:
    """How to fetch; `lose` is called for offsets that are gone, and raises if that is an error."""

    timeout_ms: int
    wait_ms: int = 500
    bytes: int = 4 * MiB
    isolation: int = 0
    lose: Callable[[str], None] = fail


class Fetcher:
    """Iterates over (response, its whole batches) until `end` is reached."""

    def __init__(
        self, cluster: Cluster, plan: FetchPlan, topic: str, partition: int, start: int, end: int
    ) -> None:
        self._cluster = cluster
        self._plan = plan
        self._at = (topic, partition)
        self._name = f"{topic}-{partition}"
        self._offset = start
        self._end = end
        self._bytes = plan.bytes
        self._under_way: tuple[Connection, int] | None = None  # with the request's number

    def __iter__(self) -> Iterator[tuple[protocol.Fetched, list[Batch]]]:
        """Yield what each fetch returns. Raises CorruptBatch, with offsets, for damage."""
        try:
            yield from self._fetched()
        finally:  # a caller may have found what it looked for
            if self._under_way is not None:
                connection, number = self._under_way
                connection.forget(number)

    def _fetched(self) -> Iterator[tuple[protocol.Fetched, list[Batch]]]:
        idle_since = self._cluster.clock.elapsed_ms()
        while self._offset < self._end:
            what = f"reading {self._name} from offset {self._offset}"
            fetched = self._cluster.persist(what, self._fetch)
            if fetched.error == OFFSET_OUT_OF_RANGE:
                self._jump()
                continue
            batches = self._whole_batches(fetched)
            if batches:
                idle_since = self._cluster.clock.elapsed_ms()
                self._offset = max(self._offset, batches[-1].last_offset + 1)
                if self._offset < self._end:
                    self._ask_ahead()
                yield fetched, batches
            elif self._cluster.clock.elapsed_ms() - idle_since > self._plan.timeout_ms:
                self._plan.lose(
                    f"{self._name} returned nothing from offset {self._offset} on, and was to be "
                    f"read to {self._end}; its high watermark is {fetched.high_watermark}"
                )
                return

    def _request(self) -> bytes:
        limits = FetchLimits(self._plan.wait_ms, self._bytes, self._plan.isolation)
        return protocol.fetch_request(*self._at, self._offset, limits)

    def _ask_ahead(self) -> None:
        """Send the next request; if that fails, `_fetch` finds none under way and sends it."""
        try:
            leader = self._cluster.leader(*self._at)
            self._under_way = leader, leader.send(protocol.FETCH, self._request())
        except (OSError, Retriable):
            self._cluster.close()

    def _fetch(self) -> protocol.Fetched:
        under_way, self._under_way = self._under_way, None
        if under_way is None:
            leader = self._cluster.leader(*self._at)
            under_way = leader, leader.send(protocol.FETCH, self._request())
        connection, number = under_way
        fetched = parse(protocol.read_fetch, connection.receive(number))
        if fetched.error != OFFSET_OUT_OF_RANGE:
            check_partition(fetched.error, f"reading {self._name} from {self._offset}")
        return fetched

    def _whole_batches(self, fetched: protocol.Fetched) -> list[Batch]:
        """Return the whole batches; if even the first does not fit, fetch more next time."""
        try:
            batches = list(read_batches(fetched.data, fetched.position))
        except CorruptBatch as error:
            raise located(error, fetched, [], self._name) from None
        if not batches:
            size = first_batch_size(memoryview(fetched.data)[fetched.position :]) or 0
            if size > _FETCH_BYTES_MAX:
                found = CorruptBatch(fetched.position, f"a batch with a size of {size} bytes")
                raise located(found, fetched, [], self._name)
            self._bytes = max(self._bytes, size)
        return batches

    def _jump(self) -> None:
        """The offset is not in the log: fail, or continue where the log begins."""
        earliest = self._cluster.list_offsets({self._at: EARLIEST})[self._at]
        self._plan.lose(
            f"{self._name} now begins at offset {earliest} and has no offset {self._offset}, "
            "which was to be read"
        )
        self._offset = earliest if earliest > self._offset else self._end


def located(
    error: CorruptBatch, fetched: protocol.Fetched, batches: list[Batch], name: str
) -> CorruptBatch:
    """Return the error with the batch's place in the topic, not only in the response."""
    offsets = [batch.base_offset for batch in batches if batch.position == error.position]
    where = f", offset {offsets[0]}" if offsets else ""
    position = error.position - fetched.position
    if isinstance(error, BatchTooLarge):  # not damaged; its reason names the option
        return BatchTooLarge(position, f"{name}{where}: {error.reason}")
    return CorruptBatch(
        position,
        f"{name}{where}: {error.reason}. Check the broker's files with `barnabas verify`, or read "
        "around the place with startingOffsets and endingOffsets",
    )
