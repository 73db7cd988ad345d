"""The connection of a request to which a rule applies: its answer comes late, cut, or never.

It stands between the request and its real connection, for that one answer. Answers of the requests
behind it wait, since a connection's answers are in the order of its requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from broker.network.connection import Connection
from broker.runtime import owners
from broker.runtime.owners import Owner
from broker.runtime.request import Buffer, Request

AGAIN_SECONDS: Final = 0.005
WHY: Final = "a rule of the test drops the connection"


class HeldConnection:
    """A `Responder` in front of `real`: `drop` is "after" or how many bytes of the answer go."""

    def __init__(self, real: Connection, delay: float, drop: str | int | None) -> None:
        self._real = real
        self._delay = delay
        self._drop = drop

    def __getattr__(self, name: str) -> Any:
        """Return what is the real connection's: `info`, `reading`, `abort` and `refuse`."""
        return getattr(self._real, name)

    def respond(self, request: Request, buffers: Sequence[Buffer]) -> None:
        """Let the answer go, late or in part."""
        if self._delay:
            owners.later(Owner.TEST_CONTROL, self._delay, self._let_go, request, buffers)
        else:
            self._let_go(request, buffers)

    def _let_go(self, request: Request, buffers: Sequence[Buffer]) -> None:
        real = self._real
        if self._drop is None:
            real.respond(request, buffers)
        elif self._drop == "after":
            real.abort(WHY)
            real.respond(request, ())
        elif real.slots and real.slots[0] is not request:  # an earlier answer is not there yet
            owners.later(Owner.TEST_CONTROL, AGAIN_SECONDS, self._let_go, request, buffers)
        else:
            assert isinstance(self._drop, int)
            real.respond(request, (b"".join(buffers)[: self._drop],))
            real.close()
