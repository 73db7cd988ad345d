"""AddOffsetsToTxn, API key 25, versions 0 to 4: a group's offsets join a transaction.

Version notes
- 0 and 1 differ only in that a throttled answer is sent before the pause from 1 on. 2:
  PRODUCER_FENCED may be answered (KIP-588). 3: flexible.
- 4: TRANSACTION_ABORTABLE may be answered (KIP-890).

Source: AddOffsetsToTxnRequest.json and AddOffsetsToTxnResponse.json, Apache Kafka 4.3.
"""

from protocol.wire import Int16, Int32, Int64, String, message, structure


@message(api_key=25, kind="request", versions=(0, 4), flexible_since=3)
@structure
class AddOffsetsToTxnRequest:
    """The transaction, and the group whose partition of `__consumer_offsets` joins it."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    group_id: String


@message(api_key=25, kind="response", versions=(0, 4), flexible_since=3)
@structure
class AddOffsetsToTxnResponse:
    """The outcome."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
