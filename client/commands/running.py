"""Running a command's coroutine, and the exit code for each way in which it ends.

Ctrl-C exits with 130 and SIGTERM with 143, as shells count signals. Where the broker refuses or
cannot be reached, one sentence is printed and the exit code is 1.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from contextlib import closing
from typing import Any, Final

from client.commands.lazy_group import INTERRUPTED
from client.commands.output import fail

TERMINATED: Final = 143


def run_to_end(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that uses the msgpack client; exit unless it returns."""
    from client.msgpack.fetching import FetchError
    from client.msgpack.group_offsets import CommitError
    from client.msgpack.membership import GroupRefused
    from client.msgpack.transport import RequestRefused, TransportError, UnknownPlace
    from client.msgpack.unacknowledged import DeliveryError
    from protocol.record_errors import RecordError

    unread = (FetchError, RecordError)
    unwritten = (DeliveryError, CommitError)
    refused = (TransportError, RequestRefused, UnknownPlace, GroupRefused)
    try:
        with closing(coroutine):  # Ctrl-C may come before it starts
            asyncio.run(coroutine)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except asyncio.CancelledError:
        sys.exit(TERMINATED)
    except (*refused, *unread, *unwritten) as error:
        fail(str(error))
