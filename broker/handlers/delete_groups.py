"""DeleteGroups, API key 42, versions 0-2: delete groups with their committed offsets (KIP-229).

Behaviour
- Only groups without members are deleted. Each has an outcome of its own. The answer comes when
  the deletions are durable.

Version notes: 2 flexible.
"""

from __future__ import annotations

import asyncio

from broker.groups.removal import delete_group
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
    codes = await asyncio.gather(*(delete_group(services.groups, name) for name in names))
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
