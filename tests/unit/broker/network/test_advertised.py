"""The endpoints that clients connect to."""

import pytest

from broker.network.advertised import Advertised
from broker.runtime.request import ConnectionInfo
from config.listeners import Listener
from tests.support.fake_connection import NO_DIALECT

LOOPBACK = Listener("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092)
ANY_PORT = Listener("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 0)
WILDCARD = Listener("PLAINTEXT", "PLAINTEXT", "", 9092)
WILDCARD_6 = Listener("PLAINTEXT", "PLAINTEXT", "::", 9092)
TOLD = Listener("PLAINTEXT", "PLAINTEXT", "kafka.example", 19092)
TOLD_ANY_PORT = Listener("PLAINTEXT", "PLAINTEXT", "kafka.example", 0)


@pytest.mark.parametrize(
    ("listener", "told", "expected"),
    [
        (LOOPBACK, None, ("127.0.0.1", 9092)),
        (ANY_PORT, None, ("127.0.0.1", 40001)),
        (WILDCARD, None, ("10.1.2.3", 9092)),
        (WILDCARD_6, None, ("10.1.2.3", 9092)),
        (WILDCARD, TOLD, ("kafka.example", 19092)),
        (ANY_PORT, TOLD_ANY_PORT, ("kafka.example", 40001)),
    ],
)
def test_endpoint(listener: Listener, told: Listener | None, expected: tuple[str, int]) -> None:
    advertised = Advertised(
        [(listener, listener.port or 40001)], {} if told is None else {told.name: told}
    )
    info = ConnectionInfo(listener, NO_DIALECT, ("10.1.2.3", 9092), ("10.9.9.9", 50000))
    assert advertised.endpoint(info) == expected


def test_each_listener_has_its_own_endpoint() -> None:
    inside = Listener("INSIDE", "PLAINTEXT", "10.0.0.5", 29092)
    advertised = Advertised([(LOOPBACK, 9092), (inside, 29092)], {"PLAINTEXT": TOLD})
    info = ConnectionInfo(inside, NO_DIALECT, ("10.0.0.5", 29092), ("10.9.9.9", 50000))
    assert advertised.endpoint(info) == ("10.0.0.5", 29092)
