"""Transactions over the wire, for operators: list, describe, abort, and who holds an LSO back.

The coordinator knows transactional ids; the partitions know producer ids and where each one's open
transaction begins (DescribeProducers). Where the two disagree, a transaction hangs: no coordinator
will ever end it (KIP-664).

`TransactionState.last_end` is told by Barnabas alone: Kafka's answers have no field for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from client.codes import code_text
from client.kafka import admin, coordinators
from client.kafka.connection import BrokerError, Connection
from client.kafka.coordinators import ask_patiently
from client.kafka.transaction_requests import initialize
from client.places import Place
from client.suggest import did_you_mean
from client.transactions.epoch import Epoch
from client.transactions.errors import Again
from protocol.errors import ErrorCode
from protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from protocol.messages.find_coordinator import TRANSACTION

ONGOING: Final = "Ongoing"
_OPEN: Final = (ONGOING, "PrepareCommit", "PrepareAbort", "PrepareEpochFence")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTransaction:
    """A transactional id, its state, and its producer id."""

    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that is open in a partition, as the partition knows it.

    `last_ms` is when the producer wrote there last, in ms since 1970.
    """

    place: Place
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    first_offset: int
    last_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hanging:
    """An open transaction that no coordinator will end, and why not."""

    transaction: OpenTransaction
    transactional_id: str | None
    why: str


def list_transactions(
    connection: Connection,
    *,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    open_for_ms: int = -1,
    pattern: str | None = None,
) -> list[ListedTransaction]:
    """Return transactional ids that pass all filters, ordered. Raises BrokerError.

    `open_for_ms`: open for longer; `pattern`: an expression of RE2 that the whole id matches.
    """
    from protocol.messages.list_transactions import (
        ListTransactionsRequest,
        ListTransactionsResponse,
    )

    request = ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=open_for_ms,
        transactional_id_pattern=pattern,
    )
    oldest = 2 if pattern is not None else 1 if open_for_ms >= 0 else 0

    def ask() -> tuple[Any, int]:
        answer = connection.call(request, ListTransactionsResponse, version_min=oldest)
        return answer, answer.error_code

    answer = _patiently(connection, "", ask, "transactions cannot be listed")
    if answer.unknown_state_filters:
        raise BrokerError(
            f"the broker knows no state {', '.join(answer.unknown_state_filters)} of a transaction"
        )
    found = [
        ListedTransaction(
            transactional_id=one.transactional_id,
            producer_id=one.producer_id,
            state=one.transaction_state,
        )
        for one in answer.transaction_states
        # Kafka lets an id that has ended pass the filter: it goes by when the last one began.
        if open_for_ms < 0 or is_open(one.transaction_state)
    ]
    return sorted(found, key=lambda one: one.transactional_id)


def describe(connection: Connection, transactional_id: str) -> TransactionState:
    """Return an id's state. Raises BrokerError, with a suggestion, if it does not exist."""
    found = _described(connection, transactional_id)
    if found is not None:
        return found
    known = [one.transactional_id for one in list_transactions(connection)]
    hint = did_you_mean(transactional_id, known)
    if not hint:
        hint = "`barnabas transactions list` lists the ids." if known else "There are none."
    raise BrokerError(f"no transactional id {transactional_id!r} at {connection.address}. {hint}")


def _described(connection: Connection, transactional_id: str) -> TransactionState | None:
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])

    def ask() -> tuple[Any, int]:
        (found,) = connection.call(request, DescribeTransactionsResponse).transaction_states
        is_none = found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        return found, 0 if is_none else found.error_code

    failure = f"transactional id {transactional_id!r} cannot be described"
    found: TransactionState = _patiently(connection, transactional_id, ask, failure)
    return None if found.error_code else found


def describe_once(connection: Connection, transactional_id: str) -> TransactionState | None:
    """Return an id's state, None if the broker does not tell.

    One attempt, for a producer that wants to explain its error. Raises BrokerError.
    """
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    (found,) = connection.call(request, DescribeTransactionsResponse).transaction_states
    return None if found.error_code else found


