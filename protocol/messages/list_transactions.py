"""ListTransactions, API key 66, versions 0 to 2: the transactional ids of a coordinator.

Version notes
- 1: `duration_filter` (KIP-994). 2: `transactional_id_pattern`; INVALID_REGULAR_EXPRESSION may be
  answered (KIP-1152).

Source: ListTransactionsRequest.json and ListTransactionsResponse.json, Apache Kafka 4.3 (KIP-664).
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import Int16, Int32, Int64, Nullable, Since, String, message, structure


@message(api_key=66, kind="request", versions=(0, 2), flexible_since=0)
@structure
class ListTransactionsRequest:
    """Filters, which must all hold; an empty list, -1, and an empty or null pattern let all pass.

    `duration_filter` is in milliseconds: transactions that have been running for longer.
    """

    state_filters: list[String] = field(default_factory=list)
    producer_id_filters: list[Int64] = field(default_factory=list)
    duration_filter: Annotated[Int64, Since(1)] = -1
    transactional_id_pattern: Annotated[String | None, Since(2), Nullable(since=2)] = None


@structure
class TransactionState:
    """One transactional id."""

    transactional_id: String
    producer_id: Int64
    transaction_state: String


@message(api_key=66, kind="response", versions=(0, 2), flexible_since=0)
@structure
class ListTransactionsResponse:
    """The ids that pass the filters, and the filters of states that do not exist."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: list[String] = field(default_factory=list)
    transaction_states: list[TransactionState] = field(default_factory=list)
