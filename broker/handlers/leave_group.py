"""LeaveGroup, API key 13, versions 0-5: members leave, or an administrator removes them.

Behaviour
- A static member can be removed by its instance id alone, as administrators do (KIP-345).
- Up to version 2, the error of the only member is the error of the answer.
- The answer comes when the group's records are durable, so no power cut brings a member back whose
  departure was written.

Version notes: 3 many members, 4 flexible, 5 reason (not kept).
"""

from __future__ import annotations

from broker.groups.errors import GroupError
from broker.groups.member_requests import leave_group
from broker.runtime.request import Pending, Request
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

MANY_MEMBERS_VERSION = 3


def handle(request: Request, services: Services) -> LeaveGroupResponse | Pending:
    """Remove members from their group."""
    body: LeaveGroupRequest = request.body
    is_of_one = request.header.api_version < MANY_MEMBERS_VERSION
    members = [MemberIdentity(member_id=body.member_id)] if is_of_one else body.members
    try:
        responses = leave_group(services.groups, body.group_id, members)
    except GroupError as error:
        return LeaveGroupResponse(error_code=error.code)
    response = LeaveGroupResponse(members=responses)
    if is_of_one:
        response = LeaveGroupResponse(error_code=responses[0].error_code)
    pending = Pending()
    services.groups.when_durable(
        body.group_id,
        lambda code: pending.complete(LeaveGroupResponse(error_code=code) if code else response),
    )
    return pending


def error_response(request: Request, code: ErrorCode) -> LeaveGroupResponse:  # noqa: ARG001
    """Return an answer with `code`."""
    return LeaveGroupResponse(error_code=code)
