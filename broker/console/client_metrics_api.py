"""The metrics that clients have pushed: by client, each with its labels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from broker.console.answers import data
from broker.console.parameters import page_of
from broker.console.visitor import SEES_CLUSTER, Visitor
from broker.http.http_messages import HttpAnswer, HttpRequest
from broker.telemetry.pushed_figures import InstanceFigures

if TYPE_CHECKING:
    from broker.console.console import Console

PAGE_MAX: Final = 10  # clients; each has at most 500 figures


def client_metrics(request: HttpRequest, visitor: Visitor, console: Console) -> HttpAnswer:
    """GET client-metrics?offset=&limit=: clients and their figures, the last pushed last."""
    visitor.must(SEES_CLUSTER)
    offset, limit = page_of(request, PAGE_MAX, PAGE_MAX)
    console.services.telemetry.expire()
    clients = tuple(console.services.telemetry.figures)
    found = [_pushed(one) for one in clients[offset : offset + limit]]
    return data({"total": len(clients), "offset": offset, "clients": found})


def _pushed(client: InstanceFigures) -> dict[str, Any]:
    return {
        **client.attributes,
        "principal": client.principal,
        "resource": client.resource,
        "pushed_ms": client.pushed_ms,
        "pushes": client.pushes,
        "has_ended": client.is_terminating,
        "metrics": [
            {
                "name": name,
                "labels": dict(labels),
                "value": figure.value if math.isfinite(figure.value) else None,
                "is_counter": figure.is_counter,
            }
            for (name, labels), figure in client.figures.items()
        ],
    }
