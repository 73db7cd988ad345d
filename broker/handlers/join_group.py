"""JoinGroup, API key 11, versions 0-9: the classic group protocol (KIP-62, 134, 345, 394, 814).

Behaviour
- Answered when the generation of the member is known: when all members have joined, or the time
  for that is up. The rules are in broker/groups/classic/joining.py and rebalance.py.
- A connection that ends does not take its member along, as in Kafka: its session does.

Version notes: 0 the session timeout is the rebalance timeout, too; 4 MEMBER_ID_REQUIRED, 5 static
members, 6 flexible, 7 protocol type and null protocol name, 8 reason (not kept), 9 skip
assignment.
"""

from __future__ import annotations

from broker.groups.group import Caller
from broker.runtime.request import Pending, Request
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupResponse

NULL_NAME_VERSION = 7


def handle(request: Request, services: Services) -> Pending:
    """Let a member join, or join again."""
    pending = Pending()
    header = request.header

    def answer(response: JoinGroupResponse) -> None:
        if response.error_code:  # a refusal tells of no protocol
            response.protocol_name = None if header.api_version >= NULL_NAME_VERSION else ""
        pending.complete(response)

    caller = Caller(header.client_id or "", f"/{request.info.peer_host}", header.api_version)
    services.groups.join(request.body, caller, answer)
    return pending


def error_response(request: Request, code: ErrorCode) -> JoinGroupResponse:
    """Return the answer that says `code`."""
    return JoinGroupResponse(member_id=request.body.member_id, error_code=code)
