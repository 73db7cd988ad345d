"""InitProducerId, API key 22, versions 0 to 5: an identity for an idempotent producer.

Version notes
- 0 and 1 differ only in that a throttled answer is sent before the pause from 1 on. 2: flexible.
- 3: the producer may name the id and epoch it had, to go on after an error (KIP-360).
- 4: PRODUCER_FENCED may be answered (KIP-588). 5: TRANSACTION_ABORTABLE may be (KIP-890).
- `by_operator` is Barnabas's own, with a tag that Kafka does not use: its brokers skip it.
- 6, for two-phase commit (KIP-939), is not stable in Apache Kafka 4.3 and is not declared here.

Source: InitProducerIdRequest.json and InitProducerIdResponse.json, Apache Kafka 4.3.
"""

from typing import Annotated

from protocol.wire import (
    OWN_TAG,
    Bool,
    Int16,
    Int32,
    Int64,
    Nullable,
    Since,
    String,
    Tag,
    message,
    structure,
)


@message(api_key=22, kind="request", versions=(0, 5), flexible_since=2)
@structure
class InitProducerIdRequest:
    """A request for a producer id; null `transactional_id`, the usual case: idempotent only.

    The schema's default for `transactional_id` is the empty string, which brokers refuse.
    `by_operator`: it is sent to end a transaction, not by the id's next producer.
    """

    transactional_id: Annotated[String | None, Nullable()] = ""
    transaction_timeout_ms: Int32
    producer_id: Annotated[Int64, Since(3)] = -1
    producer_epoch: Annotated[Int16, Since(3)] = -1
    by_operator: Annotated[Bool, Tag(OWN_TAG, since=2)] = False


@message(api_key=22, kind="response", versions=(0, 5), flexible_since=2)
@structure
class InitProducerIdResponse:
    """The producer id and epoch to use; -1 with an error."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
