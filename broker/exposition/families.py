"""All metrics, in the order of /metrics and of docs/metrics.md, which this module prints.

Run `python -m broker.exposition.families` to print the page; a test compares it with the file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from broker.exposition.board_families import BOARDS
from broker.exposition.client_families import CLIENTS, pushed_families
from broker.exposition.family import Family
from broker.exposition.group_families import GROUPS
from broker.exposition.log_families import LOGS
from broker.exposition.own_families import OWN
from broker.exposition.scrape_view import ScrapeView
from broker.exposition.traffic_families import TRAFFIC

SECTIONS: tuple[tuple[str, tuple[Family, ...]], ...] = (
    ("Requests, records, connections", TRAFFIC),
    ("Logs, partitions, controller", LOGS),
    ("Groups and lag", GROUPS),
    ("For boards alone", BOARDS),
    ("Clients", CLIENTS),
    ("Barnabas's own", OWN),
)
FAMILIES: tuple[Family, ...] = tuple(family for _, found in SECTIONS for family in found)


def all_families(view: ScrapeView) -> Iterator[Family]:
    """Yield every metric; those that clients have pushed are known when `view` is prepared."""
    yield from FAMILIES
    yield from pushed_families(view)


HEAD = """# Metrics

`GET /metrics` of the HTTP listener (`barnabas.http.listener`, by default 127.0.0.1:9095) answers
in Prometheus's text format. `?name[]=NAME` picks some. This page is printed from the table in
`broker/exposition/families.py`.

Names are those that boards for Kafka expect: of jmx_exporter's rules, which Strimzi's boards use;
in brackets of Confluent's and Grafana's rules, which write counters without `_total` and untyped;
and of kafka_exporter. [operations.md](operations.md#watch-a-broker) has a scrape configuration
with the labels that those boards filter by.

Counters count since the start of the broker. Requests are counted exactly. One in 251 is timed, and
of less than 4,000 a second sixteen, or all there are; each stands for those since the last one.
`container_*`, `jvm_*`, `zookeeper_*` and tiered storage have no meaning here, so boards show
nothing for them. What is 0 by nature says why.

Metrics that clients push (KIP-714) follow as `kafka_client_<name>`, with `client_id`,
`client_instance_id` and the labels that the client gave. `<name>` is the client's name for it,
without `org.apache.kafka.` and with `_` for what a name may not have, such as
`kafka_client_producer_record_queue_time_avg`. Counters are added up by the broker. There are at
most 5,000 such series, 500 of a client; those without room are counted in
`barnabas_client_series_refused_total`. [operations.md](operations.md#metrics-of-clients) says how
to choose what clients push.
"""


def page() -> str:
    """Return docs/metrics.md."""
    lines = [HEAD]
    for title, families in SECTIONS:
        lines += [f"## {title}", "", "| name | type | labels | what |", "|---|---|---|---|"]
        for family in families:
            names = f"`{family.name}`" + "".join(f" [`{name}`]" for name in family.also)
            zero = f" Always 0: {family.why_zero}." if family.why_zero else ""
            labels = ", ".join(family.labels) or "-"
            lines.append(f"| {names} | {family.kind} | {labels} | {family.help}{zero} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(page())
