"""GetTelemetrySubscriptions: the id of a client, and what it is asked for."""

import pytest

from broker.telemetry.client_telemetry import ONE_UUID
from config.telemetry_keys import DEFAULT_METRICS
from protocol.compression import GZIP, LZ4, SNAPPY, ZSTD
from protocol.errors import ErrorCode
from protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from protocol.wire import ZERO_UUID
from tests.support.broker_rig import Rig
from tests.support.fake_connection import FakeConnection
from tests.support.rig_client import ask
from tests.support.telemetry_client import TelemetryClient, subscribe

THROTTLED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


@pytest.fixture
def client(rig: Rig) -> TelemetryClient:
    return TelemetryClient(rig)


async def test_a_client_gets_an_id_and_the_default_subscription(client: TelemetryClient) -> None:
    answer = await client.ask()
    assert answer.error_code == 0
    assert answer.client_instance_id not in (ZERO_UUID, ONE_UUID)
    assert answer.client_instance_id[6] >> 4 == 4
    assert answer.accepted_compression_types == [ZSTD, LZ4, GZIP, SNAPPY]
    assert answer.push_interval_ms == 60_000
    assert answer.telemetry_max_bytes == 1 << 20
    assert answer.delta_temporality
    assert answer.requested_metrics == sorted(DEFAULT_METRICS)


async def test_a_subscription_replaces_the_default_at_once_and_goes(
    rig: Rig, client: TelemetryClient
) -> None:
    await client.ask()
    assert await subscribe(rig, metrics="a.,b.", interval_ms="100") == [None]
    assert await client.push() == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    answer = await client.ask()  # before the interval is over
    assert (answer.requested_metrics, answer.push_interval_ms) == (["a.", "b."], 100)
    assert await client.push() == THROTTLED  # as in Kafka, which kept the time of the push before
    client.clock.advance(100)
    assert await client.push() == 0
    assert await subscribe(rig, metrics=None, interval_ms=None) == [None]
    answer = await client.ask()
    assert answer.requested_metrics == sorted(DEFAULT_METRICS)
    refused = await subscribe(rig, match="client_id=(?!a)a")
    assert refused[0].code == ErrorCode.INVALID_CONFIG


async def test_a_new_connection_begins_a_new_instance(client: TelemetryClient) -> None:
    await client.ask()
    client.connection.info.has_ended = True
    client.connection = FakeConnection()
    assert (await client.ask()).error_code == 0


async def test_a_client_of_the_wire_is_answered(rig: Rig) -> None:
    assert (await ask(rig, GetTelemetrySubscriptionsRequest(), 0)).error_code == 0
