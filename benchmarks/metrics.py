"""The names of the metrics, which way each is better, and the goals of a cell."""

from __future__ import annotations

MB_S = "MB/s"
RECORDS_S = "k requests/s"
CPU_GB = "CPU-s/GB"
CPU_REQUEST = "CPU us/request"
P50, P99, P999 = "p50 ms", "p99 ms", "p99.9 ms"
FIRST_ACK, IDLE, LOADED = "first ack s", "idle RSS MiB", "RSS MiB after 1 GB"
HIGHER_IS_BETTER = frozenset((MB_S, RECORDS_S))
UNBOUND = frozenset(("first answer s", LOADED, "idle anonymous MiB", "KiB a connection"))
# Near 1 the client limits the rate; then the broker's CPU is the figure to read.
LOAD_SHARE = "load client CPU share"
INFORMATIVE = frozenset((LOAD_SHARE, "records/s asked"))


def reached(metric: str, ratio: float, goal: float) -> bool:
    """Return whether Barnabas / Kafka, rounded to two decimals, meets the goal."""
    shown = round(ratio, 2)
    return shown >= goal if metric in HIGHER_IS_BETTER else shown <= goal


def wanted(metric: str, goal: float) -> str:
    """The goal as a text."""
    return f"{'≥' if metric in HIGHER_IS_BETTER else '≤'} {goal:g}"
