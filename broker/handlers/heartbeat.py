"""Heartbeat, API key 12, versions 0-4: a member of a classic group is alive.

Behaviour
- REBALANCE_IN_PROGRESS tells the member to join again.
- While groups are being loaded after a start, every member is told that all is well: a group that
  was stable goes on without a rebalance, as in Kafka.

Version notes: 3 static members, 4 flexible.
"""

from __future__ import annotations

from broker.runtime.request import Request
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatResponse


def handle(request: Request, services: Services) -> HeartbeatResponse:
    """Keep a member alive."""
    return HeartbeatResponse(error_code=services.groups.heartbeat(request.body))


def error_response(request: Request, code: ErrorCode) -> HeartbeatResponse:  # noqa: ARG001
    """Return the answer that says `code`."""
    return HeartbeatResponse(error_code=code)
