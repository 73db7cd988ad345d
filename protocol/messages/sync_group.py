"""SyncGroup, API key 14, versions 0 to 5: the leader shares out the work, each member gets its own.

Version notes
- 1: `throttle_time_ms`. From 2 on a throttled answer is sent before the pause.
- 3: `group_instance_id` (KIP-345). 4: flexible.
- 5: both sides tell the protocol's type and name; a contradiction to the group's is
  INCONSISTENT_GROUP_PROTOCOL (KIP-559).

Source: SyncGroupRequest.json and SyncGroupResponse.json, Apache Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import Bytes, Int16, Int32, Nullable, Since, String, message, structure


@structure
class SyncGroupRequestAssignment:
    """The assignment of one member, in the bytes of the group's protocol."""

    member_id: String
    assignment: Bytes = b""


@message(api_key=14, kind="request", versions=(0, 5), flexible_since=4)
@structure
class SyncGroupRequest:
    """A member asks for its assignment; only the leader sends `assignments`."""

    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: Annotated[String | None, Since(3), Nullable(since=3)] = None
    protocol_type: Annotated[String | None, Since(5), Nullable(since=5)] = None
    protocol_name: Annotated[String | None, Since(5), Nullable(since=5)] = None
    assignments: list[SyncGroupRequestAssignment] = field(default_factory=list)


@message(api_key=14, kind="response", versions=(0, 5), flexible_since=4)
@structure
class SyncGroupResponse:
    """The member's assignment."""

    throttle_time_ms: Annotated[Int32, Since(1)] = 0
    error_code: Int16 = 0
    protocol_type: Annotated[String | None, Since(5), Nullable(since=5)] = None
    protocol_name: Annotated[String | None, Since(5), Nullable(since=5)] = None
    assignment: Bytes = b""
