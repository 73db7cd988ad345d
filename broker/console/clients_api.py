"""The connections of the broker: whose, with which software, since when, and how much."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from broker.console.answers import data
from broker.console.parameters import page_of
from broker.console.visitor import SEES_CLUSTER, Visitor
from broker.http.http_messages import HttpAnswer, HttpRequest
from broker.network.connection import Connection

if TYPE_CHECKING:
    from broker.console.console import Console

PAGE_MAX: Final = 500


def clients(request: HttpRequest, visitor: Visitor, console: Console) -> HttpAnswer:
    """GET clients?offset=&limit=: connections in the order of their beginning."""
    visitor.must(SEES_CLUSTER)
    offset, limit = page_of(request, 100, PAGE_MAX)
    found: list[dict[str, Any]] = []
    left, total = offset, 0
    for processor in console.surroundings.processors:
        count = len(processor.connections)
        total += count
        if left >= count:
            left -= count
            continue
        wanted = islice(processor.connections, left, left + limit - len(found))
        found += map(_described, wanted)
        left = 0
    return data({"total": total, "offset": offset, "clients": found})


def _described(connection: Connection) -> dict[str, Any]:
    info = connection.info
    return {
        "client_id": info.client_id,
        "software_name": info.software_name,
        "software_version": info.software_version,
        "principal": info.principal,
        "host": info.peer_host,
        "port": info.peer_port,
        "listener": info.listener.name,
        "since_ms": info.since_ms,
        "received_bytes": connection.account.received_bytes,
        "sent_bytes": connection.account.sent_bytes,
        "in_flight": len(connection.slots),
    }
