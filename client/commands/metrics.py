"""`barnabas metrics`: what /metrics shows, for people and scripts without a Prometheus."""

from __future__ import annotations

from typing import Any

import click

from client.commands.careful_command import CarefulCommand
from client.commands.http_options import http_options
from client.commands.output import refusing, show_json, show_table
from client.http.broker_http import BrokerHttp
from client.http.exposed import Exposed, exposed
from client.suggest import did_you_mean


@click.command(cls=CarefulCommand)
@click.argument("names", metavar="[NAME]...", nargs=-1)
@http_options
@refusing
def metrics(names: tuple[str, ...], http: BrokerHttp, *, as_json: bool) -> None:
    """Show the broker's metrics: all names, or the series of those named.

    A NAME may be the beginning of several: barnabas metrics barnabas_fsync
    """
    found = [] if not names else list(exposed(http.metrics(names)))
    if len(found) < len(set(names)) or not names:
        found = _picked(list(exposed(http.metrics())), names)
    if as_json:
        show_json([_row(one) for one in found])
    elif names:
        show_table(
            ("metric", "labels", "value"),
            [
                (one.name + ending, _labels(labels), _number(value))
                for one in found
                for ending, labels, value in one.samples
            ],
        )
    else:
        show_table(
            ("metric", "type", "series", "value", "what"),
            [(one.name, one.kind, len(one.samples), _only(one), one.help) for one in found],
        )


def _picked(all_of: list[Exposed], names: tuple[str, ...]) -> list[Exposed]:
    """Return those whose names begin with one of `names`."""
    if not names:
        return all_of
    for name in names:
        if not any(one.name.startswith(name) for one in all_of):
            hint = did_you_mean(name, [one.name for one in all_of])
            raise click.ClickException(f"There is no metric {name!r}. {hint}".rstrip())
    return [one for one in all_of if one.name.startswith(names)]


def _row(one: Exposed) -> dict[str, Any]:
    samples = [
        {"name": one.name + ending, "labels": labels, "value": _finite(value)}
        for ending, labels, value in one.samples
    ]
    return {"name": one.name, "type": one.kind, "help": one.help, "samples": samples}


def _finite(value: float) -> float | int | None:
    if value - value:  # NaN or infinite, which JSON has not
        return None
    return int(value) if value.is_integer() else value


def _only(one: Exposed) -> str:
    return _number(one.samples[0][2]) if len(one.samples) == 1 else ""


def _labels(labels: dict[str, str]) -> str:
    return " ".join(f"{name}={text}" for name, text in labels.items())


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else f"{value:.6g}"
