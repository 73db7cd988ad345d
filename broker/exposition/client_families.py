"""The metrics of clients: what the broker sees of them, and what they have pushed (KIP-714)."""

from __future__ import annotations

from collections.abc import Iterator

from broker.exposition.client_walk import PushedSeries
from broker.exposition.family import Family, Kind
from broker.exposition.scrape_view import ScrapeView

CLIENTS: tuple[Family, ...] = (
    Family(
        "kafka_client_info",
        Kind.GAUGE,
        "1 for each client that has pushed metrics; the labels describe it.",
        lambda view: ((tail, 1) for tail in view.clients.clients),
        (
            "client_id",
            "client_instance_id",
            "client_software_name",
            "client_software_version",
            "client_source_address",
            "group_id",
            "transactional_id",
        ),
    ),
)
TAKEN = frozenset(family.name for family in CLIENTS)


def pushed_families(view: ScrapeView) -> Iterator[Family]:
    """Yield one metric for each name that clients have pushed, once `view` is prepared."""
    for name, series in view.clients.series.items():
        if name not in TAKEN:
            yield _family(name, series)


def _family(name: str, series: PushedSeries) -> Family:
    kind = Kind.GAUGE
    if series.counters:
        is_counter = name.endswith("_total") and series.counters == len(series.samples)
        kind = Kind.COUNTER if is_counter else Kind.UNTYPED
    help_text = f"Pushed by clients as {series.pushed_as}."
    return Family(name, kind, help_text, lambda _: series.samples.items())
