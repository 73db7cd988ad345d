"""Our own tagged fields: they arrive, and programs that do not know them skip them."""

from __future__ import annotations

import dataclasses

from protocol.kafka.codec import decode_message, encode_message
from protocol.messages.describe_transactions import (
    DescribeTransactionsResponse,
    LastEnd,
    TransactionState,
)
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.wire import OWN_TAG
from tests.support.message_fields import api_messages, fields_of


def test_they_have_one_number_which_no_field_of_kafka_comes_near():
    tags = {
        field.tag for cls in api_messages() for field in fields_of(cls) if field.tag is not None
    }
    assert max(tags - {OWN_TAG}) < 100


def test_how_a_transaction_ended_arrives():
    ended = LastEnd(committed=False, reason="timeout", time_ms=1_700_000_000_000)
    answer = DescribeTransactionsResponse(
        transaction_states=[TransactionState(transactional_id="t", last_end=ended)]
    )
    data = encode_message(answer, 0)
    assert decode_message(DescribeTransactionsResponse, 0, data)[0] == answer
    (state,) = answer.transaction_states
    state.last_end = None
    assert len(encode_message(answer, 0)) < len(data)


def test_without_them_a_request_has_no_tagged_fields():
    ours = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1)
    plain = encode_message(ours, 5)
    assert plain[-1] == 0
    told = encode_message(dataclasses.replace(ours, by_operator=True), 5)
    # One field: its tag, the size of its value, and the value.
    assert told == plain[:-1] + bytes([1, 0x90, 0x4E, 1, 1])
