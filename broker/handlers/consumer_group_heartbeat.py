"""ConsumerGroupHeartbeat, API key 68, versions 0-1: members of a consumer group join and report.

Behaviour (KIP-848)
- The rules are in broker/groups/consumer: joining, moving to the target assignment, leaving, and
  refusals. The answer comes when the state that it reports is durable.
- The first heartbeat creates the group, and `__consumer_offsets`.

Version notes: 1 regular expressions; members generate their own ids (KIP-1082).
"""

from __future__ import annotations

from broker.groups.group import Caller
from broker.groups.member_requests import consumer_group_heartbeat
from broker.rights.standing import describable
from broker.runtime.request import Pending, Request
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse


def handle(request: Request, services: Services) -> Pending:
    """Let a member join, report its partitions, or leave."""
    header = request.header
    caller = Caller(
        header.client_id or "",
        f"/{request.info.peer_host}",
        header.api_version,
        *describable(request, services.authorizer),
    )
    pending = Pending()
    consumer_group_heartbeat(services.groups, request.body, caller, pending.complete)
    return pending


def error_response(
    request: Request,  # noqa: ARG001
    code: ErrorCode,
) -> ConsumerGroupHeartbeatResponse:
    """Return an answer with `code`."""
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=code.message)
