"""Samples of Barnabas by its HTTP listener: the overview in JSON, totals from /metrics."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from client.http.broker_http import BrokerHttp
from client.http.exposed import exposed
from client.top.snapshot import GroupLine, Snapshot, TopicLine
from client.units import count_text, duration_text, size_text

SERVER: Final = "kafka_server_brokertopicmetrics_"
NAMES: Final = {
    "kafka_topic_partitions": "partitions",
    f"{SERVER}messagesin_total": "records",
    f"{SERVER}bytesin_total": "bytes_in",
    f"{SERVER}bytesout_total": "bytes_out",
    "kafka_log_log_size": "size_bytes",
    "kafka_consumergroup_lag_sum": "lag",
    "kafka_consumergroup_members": "members",
}


class HttpSampling:
    """Asks one broker."""

    def __init__(self, http: BrokerHttp, clock: Callable[[], float] = time.monotonic) -> None:
        self._http = http
        self._clock = clock

    def sample(self) -> Snapshot:
        """Return the broker as it is now. Raises BrokerError."""
        overview = self._http.json("overview")
        topics, groups = _lines(self._http.metrics(tuple(NAMES)))
        return Snapshot(
            self._clock(),
            f"Barnabas {overview['version']}, {overview['state']}, at {self._http.address}",
            _facts(overview),
            [_notice(one) for one in overview["notices"]],
            topics,
            groups,
        )


def _facts(overview: dict[str, Any]) -> list[tuple[str, str]]:
    rates = overview["rates"] or {}
    disk = overview["disk"]
    free = size_text(disk["free_bytes"]) if disk["free_bytes"] else "?"
    if disk["full_in_s"] is not None:
        free += f", full in {duration_text(disk['full_in_s'])}"
    facts = [
        ("up", duration_text((overview["now_ms"] - overview["started_ms"]) / 1000)),
        ("loop", f"{overview['loop_busy']:.0%}"),
        ("memory", size_text(overview["resident_bytes"])),
        ("clients", count_text(overview["connections"])),
        ("requests/s", count_text(rates.get("requests", 0))),
        ("in/s", size_text(rates.get("bytes_in", 0))),
        ("out/s", size_text(rates.get("bytes_out", 0))),
        ("fsync p99", f"{rates.get('fsync_p99_ms', 0):.3g} ms"),
        ("log", size_text(disk["log_bytes"])),
        ("free", free),
    ]
    return [(word, text) for word, text in facts if text]


def _notice(found: Any) -> str:
    return str(found.get("text", found)) if isinstance(found, dict) else str(found)


def _lines(text: str) -> tuple[list[TopicLine], list[GroupLine]]:
    totals: dict[str, dict[str, int]] = {}
    groups: dict[str, dict[str, int]] = {}
    for one in exposed(text):
        field = NAMES.get(one.name)
        if field is None:
            continue
        for _, labels, value in one.samples:
            is_group = "consumergroup" in labels
            name = labels.get("consumergroup" if is_group else "topic")
            if name is not None:
                sums = (groups if is_group else totals).setdefault(name, {})
                sums[field] = sums.get(field, 0) + int(value)
    topics = [
        TopicLine(
            name,
            sums.get("partitions", 0),
            sums.get("records", 0),
            sums.get("size_bytes"),
            sums.get("bytes_in"),
            sums.get("bytes_out"),
        )
        for name, sums in totals.items()
    ]
    return topics, [
        GroupLine(name, sums.get("lag", 0), sums.get("members")) for name, sums in groups.items()
    ]
