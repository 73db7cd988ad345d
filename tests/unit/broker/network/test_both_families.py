"""A listener on `[::]` has clients of both families: those of IPv4 have their IPv4 address."""

import asyncio
import signal
import socket
from pathlib import Path

import pytest

from broker.lifecycle.environment import system_environment
from broker.lifecycle.shutdown import EXIT_CLEAN
from broker.server import Broker
from client.kafka.connection import BrokerError, Connection
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.support.whole_broker import loaded, port_of, served


def has_both() -> bool:
    try:
        with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True):
            return True
    except (OSError, ValueError):
        return False


@pytest.mark.skipif(not has_both(), reason="this machine has no sockets for both families")
async def test_a_client_of_ipv4_on_a_socket_for_both(tmp_path: Path) -> None:
    settings = (
        "listeners=PLAINTEXT://[::]:0",
        "max.connections.per.ip.overrides=127.0.0.1:1",
    )
    broker = Broker(loaded(tmp_path / "data", *settings), system_environment())
    task = await served(broker)

    def asked_by_the_only_one() -> MetadataResponse:
        address = f"127.0.0.1:{port_of(broker)}"
        with Connection(address, 10) as connection:
            with pytest.raises(BrokerError), Connection(address, 10):
                pass
            found = connection.call(MetadataRequest(topics=[]), MetadataResponse)
            assert isinstance(found, MetadataResponse)
            return found

    found = await asyncio.to_thread(asked_by_the_only_one)
    assert [one.host for one in found.brokers] == ["127.0.0.1"]
    broker._signals.received(signal.SIGTERM)
    assert await task == EXIT_CLEAN
