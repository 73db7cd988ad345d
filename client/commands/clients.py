"""`barnabas clients`: who is connected, with what, since when, and how much."""

from __future__ import annotations

from typing import Any, Final

import click

from client.commands.careful_command import CarefulCommand
from client.commands.http_options import http_options
from client.commands.output import refusing, show_json, show_table
from client.commands.times import time_text
from client.http.broker_http import BrokerHttp
from client.units import duration_text, size_text

PAGE: Final = 500
METRICS_PAGE: Final = 10


@click.command(cls=CarefulCommand)
@click.option("--metrics", "with_metrics", is_flag=True, help="Show what clients have pushed.")
@click.option("--client-id", metavar="TEXT", default="", help="Only those whose id has this in it.")
@http_options
@refusing
def clients(client_id: str, http: BrokerHttp, *, with_metrics: bool, as_json: bool) -> None:
    """List the clients that are connected, or the metrics that clients have pushed."""
    path, page = ("client-metrics", METRICS_PAGE) if with_metrics else ("clients", PAGE)
    found = [one for one in _all(http, path, page) if client_id in (one["client_id"] or "")]
    if as_json:
        show_json(found)
    elif with_metrics:
        _show_pushed(found)
    else:
        _show_connected(found, http.json("overview")["now_ms"])


def _all(http: BrokerHttp, path: str, page: int) -> list[dict[str, Any]]:
    """Return all rows of a list that is answered in pages."""
    rows: list[dict[str, Any]] = []
    while True:
        answer = http.json(path, offset=len(rows), limit=page)
        rows += answer["clients"]
        if not answer["clients"] or len(rows) >= answer["total"]:
            return rows


def _show_connected(rows: list[dict[str, Any]], now_ms: int) -> None:
    show_table(
        ("client id", "software", "principal", "from", "listener", "since", "received", "sent"),
        [
            (
                one["client_id"],
                f"{one['software_name']} {one['software_version']}",
                one["principal"].removeprefix("User:"),
                f"{one['host']}:{one['port']}",
                one["listener"],
                duration_text((now_ms - one["since_ms"]) / 1000),
                size_text(one["received_bytes"]),
                size_text(one["sent_bytes"]),
            )
            for one in rows
        ],
    )


def _show_pushed(rows: list[dict[str, Any]]) -> None:
    show_table(
        ("client id", "metric", "labels", "value", "pushed"),
        [
            (
                one["client_id"],
                metric["name"].removeprefix("org.apache.kafka."),
                " ".join(f"{name}={text}" for name, text in metric["labels"].items()),
                "-" if metric["value"] is None else f"{metric['value']:.6g}",
                time_text(one["pushed_ms"]),
            )
            for one in rows
            for metric in one["metrics"]
        ],
    )
