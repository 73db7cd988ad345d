"""Polling that outlasts its broker: what `barnabas consume --follow` does, alone or in a group.

A consumer makes a lost connection anew at its next poll. So all there is to do is to poll again,
after a pause that doubles with each failure in a row, and to say so once.
"""

from __future__ import annotations

from typing import Any, Final

import click

from client.msgpack.backoff import Backoff
from client.msgpack.fetching import FetchError
from client.msgpack.transport import TransportError

PAUSE_S_MAX: Final = 5.0


async def poll_patiently(consumer: Any) -> Any:
    """Poll until it succeeds, saying on standard error when the broker goes and comes back."""
    backoff = Backoff(PAUSE_S_MAX)
    while True:
        try:
            found = await consumer.poll()
        except (TransportError, FetchError) as error:
            if isinstance(error, FetchError) and not error.retriable:
                raise
            if not backoff.has_paused:
                click.echo(f"{error}\nTrying again until it does; Ctrl-C ends.", err=True)
            await backoff.pause()
        else:
            if backoff.has_paused:
                click.echo("It answers again; going on where it stopped.", err=True)
            return found
