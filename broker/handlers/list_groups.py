"""ListGroups, API key 16, versions 0-5.

Behaviour
- Lists all groups in the order of their ids, including groups that only have offsets.
- Filters ignore case. An unknown state or type matches no group.

Version notes: 3 flexible, 4 states (KIP-518), 5 types (KIP-848).
"""

from __future__ import annotations

from heapq import merge

from broker.groups.errors import GroupError
from broker.groups.group import Group
from broker.runtime.request import Request
from broker.runtime.steps import Steps
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

SORTED_PER_STEP = 1_000


def handle(request: Request, services: Services) -> Steps:
    """List the groups that match the filters."""
    body: ListGroupsRequest = request.body
    try:
        services.groups.check_can_list()
    except GroupError as error:
        return error_response(request, error.code)
    states = {state.lower() for state in body.states_filter}
    types = {kind.lower() for kind in body.types_filter}
    response = ListGroupsResponse()
    found = list(services.groups.groups())
    runs: list[list[Group]] = []
    for start in range(0, len(found), SORTED_PER_STEP):  # 100,000 at once would take 100 ms
        runs.append(sorted(found[start : start + SORTED_PER_STEP], key=_group_id))
        yield 0
    for group in merge(*runs, key=_group_id):
        state, kind = group.state_name, group.kind.value
        if (not states or state.lower() in states) and (not types or kind.lower() in types):
            response.groups.append(
                ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type or "",
                    group_state=state,
                    group_type=kind,
                )
            )
        yield 0
    return response


def _group_id(group: Group) -> str:
    return group.group_id


def error_response(request: Request, code: ErrorCode) -> ListGroupsResponse:  # noqa: ARG001
    """Return an answer with `code`."""
    return ListGroupsResponse(error_code=code)
