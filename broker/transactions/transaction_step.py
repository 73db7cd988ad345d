"""A planned change of a transactional id: the fields that its next record will have.

The rules of an id plan it (broker/transactions/transaction.py), the coordinator writes its record,
and then the transaction takes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from broker.transactions.transaction_states import TransactionState
from protocol.transaction_records import NO_PRODUCER_ID

TV1: Final = 0  # Kafka writes 0 for requests of version 1 transactions
TV2: Final = 2


NOTHING_ADDED: Final[Mapping[str, Mapping[int, None]]] = MappingProxyType({})


class TransactionStep(NamedTuple):
    """The fields of a transaction after an operation; `added` are its new partitions, by topic."""

    state: TransactionState
    producer_id: int
    epoch: int
    last_epoch: int
    timeout_ms: int
    updated_ms: int
    started_ms: int
    next_producer_id: int = NO_PRODUCER_ID
    client_version: int = TV1
    added: Mapping[str, Mapping[int, None]] = NOTHING_ADDED
