"""How much each client has used, for as long as that matters.

A sensor belongs to the clients that share a quota. One in which nothing counts any more is like
none, and goes; so the sensors are those of clients that were active in the last windows. A client
may still name itself anew with each request, so their number has a bound, above which the one that
was used longest ago goes. Long names are kept as digests: the memory of a sensor has a bound, too.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Final, Generic, TypeVar

from broker.runtime.metrics import Metrics

SENSORS_MAX: Final = 20_000  # of one quota key
NAME_CHARACTERS_MAX: Final = 64
EXPIRED_PER_SWEEP_MAX: Final = 2_000

Names = tuple[str | None, ...]
S = TypeVar("S")


class Sensors(Generic[S]):
    """The sensors of one quota key."""

    __slots__ = ("_held", "_make", "_metrics")

    def __init__(self, make: Callable[[], S], metrics: Metrics) -> None:
        self._make = make
        self._metrics = metrics
        # In the order of their last use, each with the limit that it was last used with.
        self._held: dict[Names, tuple[S, float]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def of(self, names: Names, limit: float) -> S:
        """Return the sensor of the clients that share a quota, and note that it is used."""
        held = self._held
        key = tuple(map(_short, names))
        found = held.pop(key, None)
        if found is not None:
            sensor = found[0]
        else:
            if len(held) >= SENSORS_MAX:
                self._metrics.quota_sensors_displaced += 1
                del held[next(iter(held))]
            else:
                self._metrics.quota_sensors_now += 1
            sensor = self._make()
        held[key] = (sensor, limit)
        return sensor

    def expire(self, is_idle: Callable[[S, float], bool]) -> None:
        """Drop sensors in which nothing counts any more, some of many in one turn of the loop."""
        held = self._held
        idle = []
        for count, (key, (sensor, limit)) in enumerate(held.items()):
            if count == EXPIRED_PER_SWEEP_MAX:
                break
            if is_idle(sensor, limit):
                idle.append(key)
        for key in idle:
            del held[key]
        self._metrics.quota_sensors_now -= len(idle)

    def clear(self) -> None:
        """Drop all: no client has such a quota any more."""
        self._metrics.quota_sensors_now -= len(self._held)
        self._held.clear()


def _short(name: str | None) -> str | None:
    if name is None or len(name) <= NAME_CHARACTERS_MAX:
        return name
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest() + "+"
