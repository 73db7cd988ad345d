"""How many connections a second are accepted: by the broker, a listener and a client address.

Rates are measured over the windows of quotas, so a burst of all windows passes at once (KIP-612).

- Above `max.connection.creation.rate`, of the broker or of the listener, the acceptor waits before
  it takes the next connection, at most for one window. Connections wait in the system's queue.
- Above the quota of its address (`connection_creation_rate`) a connection is not served: it is kept
  for the throttle time, at most one window, and then closed. It does not count. So a client that
  knows no patience gains nothing by coming back at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker.quotas.sensors import Sensors
from broker.quotas.windowed_rate import WindowedRate, Windows
from broker.runtime.clock import MS_NS, Clock
from broker.runtime.metrics import Metrics

UNLIMITED: Final = 2**31 - 1  # the default of max.connection.creation.rate


class ConnectionRates:
    """The rates of new connections."""

    __slots__ = ("_addresses", "_by_address", "_clock", "_default", "_limits", "_rates", "_windows")

    def __init__(self, windows: Windows, clock: Clock, metrics: Metrics) -> None:
        self._windows = windows
        self._clock = clock
        self._rates: dict[str, WindowedRate] = {}  # by listener, the broker's as ""
        self._limits: dict[str, float] = {}  # of those that are limited
        self._by_address: dict[str, float] = {}
        self._default: float | None = None  # of other addresses
        self._addresses: Sensors[WindowedRate] = Sensors(lambda: WindowedRate(windows), metrics)

    def change(self, broker: int, listeners: Mapping[str, int]) -> None:
        """Use other rates, in connections a second; `listeners` holds those with their own."""
        limits = {"": broker, **listeners}
        self._limits = {name: rate for name, rate in limits.items() if rate < UNLIMITED}
        self._rates = {
            name: self._rates.get(name) or WindowedRate(self._windows) for name in self._limits
        }

    def set_address_rate(self, address: str | None, rate: float | None) -> None:
        """Set the rate of an address, or with None of all others; a rate of None removes it."""
        if address is None:
            self._default = rate
        elif rate is None:
            self._by_address.pop(address, None)
        else:
            self._by_address[address] = rate

    def wait_ms(self, listener: str) -> int:
        """Count a connection of a listener; return how long to wait before it is served."""
        if not self._limits:
            return 0
        now_ms = self._now_ms()
        wait_ms = 0
        for name in ("", listener):
            limit = self._limits.get(name)
            if limit is not None:
                wait_ms = max(wait_ms, self._counted(self._rates[name], limit, now_ms))
        return wait_ms

    def refusal_ms(self, address: str) -> int:
        """Count a connection of an address; return how long to keep it before it is closed.

        0 if it is to be served; otherwise it does not count.
        """
        if not self._by_address and self._default is None:
            return 0
        address = address.partition("%")[0]
        limit = self._by_address.get(address, self._default)
        if limit is None:
            return 0
        rate, now_ms = self._addresses.of((address,), limit), self._now_ms()
        refusal_ms = self._counted(rate, limit, now_ms)
        if refusal_ms:
            rate.record(-1, now_ms)
        return refusal_ms

    def expire(self) -> None:
        """Forget addresses that have not connected for as long as it counts."""
        if len(self._addresses):
            now_ms = self._now_ms()
            self._addresses.expire(lambda rate, _: rate.is_idle(now_ms))

    def _counted(self, rate: WindowedRate, limit: float, now_ms: int) -> int:
        rate.record(1, now_ms)
        if limit <= 0:  # Kafka divides by it
            return self._windows.window_ms
        return min(rate.throttle_ms(limit, now_ms), self._windows.window_ms)

    def _now_ms(self) -> int:
        return self._clock.monotonic_ns() // MS_NS
