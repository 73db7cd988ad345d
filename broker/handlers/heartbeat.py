"""Heartbeat, API key 12, versions 0-4: a member of a classic group reports that it is alive.

Behaviour
- REBALANCE_IN_PROGRESS tells the member to rejoin.
- While groups are being loaded after a start, every member is answered without an error. So a
  stable group goes on without a rebalance, as in Kafka.

Version notes: 3 static members, 4 flexible.
"""

from __future__ import annotations

from broker.groups.member_requests import heartbeat
from broker.runtime.request import Request
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatResponse


def handle(request: Request, services: Services) -> HeartbeatResponse:
    """Extend a member's session."""
    return HeartbeatResponse(error_code=heartbeat(services.groups, request.body))


def error_response(request: Request, code: ErrorCode) -> HeartbeatResponse:  # noqa: ARG001
    """Return an answer with `code`."""
    return HeartbeatResponse(error_code=code)
