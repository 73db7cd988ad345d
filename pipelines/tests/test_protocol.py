"""Messages byte by byte; whatever bytes a response has, BrokerRefused is the only error."""

from __future__ import annotations

import random

import pytest

from pyspark_barnabas.wire import protocol
from pyspark_barnabas.wire.errors import BrokerRefused
from pyspark_barnabas.wire.primitives import parse

READERS = [
    protocol.read_api_versions,
    protocol.read_metadata,
    protocol.read_list_offsets,
    protocol.read_fetch,
    protocol.read_produce,
    protocol.read_init_producer_id,
    protocol.read_describe_producers,
]


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_garbage_does_not_parse(read):
    dice = random.Random(1)
    refused = 0
    for _ in range(500):
        size = dice.randrange(60)
        data = bytearray(dice.choice([dice.randbytes(size), bytes(size), b"\xff" * size]))
        try:
            parse(read, data)
        except BrokerRefused as error:
            assert f"answer of {size} bytes does not parse" in str(error)  # noqa: PT017
            refused += 1
    assert refused > 50


def test_a_request_byte_by_byte():
    """Header version 1: size, key, version, correlation id, client id; then the body."""
    whole = protocol.request(protocol.METADATA, 7, "me", protocol.metadata_request(["t"]))
    assert whole.hex(" ") == (
        f"00 00 00 25 00 03 00 0a 00 00 00 07 00 02 6d 65 00 02{' 00' * 16} 02 74 00 00 00 00 00"
    )
    whole = protocol.request(protocol.LIST_GROUPS, 7, "me", b"")
    assert whole.hex(" ") == "00 00 00 0c 00 10 00 02 00 00 00 07 00 02 6d 65"


def test_a_request_for_several_partitions_byte_by_byte():
    body = protocol.describe_producers_request([("t", 1)])
    whole = protocol.request(protocol.DESCRIBE_PRODUCERS, 7, "me", body)
    assert whole.hex(" ") == (
        "00 00 00 17 00 3d 00 00 00 00 00 07 00 02 6d 65 00 02 02 74 02 00 00 00 01 00 00"
    )
