"""Limits on connections: `max.connections`, of a listener, per client address, and their rates.

A connection above a limit is closed as soon as it is accepted (KIP-402 defines the keys). The
broker's limit is for the connections of all listeners, a listener's own one for its own beside it.
The rates are in `broker.network.connection_rates`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from broker.network.connection_rates import ConnectionRates


class ConnectionLimits:
    """Counts connections against `max.connections` and `max.connections.per.ip`."""

    __slots__ = (
        "_by_address",
        "_by_listener",
        "_listeners",
        "_max",
        "_overrides",
        "_per_address_max",
        "count",
        "rates",
    )

    def __init__(
        self,
        connections_max: int,
        per_address_max: int,
        overrides: Mapping[str, int],
        rates: ConnectionRates | None = None,
    ) -> None:
        """Without `rates` the rate of new connections is not limited."""
        self.rates = rates
        self._by_address: Counter[str] = Counter()
        self._by_listener: Counter[str] = Counter()
        self.count = 0
        self.change(connections_max, per_address_max, overrides)

    def change(
        self,
        connections_max: int,
        per_address_max: int,
        overrides: Mapping[str, int],
        listeners: Mapping[str, int] | None = None,
    ) -> None:
        """Use other bounds for new connections; open ones stay."""
        self._max = connections_max
        self._per_address_max = per_address_max
        self._overrides = overrides  # max.connections.per.ip.overrides, by address
        self._listeners = listeners or {}  # those with a max.connections of their own

    def admit(self, address: str, listener: str = "") -> str | None:
        """Count a new connection from `address`, or return why it is refused."""
        if self.count >= self._max:
            return f"the broker already has the configured maximum of {self._max} connections"
        most = self._listeners.get(listener)
        if most is not None and self._by_listener[listener] >= most:
            return (
                f"the listener {listener} already has the configured maximum of {most} connections"
            )
        allowed = self._overrides.get(address, self._per_address_max)
        if self._by_address[address] >= allowed:
            return f"address already has the configured maximum of {allowed} connections"
        self.count += 1
        self._by_address[address] += 1
        self._by_listener[listener] += 1
        return None

    def expire(self) -> None:
        """Forget addresses whose connections count against no rate any more."""
        if self.rates is not None:
            self.rates.expire()

    def leave(self, address: str, listener: str = "") -> None:
        """Count a connection from `address` as ended."""
        self.count -= 1
        self._by_listener[listener] -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
