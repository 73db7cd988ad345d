"""Strangers can ask every API in every version, in both dialects."""

from __future__ import annotations

import random

import pytest

from broker.handlers import HANDLERS, Handler
from protocol.kafka.codec import decode_message, encode_message
from protocol.kafka.schema import read_layout
from tests.simulation.clients.describers import drawn
from tests.simulation.clients.wire import map_encoder_of


@pytest.mark.parametrize("handler", HANDLERS, ids=lambda handler: handler.name)
def test_what_is_drawn_can_be_sent(handler: Handler) -> None:
    rng = random.Random(1)
    for version in range(handler.min_version, handler.max_version + 1):
        for _ in range(20):
            body = drawn(read_layout(handler.request, version), rng)
            data = encode_message(body, version)
            again, end = decode_message(handler.request, version, data)
            assert end == len(data)
            assert encode_message(again, version) == data
            if version == handler.max_version:
                map_encoder_of(handler)(body)
