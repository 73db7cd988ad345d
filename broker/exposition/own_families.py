"""Our own metrics: the disk, the loop, each counter of `Metrics`, and the process.

Units are base units. A counter of `Metrics` has its name there, and `_total`; one that ends in
`_now` is a gauge without that ending.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from dataclasses import fields

from broker.exposition.family import Family, Kind, Samples, one
from broker.exposition.label_text import labels
from broker.exposition.resident import resident_bytes
from broker.exposition.scrape_view import ScrapeView
from broker.runtime.clock import SECOND_NS
from broker.runtime.log_histogram import Buckets
from broker.runtime.metrics import Metrics


def histogram(found: Callable[[ScrapeView], Buckets], unit: int) -> Samples:
    """Return the samples of buckets whose values are in 1/`unit` of what is shown."""

    def samples(view: ScrapeView) -> list[tuple[str, int | float]]:
        buckets = found(view)
        total = 0
        lines: list[tuple[str, int | float]] = []
        for bound, count in zip(buckets.bounds, buckets.counts, strict=False):
            total += count
            shown = bound / unit if unit > 1 else bound
            lines.append((f'_bucket{{le="{shown}"}}', total))
        total += buckets.counts[-1]
        whole = buckets.sum / unit if unit > 1 else buckets.sum
        return [*lines, ('_bucket{le="+Inf"}', total), ("_sum", whole), ("_count", total)]

    return samples


def _counter(name: str) -> Family:
    shown, kind = f"barnabas_{name}_total", Kind.COUNTER
    if name.endswith("_now"):
        shown, kind = f"barnabas_{name.removesuffix('_now')}", Kind.GAUGE
    return Family(shown, kind, _words(name), one(lambda view: getattr(view.metrics, name)))


def _words(name: str) -> str:
    return name.removesuffix("_now").replace("_", " ").capitalize() + "."


def _open_descriptors(_: ScrapeView) -> int:
    """Count them: Linux tells since 6.2 without a list, which may be long."""
    try:
        return os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0


def _cpu(_: ScrapeView) -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _build(view: ScrapeView) -> list[tuple[str, int]]:
    text = labels(cluster_id=view.services.cluster_id, node_id=view.services.node_id)
    return [(text, 1)]


def _gauge(name: str, text: str, value: Callable[[ScrapeView], int | float]) -> Family:
    return Family(name, Kind.GAUGE, text, one(value))


OWN: tuple[Family, ...] = (
    Family(
        "barnabas_fsync_seconds", Kind.HISTOGRAM, "The time of each fsync of a log.",
        histogram(lambda view: view.traffic.fsyncs, SECOND_NS), ("le",),
    ),
    Family(
        "barnabas_commit_round_flushes", Kind.HISTOGRAM, "Logs that were flushed in one round.",
        histogram(lambda view: view.traffic.round_flushes, 1), ("le",),
    ),
    Family(
        "barnabas_commit_round_waiters", Kind.HISTOGRAM, "Requests that one flush acknowledged.",
        histogram(lambda view: view.traffic.round_waiters, 1), ("le",),
    ),
    Family(
        "barnabas_loop_lag_seconds", Kind.HISTOGRAM, "How much too late a timer of the loop rang.",
        histogram(lambda view: view.pulse.lag, SECOND_NS), ("le",),
    ),
    _gauge("barnabas_loop_busy_ratio", "The loop's share of a CPU, in the last minute.",
           lambda view: view.pulse.busy()),
    _gauge("barnabas_unflushed_bytes", "Bytes appended and not durable yet.",
           lambda view: view.services.logs.home.unflushed_bytes),
    _gauge("barnabas_request_bytes_in_memory", "Bytes of requests that are not answered.",
           lambda view: view.assembly.network.budget.used_bytes),
    _gauge("barnabas_answer_bytes_in_memory", "Bytes of answers that cannot leave yet.",
           lambda view: view.services.answers.used_bytes),
    _gauge("barnabas_append_queue_length", "Batches that wait to be appended.",
           lambda view: view.metrics.appends_queued_now),
    _gauge("barnabas_disk_free_bytes", "Free bytes of the disk, at most 10 s ago; 0: not known.",
           lambda view: view.pulse.free_bytes),
    Family("barnabas_build_info", Kind.GAUGE, "1; the labels say which cluster and node.",
           _build, ("cluster_id", "node_id")),
    *(_counter(field.name) for field in fields(Metrics) if field.name != "traffic"),
    Family("process_cpu_seconds_total", Kind.COUNTER, "CPU time of the process.", one(_cpu)),
    _gauge("process_resident_memory_bytes", "Resident memory.",
           lambda _: resident_bytes()),
    _gauge("process_open_fds", "Open file descriptors.", _open_descriptors),
    _gauge("process_max_fds", "The limit on open file descriptors.",
           lambda _: resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
    _gauge("process_start_time_seconds", "When HTTP was opened, in seconds since 1970.",
           lambda view: view.pulse.started_ms / 1000),
)  # fmt: skip
