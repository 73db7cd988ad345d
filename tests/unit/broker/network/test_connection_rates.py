"""Rates of new connections, of the broker, its listeners and client addresses."""

from broker.network.connection_rates import UNLIMITED, ConnectionRates
from broker.quotas.windowed_rate import Windows
from broker.runtime.clock import ManualClock
from broker.runtime.metrics import Metrics


class Rig:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.metrics = Metrics()
        self.rates = ConnectionRates(Windows(11, 1_000), self.clock, self.metrics)


def test_without_limits_nothing_waits_and_nothing_is_remembered() -> None:
    rig = Rig()
    rig.rates.change(UNLIMITED, {})
    for number in range(1_000):
        assert rig.rates.wait_ms("A") == 0
        assert rig.rates.refusal_ms(f"10.0.0.{number}") == 0
    assert rig.metrics.quota_sensors_now == 0
    rig.rates.expire()


def test_a_listener_waits_for_its_own_rate_and_for_the_brokers() -> None:
    rig = Rig()
    rig.rates.change(10, {"A": 1})
    found = [rig.rates.wait_ms("A") for _ in range(12)]
    assert found == [0] * 10 + [1_000, 1_000]
    waits = [rig.rates.wait_ms("B") for _ in range(90)]
    assert waits[:88] == [0] * 88
    assert 0 < waits[88] <= 1_000
    rig.rates.change(UNLIMITED, {})
    assert rig.rates.wait_ms("A") == 0


def test_a_rate_of_zero_waits_for_a_window_each_time() -> None:
    rig = Rig()
    rig.rates.change(0, {})
    assert [rig.rates.wait_ms("A") for _ in range(2)] == [1_000, 1_000]


def test_an_address_has_its_rate_or_the_default_and_refused_ones_do_not_count() -> None:
    rig = Rig()
    rig.rates.set_address_rate(None, 1)
    rig.rates.set_address_rate("10.0.0.9", 2)
    for address, passes in (("10.0.0.1", 10), ("10.0.0.9", 20), ("fe80::1%eth0", 10)):
        found = [rig.rates.refusal_ms(address) for _ in range(passes + 50)]
        assert found[:passes] == [0] * passes
        assert all(0 < one <= 1_000 for one in found[passes:])
    rig.clock.advance(11_000)
    assert rig.rates.refusal_ms("10.0.0.1") == 0  # the refused ones would still count
    rig.rates.set_address_rate(None, None)
    assert [rig.rates.refusal_ms("10.0.0.1") for _ in range(20)] == [0] * 20
    rig.rates.set_address_rate("10.0.0.9", None)
    rig.rates.set_address_rate("10.0.0.9", None)
    assert rig.rates.refusal_ms("10.0.0.9") == 0
    rig.clock.advance(11_000)
    rig.rates.expire()
    assert rig.metrics.quota_sensors_now == 0
