"""LeaveGroup, API key 13, versions 0 to 5: members go.

Version notes
- 1: `throttle_time_ms`. From 2 on a throttled answer is sent before the pause.
- 3: many members at once, each by its member id or its group instance id (KIP-345). 4: flexible.
- 5: `reason` (KIP-800).

Source: LeaveGroupRequest.json and LeaveGroupResponse.json, Apache Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import Int16, Int32, Nullable, Since, String, Until, message, structure


@structure
class MemberIdentity:
    """A member to remove; an administrator may send the static id without a member id."""

    member_id: String
    group_instance_id: Annotated[String | None, Nullable()] = None
    reason: Annotated[String | None, Since(5), Nullable(since=5)] = None


@message(api_key=13, kind="request", versions=(0, 5), flexible_since=4)
@structure
class LeaveGroupRequest:
    """One member up to version 2, `members` from 3 on."""

    group_id: String
    member_id: Annotated[String, Until(2)] = ""
    members: Annotated[list[MemberIdentity], Since(3)] = field(default_factory=list)


@structure
class MemberResponse:
    """The outcome for one member."""

    member_id: String
    group_instance_id: Annotated[String | None, Nullable()]
    error_code: Int16 = 0


@message(api_key=13, kind="response", versions=(0, 5), flexible_since=4)
@structure
class LeaveGroupResponse:
    """The error of the member up to version 2; of the group, and of each member, from 3 on."""

    throttle_time_ms: Annotated[Int32, Since(1)] = 0
    error_code: Int16 = 0
    members: Annotated[list[MemberResponse], Since(3)] = field(default_factory=list)
