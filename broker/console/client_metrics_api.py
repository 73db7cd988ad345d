"""The metrics that clients have pushed: by client, each with its labels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from broker.console.answers import data_of_parts, listed, packed
from broker.console.parameters import page_of
from broker.console.visitor import SEES_CLUSTER, Visitor
from broker.console.walks import Turns
from broker.http.http_messages import HttpAnswer, HttpRequest
from broker.telemetry.pushed_figures import InstanceFigures

if TYPE_CHECKING:
    from broker.console.console import Console

PAGE_MAX: Final = 10  # clients; each has at most 500 figures


async def client_metrics(request: HttpRequest, visitor: Visitor, console: Console) -> HttpAnswer:
    """GET client-metrics?offset=&limit=: clients and their figures, the last pushed last."""
    visitor.must(SEES_CLUSTER)
    offset, limit = page_of(request, PAGE_MAX, PAGE_MAX)
    console.services.telemetry.expire()
    clients = tuple(console.services.telemetry.figures)
    turns = Turns(console.services.clock)
    found = [await _pushed(one, turns) for one in clients[offset : offset + limit]]
    return data_of_parts("clients", found, {"total": len(clients), "offset": offset})


async def _pushed(client: InstanceFigures, turns: Turns) -> bytes:
    """Return a client in JSON, made figure by figure: one may have some 6 KB of labels."""
    metrics = []
    for (name, labels), figure in tuple(client.figures.items()):
        metrics.append(
            packed(
                {
                    "name": name,
                    "labels": dict(labels),
                    "value": figure.value if math.isfinite(figure.value) else None,
                    "is_counter": figure.is_counter,
                }
            )
        )
        await turns.turn()
    described = {
        **client.attributes,
        "principal": client.principal,
        "resource": client.resource,
        "pushed_ms": client.pushed_ms,
        "pushes": client.pushes,
        "has_ended": client.is_terminating,
    }
    return listed("metrics", metrics, described)
