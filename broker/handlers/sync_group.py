"""SyncGroup, API key 14, versions 0-5: the classic group protocol.

Behaviour
- The leader's is answered when its assignment is durable, and with it those of the members that
  wait (broker/groups/classic/syncing.py).
- From version 5 on protocol type and name must be told, as in Kafka.

Version notes: 3 static members, 4 flexible, 5 protocol type and name (KIP-559).
"""

from __future__ import annotations

from broker.runtime.request import Pending, Request
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_VERSION = 5


def handle(request: Request, services: Services) -> SyncGroupResponse | Pending:
    """Tell a member its assignment."""
    body: SyncGroupRequest = request.body
    is_told = body.protocol_type is not None and body.protocol_name is not None
    if request.header.api_version >= PROTOCOL_VERSION and not is_told:
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    pending = Pending()
    services.groups.sync(body, pending.complete)
    return pending


def error_response(request: Request, code: ErrorCode) -> SyncGroupResponse:  # noqa: ARG001
    """Return the answer that says `code`."""
    return SyncGroupResponse(error_code=code)
