"""The address that clients are told to use for this broker.

Metadata names the endpoint of the listener that the client asked. `advertised.listeners` sets it.
If it is unset, the endpoint is the listener's own host; for a wildcard listener it is the local
address of the asking connection, which is known to work for that client. A listener bound to port 0
advertises the port it was given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker.runtime.request import ConnectionInfo
from config.listeners import Listener


class Advertised:
    """The advertised endpoint for each connection that asks."""

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
