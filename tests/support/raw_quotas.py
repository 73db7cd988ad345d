"""Quotas set by bytes written by hand, for tests that do not import the product."""

import struct

from tests.support.raw_client import RawClient, array, int8, string

ALTER_CLIENT_QUOTAS = 49


def limit_produced(admin: RawClient, client_id: str, bytes_per_second: float) -> None:
    """Limit what all clients of that id together produce."""
    entity = array(string("client-id") + string(client_id))
    op = string("producer_byte_rate") + struct.pack(">d", bytes_per_second) + int8(False)
    answer = admin.call(ALTER_CLIENT_QUOTAS, 0, array(entity + array(op)) + int8(False))
    answer.take(8)  # the throttle time, and one entry
    assert answer.number(2) == 0
