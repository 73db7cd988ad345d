"""LeaveGroup, API key 13, versions 0-5: members go, by themselves or sent by an administrator.

Behaviour
- A static member goes by its instance id alone, which is how administrators name it (KIP-345).
- Up to version 2 the error of the one member is that of the answer.

Version notes: 3 many members, 4 flexible, 5 reason (not kept).
"""

from __future__ import annotations

from broker.groups.errors import GroupError
from broker.runtime.request import Request
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

MANY_MEMBERS_VERSION = 3


def handle(request: Request, services: Services) -> LeaveGroupResponse:
    """Let members go."""
    body: LeaveGroupRequest = request.body
    is_of_one = request.header.api_version < MANY_MEMBERS_VERSION
    members = [MemberIdentity(member_id=body.member_id)] if is_of_one else body.members
    try:
        responses = services.groups.leave(body.group_id, members)
    except GroupError as error:
        return LeaveGroupResponse(error_code=error.code)
    if is_of_one:
        return LeaveGroupResponse(error_code=responses[0].error_code)
    return LeaveGroupResponse(members=responses)


def error_response(request: Request, code: ErrorCode) -> LeaveGroupResponse:  # noqa: ARG001
    """Return the answer that says `code`."""
    return LeaveGroupResponse(error_code=code)
