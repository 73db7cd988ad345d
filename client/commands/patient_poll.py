"""Polling that survives a broker's restart, for `barnabas consume --follow`, in a group or not.

A consumer reconnects at its next poll. So it is enough to poll again, after a pause that doubles
with each consecutive failure, and to report the failure once.
"""

from __future__ import annotations

from typing import Any, Final

import click

from client.msgpack.backoff import Backoff
from client.msgpack.fetching import FetchError
from client.msgpack.transport import TransportError

PAUSE_S_MAX: Final = 5.0


async def poll_patiently(consumer: Any) -> Any:
    """Poll until it succeeds; report on standard error that the broker is gone, and back."""
    backoff = Backoff(PAUSE_S_MAX)
    while True:
        try:
            found = await consumer.poll()
        except (TransportError, FetchError) as error:
            if isinstance(error, FetchError) and not error.retriable:
                raise
            if not backoff.has_paused:
                click.echo(f"{error}\nRetrying until it answers; press Ctrl-C to stop.", err=True)
            await backoff.pause()
        else:
            if backoff.has_paused:
                click.echo("The broker answers again; continuing where reading stopped.", err=True)
            return found
