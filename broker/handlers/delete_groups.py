"""DeleteGroups, API key 42, versions 0-2: delete groups with their committed offsets (KIP-229).

Behaviour
- Only groups without members are deleted. Each has an outcome of its own. The answer comes when
  the deletions are durable.
- Groups and offsets are deleted in turns of the loop (broker/groups/removal.py).

Version notes: 2 flexible.
"""

from __future__ import annotations

from broker.groups.removal import delete_groups
from broker.runtime.request import Request
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


async def handle(request: Request, services: Services) -> DeleteGroupsResponse:
    """Delete each group."""
    body: DeleteGroupsRequest = request.body
    names = list(dict.fromkeys(body.groups_names))
    codes = await delete_groups(services.groups, names)
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=name, error_code=code)
            for name, code in zip(names, codes, strict=True)
        ]
    )


def error_response(request: Request, code: ErrorCode) -> DeleteGroupsResponse:
    """Return an answer with `code` for each group in the request."""
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=name, error_code=code)
            for name in request.body.groups_names
        ]
    )
