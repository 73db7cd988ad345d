"""The body of a fetch that begins a session or is within one (`broker.fetch_sessions`).

It stands below all that handles a fetch: rights narrow it, the handler reads it, and quotas
withhold its answer.
"""

from __future__ import annotations

from typing import Any, Protocol

from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.wire import structure


class FetchContext(Protocol):
    """What becomes of the session."""

    @property
    def view(self) -> Any:
        """The partitions that are looked at instead of those that the request names, or None."""

    @property
    def rights(self) -> tuple[str, str, int] | None:
        """Who may read what is not looked at yet, from where, and as of which version of the ACLs.

        None if all that may be read is named, or needs no right.
        """

    def withheld(self, response: FetchResponse) -> FetchResponse:
        """Return the answer without its partitions: the client is throttled, and asks again."""
        ...


@structure
class SessionFetch(FetchRequest):
    """A fetch with its context."""

    context: FetchContext


def withheld(body: Any, response: FetchResponse) -> FetchResponse:
    """Return an answer without partitions to a client that is throttled."""
    if type(body) is SessionFetch:
        return body.context.withheld(response)
    return FetchResponse(session_id=0)
