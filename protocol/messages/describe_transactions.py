"""DescribeTransactions, API key 65, version 0: the coordinator's state of transactional ids.

`last_end` is Barnabas's own: a tagged field with a tag that Kafka does not use, which its clients
skip.

Source: DescribeTransactionsRequest.json and DescribeTransactionsResponse.json, Apache Kafka 4.3
(KIP-664).
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import OWN_TAG, Bool, Int16, Int32, Int64, String, Tag, message, structure


@message(api_key=65, kind="request", versions=(0, 0), flexible_since=0)
@structure
class DescribeTransactionsRequest:
    """Transactional ids to describe."""

    transactional_ids: list[String] = field(default_factory=list)


@structure
class TopicData:
    """Partitions of one topic that are in the transaction."""

    topic: String
    partitions: list[Int32] = field(default_factory=list)


@structure
class LastEnd:
    """How a transactional id's last transaction ended, and why.

    `reason`: "client" (EndTxn), "timeout", "fenced" (a newer producer), "operator", or "recovered"
    (a start found the decision). `time_ms`, since 1970, is when that was decided.
    """

    committed: Bool = False
    reason: String = ""
    time_ms: Int64 = 0


@structure
class TransactionState:
    """One transactional id; `transaction_start_time_ms` is -1 when nothing is open.

    While a transaction is being ended, `topics` has the partitions whose markers are missing.
    `last_end` is None if none has ended since the broker started.
    """

    error_code: Int16 = 0
    transactional_id: String
    transaction_state: String = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: list[TopicData] = field(default_factory=list)
    last_end: Annotated[LastEnd | None, Tag(OWN_TAG, since=0)] = None


@message(api_key=65, kind="response", versions=(0, 0), flexible_since=0)
@structure
class DescribeTransactionsResponse:
    """A state or an error for every id of the request."""

    throttle_time_ms: Int32 = 0
    transaction_states: list[TransactionState] = field(default_factory=list)
