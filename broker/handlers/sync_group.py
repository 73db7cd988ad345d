"""SyncGroup, API key 14, versions 0-5: the classic group protocol.

Behaviour
- The leader's request, and those of the members that wait, are answered when the leader's
  assignment is durable (broker/groups/classic/syncing.py).
- From version 5 on, protocol type and name are required, as in Kafka.

Version notes: 3 static members, 4 flexible, 5 protocol type and name (KIP-559).
"""

from __future__ import annotations

from broker.groups.member_requests import sync_group
from broker.runtime.request import Pending, Request
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_VERSION = 5


def handle(request: Request, services: Services) -> SyncGroupResponse | Pending:
    """Answer with a member's assignment."""
    body: SyncGroupRequest = request.body
    is_told = body.protocol_type is not None and body.protocol_name is not None
    if request.header.api_version >= PROTOCOL_VERSION and not is_told:
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    pending = Pending()
    sync_group(services.groups, body, pending.complete)
    return pending


def error_response(request: Request, code: ErrorCode) -> SyncGroupResponse:  # noqa: ARG001
    """Return an answer with `code`."""
    return SyncGroupResponse(error_code=code)
