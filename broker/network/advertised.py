"""Under which address clients are told to find this broker.

Metadata names the endpoint of the listener that was asked. `advertised.listeners` says it where
set; unset, it is the listener's own host, and for a listener on every address the local address
of the connection that asks, which is the one address known to work for that client. A listener
bound to port 0 is advertised with the port it got.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker.runtime.request import ConnectionInfo
from config.listeners import Listener


class Advertised:
    """Answers `host, port` for the connection that asks."""

    __slots__ = ("_by_name",)

    def __init__(
        self,
        bound: Iterable[tuple[Listener, int]],
        advertised: Mapping[str, Listener],
    ) -> None:
        self._by_name: dict[str, Listener] = {}
        for listener, port in bound:
            told = advertised.get(listener.name, listener)
            self._by_name[listener.name] = told._replace(port=told.port or port)

    def endpoint(self, info: ConnectionInfo) -> tuple[str, int]:
        """Return the host and port to advertise on the listener of `info`."""
        told = self._by_name[info.listener.name]
        return (info.local_host if told.is_wildcard else told.host), told.port
