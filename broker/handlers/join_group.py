"""JoinGroup, API key 11, versions 0-9: the classic group protocol (KIP-62, 134, 345, 394, 814).

Behaviour
- The answer comes when the member's generation is known: when all members have joined, or the
  rebalance timeout has passed. The rules are in broker/groups/classic/joining.py and rebalance.py.
- A member outlives its connection, as in Kafka. It is removed after its session timeout.

Version notes: 0 the session timeout is also the rebalance timeout, 4 MEMBER_ID_REQUIRED, 5 static
members, 6 flexible, 7 protocol type and null protocol name, 8 reason (not kept), 9 skip
assignment.
"""

from __future__ import annotations

from broker.groups.group import Caller
from broker.groups.member_requests import join_group
from broker.rights.standing import describable
from broker.runtime.request import Pending, Request
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupResponse

NULL_NAME_VERSION = 7


def handle(request: Request, services: Services) -> Pending:
    """Let a member join or rejoin."""
    pending = Pending()
    header = request.header

    def answer(response: JoinGroupResponse) -> None:
        if response.error_code:  # a refusal names no protocol
            response.protocol_name = None if header.api_version >= NULL_NAME_VERSION else ""
        pending.complete(response)

    caller = Caller(
        header.client_id or "",
        f"/{request.info.peer_host}",
        header.api_version,
        *describable(request, services.authorizer),
    )
    join_group(services.groups, request.body, caller, answer)
    return pending


def error_response(request: Request, code: ErrorCode) -> JoinGroupResponse:
    """Return an answer with `code`."""
    return JoinGroupResponse(member_id=request.body.member_id, error_code=code)
