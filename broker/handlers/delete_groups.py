"""DeleteGroups, API key 42, versions 0-2: delete groups with their committed offsets (KIP-229).

Behaviour
- Only groups without members are deleted. Each has an outcome of its own. The answer comes when
  the deletions are durable.
- Groups and offsets are deleted in turns of the loop (broker/groups/removal.py).

Version notes: 2 flexible.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.groups.removal import delete_groups
from broker.runtime.request import Request
from broker.runtime.steps import Steps
from broker.runtime.turns import InTurns
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

NAMES_PER_TURN = 5_000


async def handle(request: Request, services: Services) -> Steps:
    """Delete each group."""
    body: DeleteGroupsRequest = request.body
    names = await _names(body)
    return _answer(names, await delete_groups(services.groups, names))


async def _names(body: DeleteGroupsRequest) -> list[str]:
    """Return the names, each once."""
    names: dict[str, None] = {}
    async for name in InTurns(body.groups_names, NAMES_PER_TURN):
        names[name] = None
    return list(names)


def _answer(names: Sequence[str], codes: Sequence[ErrorCode]) -> Steps:
    response = DeleteGroupsResponse()
    for name, code in zip(names, codes, strict=True):
        response.results.append(DeletableGroupResult(group_id=name, error_code=code))
        yield 0
    return response


def error_response(request: Request, code: ErrorCode) -> DeleteGroupsResponse:
    """Return an answer with `code` for each group in the request."""
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=name, error_code=code)
            for name in request.body.groups_names
        ]
    )
