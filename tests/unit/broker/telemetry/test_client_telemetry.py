"""Instance ids: Kafka's form, never reserved, never one that is taken."""

from broker.runtime.clock import ManualClock
from broker.runtime.metrics import Metrics
from broker.telemetry.client_telemetry import CLIENT_ID_MAX, EXPIRY_NS, ClientTelemetry
from protocol.errors import ErrorCode
from protocol.wire import ZERO_UUID
from storage.files.text_files import uuid_text
from tests.support.fake_connection import FakeConnection


def made(*drawn: bytes) -> tuple[ClientTelemetry, ManualClock, Metrics]:
    left = list(drawn)
    clock, metrics = ManualClock(), Metrics()
    telemetry = ClientTelemetry(list, (), clock, lambda _: left.pop(0), metrics)
    return telemetry, clock, metrics


def test_an_id_begins_with_no_dash_and_is_new() -> None:
    dash, taken, free = bytes([0xF8] * 16), bytes([1] * 16), bytes([2] * 16)
    telemetry, _, _ = made(taken, dash, taken, free)
    info = FakeConnection().info
    ids = []
    for _ in range(2):
        error, instance = telemetry.ask(ZERO_UUID, None, info)
        assert error == ErrorCode.NONE
        ids.append(uuid_text(instance.instance_id))
    assert ids[0] != ids[1]
    assert "-" not in (ids[0][0], ids[1][0])


def test_of_a_long_client_id_its_beginning_is_kept() -> None:
    """Instances are 16,384, and a client id may have 32 KiB."""
    telemetry, _, _ = made(bytes([1] * 16))
    _, instance = telemetry.ask(ZERO_UUID, "c" * 32_767, FakeConnection().info)
    assert instance.attributes["client_id"] == "c" * CLIENT_ID_MAX


def test_old_instances_are_looked_for_every_so_often() -> None:
    telemetry, clock, metrics = made(bytes([1] * 16))
    connection = FakeConnection()
    telemetry.ask(ZERO_UUID, None, connection.info)
    connection.info.has_ended = True
    clock.advance(EXPIRY_NS // 1_000_000 - 1)
    telemetry.expire()
    assert metrics.client_instances_now == 1
    clock.advance(1)
    telemetry.expire()
    assert metrics.client_instances_now == 0