def abort(
    connection: Connection,
    transactional_id: str,
    timeout_ms: int,
    *,
    wait: Callable[[float], None] = time.sleep,
) -> Epoch:
    """End an id's open transaction in all of its partitions; return the epoch after it.

    By InitProducerId, as Admin.forceTerminateTransaction: the producer is fenced. `timeout_ms` is
    the id's, which this request sets again. Raises BrokerError.
    """
    wanted = Epoch(transactional_id, -1, -1)
    trouble = ""
    for attempt in range(coordinators.TRIES):
        if attempt:
            wait(coordinators.RETRY_S)
        try:
            return initialize(connection, wanted, timeout_ms, by_operator=True)
        except Again as again:  # it is ending
            trouble = str(again)
    raise BrokerError(f"the transaction of {transactional_id!r} is not aborted yet: {trouble}")


def open_in(
    connection: Connection, partitions: Mapping[str, Iterable[int]]
) -> list[OpenTransaction]:
    """Return the transactions that are open in partitions, by partition and first offset."""
    from protocol.messages.describe_producers import (
        DescribeProducersRequest,
        DescribeProducersResponse,
        TopicRequest,
    )

    topics = [
        TopicRequest(name=name, partition_indexes=list(numbers))
        for name, numbers in partitions.items()
    ]
    answer = connection.call(DescribeProducersRequest(topics=topics), DescribeProducersResponse)
    found = []
    for topic in answer.topics:
        for partition in topic.partitions:
            place = Place(topic.name, partition.partition_index)
            if partition.error_code:
                why = code_text(partition.error_code, partition.error_message)
                raise BrokerError(f"producers of {place}: {why}")
            found += [
                OpenTransaction(
                    place=place,
                    producer_id=one.producer_id,
                    producer_epoch=one.producer_epoch,
                    coordinator_epoch=one.coordinator_epoch,
                    first_offset=one.current_txn_start_offset,
                    last_ms=one.last_timestamp,
                )
                for one in partition.active_producers
                if one.current_txn_start_offset >= 0
            ]
    return sorted(found, key=lambda one: (one.place, one.first_offset))


def stable_offsets(
    connection: Connection, partitions: Mapping[str, Iterable[int]]
) -> dict[Place, int]:
    """Return each partition's last stable offset: where read_committed consumers stop."""
    found = admin.offsets(connection, partitions, admin.LATEST, committed_only=True)
    return {Place(*place): offset for place, (offset, _) in found.items()}


def find_hanging(
    connection: Connection, partitions: Mapping[str, Iterable[int]], older_than_ms: int
) -> list[Hanging]:
    """Return the transactions without a write since `older_than_ms` that will never end.

    As Kafka's tool: the coordinator knows no id of the producer, or another producer under that
    id, or has nothing open in this partition. `older_than_ms` is in ms since 1970.
    """
    old = [one for one in open_in(connection, partitions) if one.last_ms < older_than_ms]
    if not old:
        return []
    producer_ids = sorted({one.producer_id for one in old})
    ids = {
        one.producer_id: one.transactional_id
        for one in list_transactions(connection, producer_ids=producer_ids)
    }
    states = {name: _described(connection, name) for name in ids.values()}
    hanging = []
    for one in old:
        name = ids.get(one.producer_id)
        why = _why_hanging(one, None if name is None else states[name])
        if why:
            hanging.append(Hanging(transaction=one, transactional_id=name, why=why))
    return hanging


def _why_hanging(one: OpenTransaction, state: TransactionState | None) -> str:
    """Return why the coordinator will not end a transaction, "" if it will."""
    if state is None:
        return "no transactional id has this producer id"
    if state.producer_id != one.producer_id:
        return f"its id has producer id {state.producer_id} now"
    places = {Place(topic.topic, number) for topic in state.topics for number in topic.partitions}
    if one.place not in places:
        return f"its id is {state.transaction_state}, without this partition"
    return ""


def is_open(state: str) -> bool:
    """Whether a transaction is open, or being ended."""
    return state in _OPEN


def _patiently(
    connection: Connection, transactional_id: str, ask: Callable[[], tuple[Any, int]], failure: str
) -> Any:
    """Repeat a request while the coordinator loads, or ends a transaction. Raises BrokerError."""
    coordinator = TRANSACTION, transactional_id
    return ask_patiently(connection, coordinator, ask, failure, lambda code: code.retriable)
