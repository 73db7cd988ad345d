"""Replays `__transaction_state`: reads its batches, and keeps the newest record of each id.

`read_states` decompresses and decodes. It is slow and changes nothing, so it runs in a thread. The
loop then lets `Newest` take what was read.

In one partition the last record of an id counts. An id belongs to one partition; but the topic may
have been given more of them by hand, and then an older record is left in another. So all partitions
are read, and of the last records the newest wins: the one with the higher producer id, then epoch,
since both only rise, and then the one with the later timestamp. A tombstone has a timestamp alone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from broker.transactions.transaction_states import TransactionState
from protocol.errors import DecodeError
from protocol.records import Buffer, Record, batches, read_records
from protocol.transaction_records import TransactionValue, UnknownTransactionRecord, decode

logger = logging.getLogger("barnabas.transactions")

BATCH_BYTES_MAX: Final = 128 * 1024 * 1024  # decompressed
RECORDS_PER_TURN: Final = 500  # of the loop


class StateRecord(NamedTuple):
    """A record of an id; the value is None for a tombstone."""

    transactional_id: str
    value: TransactionValue | None
    timestamp_ms: int


class ReadStates(NamedTuple):
    """One batch."""

    next_offset: int
    records: Sequence[StateRecord]


def read_states(chunk: Buffer) -> list[ReadStates]:
    """Return the contents of whole batches. Raises RecordError for bytes that are no batch.

    Records that cannot be decoded are logged; so are states that Kafka never writes.
    """
    found = []
    for position, header in batches(chunk):
        records: list[StateRecord] = []
        if not header.is_control:
            for record in read_records(
                chunk, position, size_max=BATCH_BYTES_MAX, skip_headers=True
            ):
                decoded = _decode(record)
                if decoded is not None:
                    records.append(decoded)
        found.append(ReadStates(header.next_offset, records))
    return found


def _decode(record: Record) -> StateRecord | None:
    """Return a record of an id; as a tombstone, if only its key is sound.

    The record before it is out of date: to go on from there could give a transaction two outcomes.
    Without a record, the id gets a new producer id, and what is open is left to the operator.
    """
    try:
        decoded = decode(record.key or b"", None)
    except DecodeError as error:
        logger.warning(
            "transaction record at offset %(offset)d ignored: %(error)s",
            {"offset": record.offset, "error": error},
        )
        return None
    if isinstance(decoded, UnknownTransactionRecord):
        return None
    transactional_id, value = decoded[0].transactional_id, None
    try:
        value = _value(record)
    except (DecodeError, ValueError) as error:
        logger.warning(
            "transactional id %(transactional_id)s is as good as new: its record at offset"
            " %(offset)d cannot be read: %(error)s",
            {"transactional_id": transactional_id, "offset": record.offset, "error": error},
        )
    return StateRecord(transactional_id, value, record.timestamp)


def _value(record: Record) -> TransactionValue | None:
    """Raises DecodeError, and ValueError for a state that is never written."""
    decoded = decode(record.key or b"", record.value)
    assert not isinstance(decoded, UnknownTransactionRecord), "its key was decoded before"
    value = decoded[1]
    if value is not None:
        TransactionState(value.transaction_status)
    return value


class Newest:
    """The newest record of each id, over all partitions that were read to their ends."""

    def __init__(self) -> None:
        self.record_count = 0
        self._by_id: dict[str, StateRecord] = {}
        self._partition: dict[str, StateRecord] = {}  # of the one that is being read

    def take(self, read: Sequence[ReadStates]) -> Iterator[None]:
        """Take batches of one partition; at each yield the caller lets other tasks run."""
        for batch in read:
            for record in batch.records:
                self.record_count += 1
                self._partition[record.transactional_id] = record
                if self.record_count % RECORDS_PER_TURN == 0:
                    yield

    def end_partition(self) -> Iterator[None]:
        """Judge a partition that was read to its end against those before; yields as `take`."""
        taken, self._partition = self._partition, {}
        for count, record in enumerate(taken.values(), 1):
            known = self._by_id.get(record.transactional_id)
            if known is None or _is_newer(record, known):
                self._by_id[record.transactional_id] = record
            if count % RECORDS_PER_TURN == 0:
                yield

    def drop_partition(self) -> None:
        """Forget what was read of a partition that cannot be read to its end."""
        self._partition = {}

    def give(self, values: dict[str, TransactionValue]) -> Iterator[None]:
        """Give the record of each id that exists to `values`, and forget all; yields as `take`."""
        for count, transactional_id in enumerate(list(self._by_id), 1):
            value = self._by_id.pop(transactional_id).value
            if value is not None:
                values[transactional_id] = value
            if count % RECORDS_PER_TURN == 0:
                yield


def _is_newer(record: StateRecord, known: StateRecord) -> bool:
    one, other = record.value, known.value
    if one is not None and other is not None:
        own = (one.producer_id, one.producer_epoch, record.timestamp_ms)
        return own > (other.producer_id, other.producer_epoch, known.timestamp_ms)
    return record.timestamp_ms > known.timestamp_ms
