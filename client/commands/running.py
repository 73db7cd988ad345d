"""Running a command's coroutine: how it may end, and with which exit code.

Ctrl-C is 130 and SIGTERM 143, as shells count signals; what the broker refuses, or cannot be asked,
is one sentence and 1.
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
    """Run a coroutine of the msgpack client, and leave with the exit code of its end."""
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
        with closing(coroutine):  # Ctrl-C may come before it begins
            asyncio.run(coroutine)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except asyncio.CancelledError:
        sys.exit(TERMINATED)
    except (*refused, *unread, *unwritten) as error:
        fail(str(error))
