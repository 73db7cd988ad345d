"""The writes of an ending transaction to its partitions: what must be durable first, and markers.

A marker is appended through the queue of its partition, so it has its place among the batches, and
no deadline. Readers see the outcome (`Log.settle`) when both the marker and the decision that it
carries out are durable. In `__consumer_offsets`, the marker then applies or drops the pending
offsets of the producer.

A transaction may have any number of partitions: all of this goes on in turns of the loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from broker.metadata.topic_rules import GROUP_TOPIC
from broker.partitions.append_queue import AppendQueue
from broker.partitions.group_commit import GroupCommit
from broker.partitions.partition import AppendOutcome, Partition, Partitions
from broker.runtime.in_place import Told
from broker.transactions.transaction import Place, Transaction, Written
from broker.transactions.transaction_errors import TransactionError
from protocol.control_records import Marker
from protocol.errors import ErrorCode
from storage.errors import StorageError, UnknownPartition
from storage.log import Appended

logger = logging.getLogger("barnabas.transactions")

# Of the loop. A marker takes some 30 µs, or ten times as long if its file is not open; an outcome
# wakes the fetches that wait for records of the partition.
PLACES_PER_TURN: Final = 50
FLUSHES_PER_TURN: Final = 1_000  # begun


class GroupOffsets(Protocol):
    """What an end tells the coordinator of groups."""

    def transaction_ended(self, number: int, marker: Marker, offset: int) -> None:
        """Apply or drop a producer's pending offsets before its marker in a partition of theirs."""


class Markers:
    """The markers of one end: those still to be appended, and those in a log, not settled."""

    __slots__ = ("appended", "is_owed", "is_raised", "marker", "missing", "only_open")

    def __init__(
        self, marker: Marker, missing: dict[Place, None], *, only_open: bool, is_raised: bool
    ) -> None:
        self.marker = marker
        self.missing = missing
        self.appended: dict[Place, tuple[Partition, int]] = {}
        self.only_open = only_open  # after a start: where the marker is there already, none
        self.is_raised = is_raised  # its epoch is above that of the data: an end of TV2
        self.is_owed = False  # and said to be


