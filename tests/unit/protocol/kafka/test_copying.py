"""Over TLS records are copied, and one answer copies no more than a bound."""

import pytest

from broker.handlers import HANDLERS
from protocol.api_keys import ApiKey
from protocol.kafka.codec import encode_message
from protocol.kafka.copying import COPIED_BYTES_MAX, CopyingKafkaDialect
from protocol.kafka.dialect import KafkaDialect
from protocol.messages.fetch import FetchRequest
from protocol.messages.metadata import MetadataRequest
from tests.support.raw_client import header

SERVED = {int(row.api_key): row for row in HANDLERS}


def fetch(max_bytes: int) -> memoryview:
    body = encode_message(FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=max_bytes), 4)
    return memoryview(bytearray(header(ApiKey.FETCH, 4) + body))


@pytest.mark.parametrize("asked", [1, COPIED_BYTES_MAX, COPIED_BYTES_MAX + 1, (1 << 31) - 1])
def test_a_fetch_is_bounded(asked):
    decoded = CopyingKafkaDialect(SERVED).decode_request(fetch(asked))
    assert decoded.header.copies_records
    assert decoded.body.max_bytes == min(asked, COPIED_BYTES_MAX)


def test_a_plain_one_is_as_it_was():
    decoded = KafkaDialect(SERVED).decode_request(fetch((1 << 31) - 1))
    assert not decoded.header.copies_records
    assert decoded.body.max_bytes == (1 << 31) - 1


def test_other_requests_pass():
    frame = header(ApiKey.METADATA, 1) + encode_message(MetadataRequest(topics=[]), 1)
    decoded = CopyingKafkaDialect(SERVED).decode_request(memoryview(bytearray(frame)))
    assert decoded.body.topics == []
