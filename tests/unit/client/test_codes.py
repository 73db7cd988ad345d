"""Error codes: Kafka's names for known codes, numbers for the others."""

from __future__ import annotations

from client.codes import code_of, code_text
from protocol.errors import ErrorCode


def test_codes_have_kafkas_names():
    assert code_of(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code_text(3).startswith("UNKNOWN_TOPIC_OR_PARTITION (3): ")
    assert code_text(3, "its own words") == "UNKNOWN_TOPIC_OR_PARTITION (3): its own words"


def test_a_code_of_a_newer_broker_keeps_its_number():
    assert code_of(31_999) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert code_text(31_999) == "error 31999: unknown to this client"
    assert code_text(31_999, "its own words") == "error 31999: its own words"
