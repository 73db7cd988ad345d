"""The disk: its room, the fsyncs, and which topics take it up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from broker.console.answers import data
from broker.console.overview_api import disk_of
from broker.console.visitor import SEES_CLUSTER, SEES_TOPIC, Visitor
from broker.console.walks import Turns
from broker.http.http_messages import HttpAnswer, HttpRequest
from broker.runtime.clock import MS_NS

if TYPE_CHECKING:
    from broker.console.console import Console

TOPICS_SHOWN: Final = 100


async def disk(request: HttpRequest, visitor: Visitor, console: Console) -> HttpAnswer:  # noqa: ARG001
    """GET disk."""
    visitor.must(SEES_CLUSTER)
    services = console.services
    turns = Turns(services.clock)
    topics: dict[str, dict[str, Any]] = {}
    for partition in services.partitions.all():
        await turns.turn()
        log = partition.log
        one = topics.get(log.topic)
        if one is None:
            if not visitor.may(SEES_TOPIC, log.topic):
                continue
            one = topics[log.topic] = {
                "name": log.topic, "bytes": 0, "partitions": 0, "segments": 0,
            }  # fmt: skip
        one["bytes"] += log.size_bytes
        one["partitions"] += 1
        one["segments"] += len(log.segments)
    found = sorted(topics.values(), key=lambda one: (-one["bytes"], one["name"]))
    traffic, metrics = services.metrics.traffic, services.metrics
    bounds = [bound / MS_NS for bound in traffic.fsyncs.bounds]
    return data(
        {
            **disk_of(console),
            "directory": services.logs.directory.path,
            "is_full": bool(metrics.disk_full_now),
            "unflushed_bytes": services.logs.home.unflushed_bytes,
            "flushes": metrics.flushes,
            "flush_failures": metrics.flush_failures,
            "fsync": {"bounds_ms": bounds, "counts": list(traffic.fsyncs.counts)},
            "topics": found[:TOPICS_SHOWN],
            "topic_count": len(found),
        }
    )
