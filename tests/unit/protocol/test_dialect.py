"""The classes that dialects share; tests/unit/protocol/kafka tests the Kafka dialect."""

import pytest

from protocol.dialect import DecodedRequest, RequestHeader
from protocol.messages.produce import ProduceRequest


def test_a_header_accepts_no_other_attributes() -> None:
    header = RequestHeader(0, 9, 77, None)
    assert header == RequestHeader(api_key=0, api_version=9, correlation_id=77, client_id=None)
    with pytest.raises(AttributeError):
        header.listener = "x"  # type: ignore[attr-defined]


def test_a_request_holds_header_and_body() -> None:
    header, body = RequestHeader(0, 9, 77, "c"), ProduceRequest(acks=1, timeout_ms=0)
    decoded = DecodedRequest(header, body)
    assert decoded.header is header
    assert decoded.body is body
