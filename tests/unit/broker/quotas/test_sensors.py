"""Sensors are shared and expire, and their number is bounded, whatever clients call themselves."""

import pytest

from broker.quotas import sensors as module
from broker.quotas.sensors import Sensors
from broker.runtime.metrics import Metrics


class Rig:
    def __init__(self) -> None:
        self.metrics = Metrics()
        self.sensors: Sensors[list[str]] = Sensors(list, self.metrics)

    def use(self, name: str, limit: float = 1.0) -> list[str]:
        return self.sensors.of((None, name), limit)


def test_the_same_names_have_the_same_sensor() -> None:
    rig = Rig()
    assert rig.use("a") is rig.use("a")
    assert rig.use("a") is not rig.use("b")
    assert rig.sensors.of(("a", None), 1.0) is not rig.use("a")
    assert rig.metrics.quota_sensors_now == len(rig.sensors) == 3


def test_idle_sensors_expire_by_the_limit_of_their_last_use() -> None:
    rig = Rig()
    for name in "abc":
        rig.use(name).append(name)
    rig.use("b", limit=9.0)
    seen = []
    rig.sensors.expire(lambda sensor, limit: bool(seen.append((sensor[0], limit)) or limit < 9))
    assert seen == [("a", 1.0), ("c", 1.0), ("b", 9.0)]
    assert rig.metrics.quota_sensors_now == len(rig.sensors) == 1
    rig.sensors.clear()
    assert rig.metrics.quota_sensors_now == 0


def test_above_the_bound_the_one_used_longest_ago_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SENSORS_MAX", 3)
    rig = Rig()
    kept = rig.use("a")
    for number in range(100):
        rig.use(f"client-{number}")
        assert rig.use("a") is kept
        assert len(rig.sensors) <= 3
    assert rig.metrics.quota_sensors_now == 3
    assert rig.metrics.quota_sensors_displaced == 98


def test_long_names_are_told_apart_and_not_kept() -> None:
    rig = Rig()
    assert rig.use("x" * 32_000) is not rig.use("x" * 31_999)
    assert rig.use("x" * 32_000) is rig.use("x" * 32_000)
    assert all(len(name or "") < 100 for names in rig.sensors._held for name in names)
    rig.use("\ud800" * 100)  # what no name should be