class MarkerWriter:
    """Writes to the partitions of transactions, and waits for the disk."""

    def __init__(
        self,
        partitions: Partitions,
        commit: GroupCommit,
        appends: AppendQueue,
        groups: Callable[[], GroupOffsets],
        settled: Callable[[Partition], None],
    ) -> None:
        self._partitions = partitions
        self._commit = commit
        self._appends = appends
        self._groups = groups
        self._settled = settled  # wakes the fetches of a partition

    async def look_at(self, transaction: Transaction, *, is_commit: bool) -> dict[Place, None]:
        """Return the partitions of a transaction; of a commit, when all its data are durable.

        Raises TransactionError.
        """
        places: dict[Place, None] = {}
        missing: list[tuple[Partition, int]] = []
        for count, place in enumerate(transaction.places(), 1):
            if count % PLACES_PER_TURN == 0:
                await asyncio.sleep(0)
            places[place] = None
            if is_commit and (unflushed := self._unflushed(transaction.producer_id, place)):
                missing.append(unflushed)
        if missing:
            await self._flush(missing)
        return places

    def _unflushed(self, producer_id: int, place: Place) -> tuple[Partition, int] | None:
        """Return where a producer's data in a partition end, unless they are durable."""
        try:
            partition = self._partitions.get(*place)
        except UnknownPartition:  # its topic was deleted
            return None
        except StorageError as error:
            raise _abortable(place) from error
        log = partition.log
        if log.failed is not None:
            raise _abortable(place)
        entry = log.producers.entries.get(producer_id)
        if entry is None or not entry.batches:
            return None
        end_offset = entry.batches[-1].last_offset + 1
        return (partition, end_offset) if end_offset > log.durable_offset else None

    async def _flush(self, missing: list[tuple[Partition, int]]) -> None:
        for (partition, _), code in zip(missing, await self._flushed(missing), strict=True):
            if code == ErrorCode.KAFKA_STORAGE_ERROR:
                raise _abortable((partition.log.topic, partition.log.partition))
            if code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                raise TransactionError(ErrorCode.COORDINATOR_NOT_AVAILABLE, code.message)

    async def append_missing(self, markers: Markers) -> None:
        """Append the markers that are missing, where that can be done."""
        queued = 0
        all_told: Told[None] = Told()

        def told(place: Place, partition: Partition, outcome: AppendOutcome) -> None:
            nonlocal queued
            queued -= 1
            if isinstance(outcome, Appended):
                markers.appended[place] = (partition, outcome.base_offset)
                del markers.missing[place]
            elif isinstance(outcome, UnknownPartition) or partition.log.is_closed:
                del markers.missing[place]
            elif not markers.is_owed:
                markers.is_owed = True
                logger.warning(
                    "producer %(producer_id)d: the %(marker)s of its transaction lacks a marker in"
                    " %(topic)s-%(partition)d, written later or at the next start: %(error)s",
                    {
                        "producer_id": markers.marker.producer_id,
                        "marker": "commit" if markers.marker.is_commit else "abort",
                        "topic": place[0],
                        "partition": place[1],
                        "error": outcome,
                    },
                )
            if queued == 0:
                all_told.tell(None)

        queued += 1  # this loop itself
        for count, place in enumerate(list(markers.missing), 1):
            if count % PLACES_PER_TURN == 0:
                await asyncio.sleep(0)
            partition = self._partition_without(markers, place)
            if partition is not None:
                queued += 1

                def done(
                    outcome: AppendOutcome, place: Place = place, partition: Partition = partition
                ) -> None:
                    told(place, partition, outcome)

                self._appends.append_marker(partition, markers.marker, done)
        queued -= 1
        if queued:
            await all_told

    def _partition_without(self, markers: Markers, place: Place) -> Partition | None:
        """Return the partition if its marker is to be appended now."""
        try:
            partition = self._partitions.get(*place)
        except UnknownPartition:  # its topic was deleted
            del markers.missing[place]
            return None
        except StorageError:  # offline
            return None
        if markers.only_open and _has_marker(partition, markers):
            del markers.missing[place]
            return None
        return partition

    async def settle_durable(self, markers: Markers, prepared: Written | None) -> None:
        """Flush the markers and the decision; let readers see what is durable of them.

        Raises TransactionError if the decision may not be durable: nothing is settled then.
        """
        appended = list(markers.appended.items())
        wanted = [(partition, offset + 1) for _, (partition, offset) in appended]
        if prepared is not None:
            wanted.append(prepared)
        codes = await self._flushed(wanted)
        if prepared is not None and codes[-1] != ErrorCode.NONE:
            raise TransactionError(ErrorCode.COORDINATOR_NOT_AVAILABLE, codes[-1].message)
        for count, ((place, (partition, offset)), code) in enumerate(
            zip(appended, codes, strict=False), 1
        ):
            if count % PLACES_PER_TURN == 0:
                await asyncio.sleep(0)
            self._settle(markers, place, partition, offset, code)

    def _settle(
        self,
        markers: Markers,
        place: Place,
        partition: Partition,
        offset: int,
        code: ErrorCode,
    ) -> None:
        if code == ErrorCode.COORDINATOR_NOT_AVAILABLE:  # the broker stops
            return
        del markers.appended[place]
        if code == ErrorCode.NONE:
            partition.log.settle(offset)
            topic, number = place
            if topic == GROUP_TOPIC:
                self._groups().transaction_ended(number, markers.marker, offset)
            self._settled(partition)
        elif code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            markers.missing[place] = None  # owed until the log is opened again

    async def _flushed(self, places: list[tuple[Partition, int]]) -> list[ErrorCode]:
        """Return the code of each place when all are durable, or cannot be."""
        told: list[Told[list[ErrorCode]]] = []
        for start in range(0, len(places), FLUSHES_PER_TURN):
            if start:
                await asyncio.sleep(0)
            flushed: Told[list[ErrorCode]] = Told()
            told.append(flushed)
            some = places[start : start + FLUSHES_PER_TURN]
            self._commit.durable_together(some, flushed.tell)
        codes: list[ErrorCode] = []
        for each in told:
            codes += await each
        return codes


def _has_marker(partition: Partition, markers: Markers) -> bool:
    """Whether a partition has a marker of this end.

    With TV2, what is open at the epoch of the marker belongs to the next transaction. A log that
    has failed does not count: it may know a marker that the disk has lost.
    """
    if partition.log.failed is not None:
        return False
    entry = partition.log.producers.entries.get(markers.marker.producer_id)
    if entry is None:
        return False
    if markers.is_raised:
        return entry.epoch >= markers.marker.producer_epoch
    return entry.txn_first_offset < 0 and entry.epoch == markers.marker.producer_epoch


def _abortable(place: Place) -> TransactionError:
    return TransactionError(
        ErrorCode.TRANSACTION_ABORTABLE,
        f"{place[0]}-{place[1]} has failed on the disk: the transaction can only be aborted",
    )
