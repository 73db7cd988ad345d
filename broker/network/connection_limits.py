"""Limits on the number of connections: `max.connections`, and per client address.

A connection above a limit is closed as soon as it is accepted (KIP-402 defines the keys).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping


class ConnectionLimits:
    """Counts connections against `max.connections` and `max.connections.per.ip`."""

    __slots__ = ("_by_address", "_max", "_overrides", "_per_address_max", "count")

    def __init__(
        self, connections_max: int, per_address_max: int, overrides: Mapping[str, int]
    ) -> None:
        self._by_address: Counter[str] = Counter()
        self.count = 0
        self.change(connections_max, per_address_max, overrides)

    def change(
        self, connections_max: int, per_address_max: int, overrides: Mapping[str, int]
    ) -> None:
        """Use other bounds for new connections; open ones stay."""
        self._max = connections_max
        self._per_address_max = per_address_max
        self._overrides = overrides  # max.connections.per.ip.overrides, by address

    def admit(self, address: str) -> str | None:
        """Count a new connection from `address`, or return why it is refused."""
        if self.count >= self._max:
            return f"the broker already has the configured maximum of {self._max} connections"
        allowed = self._overrides.get(address, self._per_address_max)
        if self._by_address[address] >= allowed:
            return f"address already has the configured maximum of {allowed} connections"
        self.count += 1
        self._by_address[address] += 1
        return None

    def leave(self, address: str) -> None:
        """Count a connection from `address` as ended."""
        self.count -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
