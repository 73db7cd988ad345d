"""Client instances: their intervals, and when they end."""

import pytest

from broker.runtime.clock import ManualClock
from broker.runtime.metrics import Metrics
from broker.telemetry import client_instances
from broker.telemetry.client_instances import ClientInstance, ClientInstances
from broker.telemetry.metric_subscriptions import Wanted
from protocol.errors import ErrorCode
from tests.support.fake_connection import FakeConnection

SECOND = 1_000_000_000


def made(number: int = 1, interval_ms: int = 1_000) -> ClientInstance:
    info = FakeConnection().info
    return ClientInstance(number.to_bytes(16, "big"), info, {}, Wanted((), interval_ms), 0)


def test_asking_waits_for_the_interval() -> None:
    one = made()
    assert one.may_ask(0)
    assert not one.may_ask(SECOND - 1)
    assert one.may_ask(SECOND)
    assert one.may_push(SECOND + 1)
    assert not one.may_ask(2 * SECOND)
    assert one.may_ask(2 * SECOND + 1)


@pytest.mark.parametrize(
    ("error", "may"),
    [
        (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, True),
        (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, True),
        (ErrorCode.TELEMETRY_TOO_LARGE, False),
        (ErrorCode.INVALID_RECORD, False),
    ],
)
def test_what_asking_removes_may_be_asked_at_once(error: ErrorCode, *, may: bool) -> None:
    one = made()
    assert one.may_ask(5)
    one.last_error = error
    assert one.may_ask(6) is may
    assert one.asked_ns == 5


def test_a_push_comes_after_asking_or_after_the_interval() -> None:
    one = made()
    assert one.may_push(0)
    assert not one.may_push(SECOND - 1)
    assert one.may_push(SECOND)
    assert one.may_ask(2 * SECOND)
    assert one.may_push(2 * SECOND + 1)
    assert not one.may_push(2 * SECOND + 2)


def test_an_instance_ends_with_its_connection_or_its_time() -> None:
    clock, metrics = ManualClock(), Metrics()
    instances = ClientInstances(clock, metrics)
    short, long, gone = made(1), made(2, 300_000), made(3)
    for one in (short, long, gone):
        instances.heard(one)
    assert metrics.client_instances_now == 3
    gone.info.has_ended = True
    assert instances.get(gone.instance_id) is None
    assert metrics.client_instances_now == 2
    clock.advance(59_999)
    instances.expire()
    assert instances.get(short.instance_id) is short
    clock.advance(1)
    instances.expire()
    assert instances.get(short.instance_id) is None
    assert instances.get(long.instance_id) is long
    long.info.has_ended = True
    instances.expire()
    assert metrics.client_instances_now == 0


def test_the_one_unheard_of_for_longest_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_instances, "INSTANCES_MAX", 2)
    metrics = Metrics()
    instances = ClientInstances(ManualClock(), metrics)
    first, second, third = made(1), made(2), made(3)
    for one in (first, second, first, third):
        instances.heard(one)
    assert instances.get(second.instance_id) is None
    assert instances.get(first.instance_id) is first
    assert (metrics.client_instances_now, metrics.client_instances_displaced) == (2, 1)
