"""EndTxn, API key 26, versions 0 to 5: commit or abort a transaction.

Version notes
- 0 and 1 differ only in that a throttled answer is sent before the pause from 1 on. 2:
  PRODUCER_FENCED may be answered (KIP-588). 3: flexible.
- 4: TRANSACTION_ABORTABLE may be answered (KIP-890).
- 5: the epoch rises with every transaction; the answer has the producer id and epoch for the next
  one (KIP-890).

Source: EndTxnRequest.json and EndTxnResponse.json, Apache Kafka 4.3.
"""

from typing import Annotated

from protocol.wire import Bool, Int16, Int32, Int64, Since, String, message, structure


@message(api_key=26, kind="request", versions=(0, 5), flexible_since=3)
@structure
class EndTxnRequest:
    """The transaction, and whether it is committed; if not, it is aborted."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    committed: Bool


@message(api_key=26, kind="response", versions=(0, 5), flexible_since=3)
@structure
class EndTxnResponse:
    """The outcome; the ids of the next transaction are -1 with an error."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Annotated[Int64, Since(5)] = -1
    producer_epoch: Annotated[Int16, Since(5)] = -1
