"""Clients over a quota that leave: their connections end, however long the throttle time is."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.raw_batches import batch
from tests.support.raw_client import RawClient
from tests.support.raw_quotas import limit_produced

TOPIC = "throttled"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data") as running:
        yield running
        assert running.stop() == 0


def test_clients_that_leave_while_they_are_throttled_are_let_go(broker: BrokerProcess) -> None:
    with RawClient(broker.host, broker.port) as admin:
        assert admin.create_topic(TOPIC) == 0
        limit_produced(admin, "raw", bytes_per_second=1.0)
        held = broker.descriptor_count()
        for _ in range(20):
            with RawClient(broker.host, broker.port) as client:
                assert client.produce(TOPIC, batch([bytes(10_000)])).error == 0
        end = time.monotonic() + 60
        while broker.descriptor_count() >= held + 20:
            assert time.monotonic() < end, "their sockets stay open"
            time.sleep(0.1)
