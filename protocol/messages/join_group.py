"""JoinGroup, API key 11, versions 0 to 9: become a member of a classic group, or stay one.

Version notes
- 1: `rebalance_timeout_ms`; before, the session timeout stands for it (KIP-62).
  2: `throttle_time_ms`. From 3 on a throttled answer is sent before the pause.
- 4: a new member without a static id is told its id with MEMBER_ID_REQUIRED, and joins again with
  it (KIP-394). 5: `group_instance_id` (KIP-345). 6: flexible.
- 7: the answer tells the protocol's type, and `protocol_name` may be null (KIP-559).
- 8: `reason` (KIP-800). 9: `skip_assignment` (KIP-814).

Source: JoinGroupRequest.json and JoinGroupResponse.json, Apache Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import Bool, Bytes, Int16, Int32, Nullable, Since, String, message, structure


@structure
class JoinGroupRequestProtocol:
    """An assignment protocol, and this member's metadata for it."""

    name: String
    metadata: Bytes = b""


@message(api_key=11, kind="request", versions=(0, 9), flexible_since=6)
@structure
class JoinGroupRequest:
    """A member and its protocols, the preferred one first; a new member has no `member_id`.

    `rebalance_timeout_ms`: how long the others wait for it to join again; -1 when not told.
    """

    group_id: String
    session_timeout_ms: Int32
    rebalance_timeout_ms: Annotated[Int32, Since(1)] = -1
    member_id: String = ""
    group_instance_id: Annotated[String | None, Since(5), Nullable(since=5)] = None
    protocol_type: String
    protocols: list[JoinGroupRequestProtocol] = field(default_factory=list)
    reason: Annotated[String | None, Since(8), Nullable(since=8)] = None


@structure
class JoinGroupResponseMember:
    """A member as the leader sees it: `metadata` is that of the chosen protocol."""

    member_id: String
    group_instance_id: Annotated[String | None, Since(5), Nullable(since=5)] = None
    metadata: Bytes = b""


@message(api_key=11, kind="response", versions=(0, 9), flexible_since=6)
@structure
class JoinGroupResponse:
    """The new generation; only its leader gets `members`."""

    throttle_time_ms: Annotated[Int32, Since(2)] = 0
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: Annotated[String | None, Since(7), Nullable(since=7)] = None
    protocol_name: Annotated[String | None, Nullable(since=7)] = ""
    leader: String = ""
    skip_assignment: Annotated[Bool, Since(9)] = False
    member_id: String = ""
    members: list[JoinGroupResponseMember] = field(default_factory=list)
