"""AddPartitionsToTxn, API key 24, versions 0 to 5: partitions join a transaction.

Version notes
- 0 and 1 differ only in that a throttled answer is sent before the pause from 1 on. 2:
  PRODUCER_FENCED may be answered (KIP-588). 3: flexible.
- Clients use 0 to 3, one transaction a request, in the fields whose names begin with
  `v3_and_below`. Brokers use 4 and 5: many transactions, and `verify_only` (KIP-890).
- 5: TRANSACTION_ABORTABLE may be answered (KIP-890).

Source: AddPartitionsToTxnRequest.json and AddPartitionsToTxnResponse.json, Apache Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import Bool, Int16, Int32, Int64, Since, String, Until, message, structure


@structure
class AddPartitionsToTxnTopic:
    """Partitions of one topic."""

    name: String
    partitions: list[Int32] = field(default_factory=list)


@structure
class AddPartitionsToTxnTransaction:
    """Partitions to add to one transaction; with `verify_only`, to look for in it."""

    transactional_id: Annotated[String, Since(4)]
    producer_id: Annotated[Int64, Since(4)]
    producer_epoch: Annotated[Int16, Since(4)]
    verify_only: Annotated[Bool, Since(4)] = False
    topics: Annotated[list[AddPartitionsToTxnTopic], Since(4)] = field(default_factory=list)


@message(api_key=24, kind="request", versions=(0, 5), flexible_since=3)
@structure
class AddPartitionsToTxnRequest:
    """One transaction up to version 3; `transactions` from 4 on."""

    transactions: Annotated[list[AddPartitionsToTxnTransaction], Since(4)] = field(
        default_factory=list
    )
    v3_and_below_transactional_id: Annotated[String, Until(3)] = ""
    v3_and_below_producer_id: Annotated[Int64, Until(3)] = 0
    v3_and_below_producer_epoch: Annotated[Int16, Until(3)] = 0
    v3_and_below_topics: Annotated[list[AddPartitionsToTxnTopic], Until(3)] = field(
        default_factory=list
    )


@structure
class AddPartitionsToTxnPartitionResult:
    """The outcome for one partition."""

    partition_index: Int32
    partition_error_code: Int16 = 0


@structure
class AddPartitionsToTxnTopicResult:
    """The outcome for partitions of one topic."""

    name: String
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(default_factory=list)


@structure
class AddPartitionsToTxnResult:
    """The outcome for one transaction."""

    transactional_id: Annotated[String, Since(4)]
    topic_results: Annotated[list[AddPartitionsToTxnTopicResult], Since(4)] = field(
        default_factory=list
    )


@message(api_key=24, kind="response", versions=(0, 5), flexible_since=3)
@structure
class AddPartitionsToTxnResponse:
    """A result for every partition; `error_code`, from version 4 on, is for the whole request."""

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Since(4)] = 0
    results_by_transaction: Annotated[list[AddPartitionsToTxnResult], Since(4)] = field(
        default_factory=list
    )
    results_by_topic_v3_and_below: Annotated[list[AddPartitionsToTxnTopicResult], Until(3)] = field(
        default_factory=list
    )
