"""Polling that outlasts its broker: what `barnabas consume --follow` does, alone or in a group.

A consumer makes a lost connection anew at its next poll. So all there is to do is to poll again,
after a pause that doubles with each failure in a row, and to say so once.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import click

from client.msgpack.consumer import FetchError
from client.msgpack.transport import TransportError

BACKOFF_S: Final = 0.1  # doubled after each failure in a row, up to
BACKOFF_S_MAX: Final = 5.0


async def poll_patiently(consumer: Any) -> Any:
    """Poll until it succeeds, saying on standard error when the broker goes and comes back."""
    wait_s = BACKOFF_S
    while True:
        try:
            found = await consumer.poll()
        except (TransportError, FetchError) as error:
            if isinstance(error, FetchError) and not error.retriable:
                raise
            if wait_s == BACKOFF_S:
                click.echo(f"{error}\nTrying again until it does; Ctrl-C ends.", err=True)
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, BACKOFF_S_MAX)
        else:
            if wait_s != BACKOFF_S:
                click.echo("It answers again; going on where it stopped.", err=True)
            return found
