"""Brings the batches of one partition between two offsets, one request ahead of who takes them.

The headers of a fetch are walked, the request for the next one is sent, and only then are the
batches given out: the broker works while they are decoded. CRCs are checked here.

A connection lost in the middle is opened again and the fetch repeated from the last offset that
was taken, so nothing is read twice; when no broker answers in time, BrokerUnreachable says where.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pyspark_barnabas.wire import protocol
from pyspark_barnabas.wire.batches import Batch, first_batch_size, read_batches
from pyspark_barnabas.wire.cluster import Cluster
from pyspark_barnabas.wire.connection import Connection
from pyspark_barnabas.wire.error_codes import OFFSET_OUT_OF_RANGE, Retriable, check
from pyspark_barnabas.wire.errors import BatchTooLarge, CorruptBatch, DataLost
from pyspark_barnabas.wire.primitives import parse
from pyspark_barnabas.wire.protocol import EARLIEST, FetchLimits

MiB = 1024 * 1024
_FETCH_BYTES_MAX = 256 * MiB  # a batch beyond it is refused: no broker takes such


def fail(what: str) -> None:
    """Raise DataLost: the default for offsets that are not in the log."""
    raise DataLost(what)


@dataclass(frozen=True)
class FetchPlan:
    """How to fetch; `lose` is told of offsets that are gone, and raises if that is an error."""

    timeout_ms: int
    wait_ms: int = 500
    bytes: int = 4 * MiB
    isolation: int = 0
    lose: Callable[[str], None] = fail


class Fetcher:
    """Iterate it for (response, its whole batches), until `end` has been reached."""

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
        self._under_way: Connection | None = None

    def __iter__(self) -> Iterator[tuple[protocol.Fetched, list[Batch]]]:
        """Yield what each fetch brings. Raises CorruptBatch, with offsets, for damage."""
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
                    f"{self._name} gave nothing from offset {self._offset} on, and was to be read "
                    f"to {self._end}; its high watermark is {fetched.high_watermark}"
                )
                return

    def _request(self) -> bytes:
        limits = FetchLimits(self._plan.wait_ms, self._bytes, self._plan.isolation)
        return protocol.fetch_request(*self._at, self._offset, limits)

    def _ask_ahead(self) -> None:
        """Send the next request; if that fails, `_fetch` finds nothing under way and asks again."""
        try:
            leader = self._cluster.leader(*self._at)
            leader.send(protocol.FETCH, self._request())
            self._under_way = leader
        except (OSError, Retriable):
            self._cluster.close()

    def _fetch(self) -> protocol.Fetched:
        connection, self._under_way = self._under_way, None
        if connection is None:
            connection = self._cluster.leader(*self._at)
            connection.send(protocol.FETCH, self._request())
        fetched = parse(protocol.read_fetch, connection.receive())
        if fetched.error != OFFSET_OUT_OF_RANGE:
            check(fetched.error, f"reading {self._name} from {self._offset}")
        return fetched

    def _whole_batches(self, fetched: protocol.Fetched) -> list[Batch]:
        """Return the whole batches; with none because the first is too large, ask for more."""
        try:
            batches = list(read_batches(fetched.data, fetched.position))
        except CorruptBatch as error:
            raise located(error, fetched, [], self._name) from None
        if not batches:
            size = first_batch_size(memoryview(fetched.data)[fetched.position :]) or 0
            if size > _FETCH_BYTES_MAX:
                found = CorruptBatch(fetched.position, f"a batch that announces {size} bytes")
                raise located(found, fetched, [], self._name)
            self._bytes = max(self._bytes, size)
        return batches

    def _jump(self) -> None:
        """The offset is not there, or no longer: fail, or go on where the log begins."""
        earliest = self._cluster.list_offsets({self._at: EARLIEST})[self._at]
        self._plan.lose(
            f"{self._name} begins at offset {earliest} now and has no offset {self._offset}, "
            "which was to be read"
        )
        self._offset = earliest if earliest > self._offset else self._end


def located(
    error: CorruptBatch, fetched: protocol.Fetched, batches: list[Batch], name: str
) -> CorruptBatch:
    """Say where in the topic a damaged batch lies, rather than only where in a response."""
    offsets = [batch.base_offset for batch in batches if batch.position == error.position]
    where = f", offset {offsets[0]}" if offsets else ""
    position = error.position - fetched.position
    if isinstance(error, BatchTooLarge):  # which is not damaged; its reason names the option
        return BatchTooLarge(position, f"{name}{where}: {error.reason}")
    return CorruptBatch(
        position,
        f"{name}{where}: {error.reason}. Check the broker's files with `barnabas verify`, or read "
        "around the place with startingOffsets and endingOffsets",
    )
