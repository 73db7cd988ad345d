"""Batches that threads prepare for their turn (`broker.partitions.preparation`), and their memory.

A prepared batch waits until those before it are appended. It may be a thousand times as large as
the request that holds it: a client chooses how well its records compress. So what waits is counted,
and above `PREPARED_BYTES_MAX` a batch that has no turn yet is dropped. It is prepared once more
when it has one: then it waits for nothing but that.

A batch that stays as its client has sent it is memory of its request, and not counted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from broker.partitions.partition import Partition, QueuedAppend
from broker.runtime.owners import Owner
from broker.runtime.record_work import RecordWork, WalkAbandoned
from protocol.record_errors import InvalidRecord, RecordError

logger = logging.getLogger("barnabas.storage")

PREPARED_BYTES_MAX: Final = 64 * 1024 * 1024


class PreparedBatches:
    """Has queued batches prepared; `held_bytes` is the memory of those that wait."""

    __slots__ = ("_advance", "_record_work", "held_bytes")

    def __init__(self, record_work: RecordWork, advance: Callable[[Partition], None]) -> None:
        """`advance` appends what is ready and has its turn."""
        self._record_work = record_work
        self._advance = advance
        self.held_bytes = 0

    def begin(self, partition: Partition, queued: QueuedAppend) -> None:
        """Have a thread prepare a batch, unless one is at it."""
        prepare = queued.prepare
        if prepare is None or queued.walk is not None:
            return
        made: list[memoryview] = []

        def ended(error: BaseException | None) -> None:
            queued.walk = None
            if queued.refusal is not None:
                queued.tell(queued.refusal)
                return
            if error is None:
                self._hold(queued, made[0])
            elif isinstance(error, RecordError | WalkAbandoned):
                queued.failure = error
            else:
                logger.error("a batch could not be prepared", exc_info=error)
                queued.failure = InvalidRecord(f"The batch cannot be prepared: {error!r}")
            self._advance(partition)
            if queued.prepared_bytes and self.held_bytes > PREPARED_BYTES_MAX:
                self.let_go(queued)
                queued.batch = None

        queued.walk = self._record_work.submit(
            Owner.APPEND, queued.client, lambda: made.append(prepare()), ended
        )

    def _hold(self, queued: QueuedAppend, batch: memoryview) -> None:
        queued.batch = batch
        if batch is not queued.sent:
            queued.prepared_bytes = len(batch)
            self.held_bytes += len(batch)

    def let_go(self, queued: QueuedAppend) -> None:
        """Count the batch no longer: it is dropped, or leaves its queue."""
        self.held_bytes -= queued.prepared_bytes
        queued.prepared_bytes = 0
