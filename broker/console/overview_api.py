"""The broker at a glance: its state now, its history, and both as events each second."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, Final

from broker.console.answers import JSON, data, packed
from broker.console.notices import notices
from broker.console.parameters import bad, text_of
from broker.console.visitor import SEES_CLUSTER, Visitor
from broker.exposition.history import SERIES, Ring
from broker.exposition.resident import resident_bytes
from broker.http.http_messages import HttpAnswer, HttpRequest

if TYPE_CHECKING:
    from broker.console.console import Console

GROWTH_SECONDS: Final = 300  # over which the growth of the logs is measured
FAR_S: Final = 10 * 365 * 86_400  # a disk that is full later than this is not going to be full
VERSION: Final = "0.1.0"


def overview(request: HttpRequest, visitor: Visitor, console: Console) -> HttpAnswer:  # noqa: ARG001
    """GET overview: the broker's state now."""
    visitor.must(SEES_CLUSTER)
    return data(glance(console))


async def history(request: HttpRequest, visitor: Visitor, console: Console) -> HttpAnswer:
    """GET history?range=15m|24h: columns of numbers, the oldest first."""
    visitor.must(SEES_CLUSTER)
    wanted = text_of(request, "range", "15m")
    if wanted not in ("15m", "24h"):
        raise bad(f"range is {wanted[:40]!r}, expected 15m or 24h")
    ring = console.history.seconds if wanted == "15m" else console.history.minutes
    known = console.columns.get(wanted)
    if known is None or known[0] != ring.last_ms:
        known = console.columns[wanted] = (ring.last_ms, await _columns(ring))
    return HttpAnswer(200, known[1], JSON)


def events(request: HttpRequest, visitor: Visitor, console: Console) -> HttpAnswer:
    """GET events: an `overview` each second, with the newest row of the history."""
    from broker.console.console import event

    visitor.must(SEES_CLUSTER)

    async def samples() -> AsyncGenerator[bytes, None]:
        while True:
            yield event("overview", glance(console))
            await console.next_sample()

    return console.stream(request, visitor, samples, lambda: visitor.may(SEES_CLUSTER))


def glance(console: Console) -> dict[str, Any]:
    """Return the overview; one is made for all viewers of a second."""
    surroundings, services = console.surroundings, console.services
    sampled_ms = console.history.seconds.last_ms
    known = console.glance
    if known is not None and known["sampled_ms"] == sampled_ms and sampled_ms:
        return known
    metrics, image = services.metrics, services.controller.image
    console.glance = found = {
        "sampled_ms": sampled_ms,
        "now_ms": services.clock.now_ms(),
        "started_ms": surroundings.pulse.started_ms,
        "version": VERSION,
        "cluster_id": services.cluster_id,
        "node_id": services.node_id,
        "listeners": [
            f"{listener.name}://{listener.host}:{port}" for listener, port in console.assembly.bound
        ],
        "state": "stopping" if surroundings.is_stopping else "running",
        "read_only": services.config.barnabas_read_only,
        "topics": len(image.topics),
        "partitions": len(services.partitions),
        "groups": _group_count(console),
        "connections": metrics.connections_now,
        "transactions_open": metrics.transactions_open_now,
        "resident_bytes": resident_bytes(),
        "loop_busy": _short(surroundings.pulse.busy()),
        "totals": dict(
            zip(
                ("records_in", "bytes_in", "bytes_out", "log_bytes"),
                console.history.totals,
                strict=True,
            )
        ),
        "disk": disk_of(console),
        "rates": _newest(console.history.seconds),
        "notices": notices(console),
    }
    return found


def _group_count(console: Console) -> int:
    services = console.services
    if not services.has_groups:
        return 0
    return sum(len(registry.groups) for registry in services.groups.registries())


def disk_of(console: Console) -> dict[str, Any]:
    """Return the room on the disk, and in how many seconds it is used up at the present pace."""
    ring, free = console.history.seconds, console.surroundings.pulse.free_bytes
    sizes = ring.column(SERIES.index("log_bytes"))[-GROWTH_SECONDS:]
    growth = (sizes[-1] - sizes[0]) / (len(sizes) - 1) if len(sizes) > 1 else 0.0
    full_in_s = int(free / growth) if growth > 0 and free else FAR_S
    return {
        "log_bytes": console.history.totals[3],
        "free_bytes": free,
        "growth": _short(growth),
        "full_in_s": full_in_s if full_in_s < FAR_S else None,
    }


def _newest(ring: Ring) -> dict[str, float] | None:
    for row in ring.newest(1):
        return {name: _short(value) for name, value in zip(SERIES, row, strict=True)}
    return None


async def _columns(ring: Ring) -> bytes:
    """Return the history in JSON, made column by column: one takes a millisecond."""
    columns = [ring.column(index) for index in range(len(SERIES))]
    last_ms, written = ring.last_ms, []
    for name, column in zip(SERIES, columns, strict=True):
        written.append(packed(name) + b":" + packed([_short(value) for value in column]))
        await asyncio.sleep(0)
    head = packed({"step_s": ring.step_s, "last_ms": last_ms})[:-1]
    return head + b',"series":{' + b",".join(written) + b"}}"


def _short(value: float) -> float:
    """Return a number with six digits that count."""
    return float(f"{value:.6g}")
