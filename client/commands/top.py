"""`barnabas top`: what a broker is doing, again and again; on Apache Kafka too."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Final

import click

from client.commands.careful_command import CarefulCommand
from client.commands.http_options import HTTP, opened
from client.commands.output import Seconds, broker_options, connect, refusing, show_json
from client.kafka.connection import BrokerError
from client.top.http_sampling import HttpSampling
from client.top.kafka_sampling import KafkaSampling
from client.top.snapshot import Sampled, Snapshot, rates_of

ONCE_S: Final = 1.0  # between the two samples of --once and --json


@click.command(cls=CarefulCommand)
@click.option(
    "--interval", "interval_s", metavar="SECONDS", type=Seconds(min=0.2, max=3_600), default=2.0,
    show_default=True, help="How often to look.",
)  # fmt: skip
@click.option("--once", is_flag=True, help="Show one screen and end.")
@click.option("--kafka", "by_kafka", is_flag=True, help="Ask by Kafka's APIs alone.")
@HTTP
@broker_options
@refusing
def top(
    interval_s: float,
    http_address: str,
    bootstrap: str,
    timeout_s: float,
    *,
    once: bool,
    by_kafka: bool,
    as_json: bool,
    wait: Callable[[float], None] = time.sleep,
) -> None:
    """Show topics by rate and groups by lag, until Ctrl-C.

    Barnabas is asked at --http. Where nothing answers there, or with --kafka, the broker at
    --bootstrap is asked by Kafka's APIs, which tell less, and do on Apache Kafka too.
    """
    with _sampling(http_address, bootstrap, timeout_s, by_kafka=by_kafka) as (sampling, hint):
        if as_json or once:
            before = sampling.sample()
            wait(min(interval_s, ONCE_S))
            _show_once(sampling.sample(), before, hint, as_json=as_json)
        else:
            _show_on(sampling, interval_s, hint, wait)


@contextmanager
def _sampling(
    http_address: str, bootstrap: str, timeout_s: float, *, by_kafka: bool
) -> Iterator[tuple[Sampled, str]]:
    hint = ""
    if not by_kafka:
        http = HttpSampling(opened(http_address, timeout_s))
        try:
            http.sample()
        except BrokerError as error:
            hint = f"Asking Kafka's APIs: {error}."
        else:
            yield http, ""
            return
    with connect(bootstrap, timeout_s) as connection:
        yield KafkaSampling(connection), hint


def _show_once(now: Snapshot, before: Snapshot, hint: str, *, as_json: bool) -> None:
    if as_json:
        found = asdict(now)
        rates = rates_of(now, before)
        for line in found["topics"]:
            line["rates"] = asdict(rates[line["name"]])
        found["facts"] = dict(now.facts)
        del found["at_s"]
        show_json(found)
        return
    from rich.console import Console

    from client.top.screen import screen

    console = Console()
    console.print(screen(now, before, console.width, max(40, console.height), hint))


def _show_on(
    sampling: Sampled, interval_s: float, hint: str, wait: Callable[[float], None]
) -> None:
    from rich.console import Console
    from rich.live import Live

    from client.top.screen import screen

    console = Console()
    before = None
    with Live(console=console, screen=console.is_terminal, auto_refresh=False) as live:
        while True:
            try:
                now = sampling.sample()
            except BrokerError as error:  # it may come back
                if before is None:
                    raise
                now = Snapshot(before.at_s, before.title, [], [str(error)], [], [])
                live.update(screen(now, None, console.width, console.height), refresh=True)
            else:
                shown = screen(now, before, console.width, console.height, hint)
                live.update(shown, refresh=True)
                before = now
            wait(interval_s)
