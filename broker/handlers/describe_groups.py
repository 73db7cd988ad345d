"""DescribeGroups, API key 15, versions 0-6: the state and the members of classic groups.

Behaviour
- A group that does not exist, or is a consumer group (ConsumerGroupDescribe describes those), is
  answered with state Dead; from version 6 on with GROUP_ID_NOT_FOUND (KIP-1043).
- A group that is named more than once is answered once.
- Only stable groups have their subscriptions in the answer.
- Authorized operations, if requested, are all operations: there is no authorization.

Version notes: 3 authorized operations (KIP-430), 4 static members, 5 flexible, 6 message.
"""

from __future__ import annotations

from broker.authorized_operations import GROUP_OPERATIONS
from broker.groups.classic.classic_group import ClassicGroup
from broker.groups.errors import GroupError
from broker.runtime.request import Request
from broker.runtime.steps import Steps
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

NOT_FOUND_VERSION = 6
DEAD = "Dead"


def handle(request: Request, services: Services) -> Steps:
    """Describe each group."""
    body: DescribeGroupsRequest = request.body
    response = DescribeGroupsResponse()
    for name in dict.fromkeys(body.groups):
        group = _describe(services, name, request.header.api_version)
        if body.include_authorized_operations and not group.error_code:
            group.authorized_operations = GROUP_OPERATIONS
        response.groups.append(group)
        yield sum(len(one.member_metadata) + len(one.member_assignment) for one in group.members)
    return response


def _describe(services: Services, group_id: str, version: int) -> DescribedGroup:
    try:
        group = services.groups.group(group_id)
    except GroupError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code)
    if isinstance(group, ClassicGroup):
        return group.describe()
    if version < NOT_FOUND_VERSION:
        return DescribedGroup(group_id=group_id, group_state=DEAD)
    kind = "not found" if group is None else "not a classic group"
    return DescribedGroup(
        group_id=group_id,
        group_state=DEAD,
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"Group {group_id} {'is ' if group else ''}{kind}.",
    )


def error_response(request: Request, code: ErrorCode) -> DescribeGroupsResponse:
    """Return an answer with `code` for each group in the request."""
    return DescribeGroupsResponse(
        groups=[DescribedGroup(group_id=name, error_code=code) for name in request.body.groups]
    )
