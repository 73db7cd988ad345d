"""DescribeGroups, API key 15, versions 0 to 6: the state and the members of classic groups.

Version notes
- 1: `throttle_time_ms`. From 2 on a throttled answer is sent before the pause.
- 3: operations that the asker is allowed (KIP-430). 4: `group_instance_id` (KIP-345). 5: flexible.
- 6: a group that is not there is GROUP_ID_NOT_FOUND with a message; before, one in state Dead
  without an error (KIP-1043).

Source: DescribeGroupsRequest.json and DescribeGroupsResponse.json, Apache Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import Bool, Bytes, Int16, Int32, Nullable, Since, String, message, structure

NOT_ASKED = -(2**31)


@message(api_key=15, kind="request", versions=(0, 6), flexible_since=5)
@structure
class DescribeGroupsRequest:
    """Ids of groups."""

    groups: list[String] = field(default_factory=list)
    include_authorized_operations: Annotated[Bool, Since(3)] = False


@structure
class DescribedGroupMember:
    """A member; Kafka fills in the two byte strings while the group is stable."""

    member_id: String
    group_instance_id: Annotated[String | None, Since(4), Nullable(since=4)] = None
    client_id: String = ""
    client_host: String = ""
    member_metadata: Bytes = b""
    member_assignment: Bytes = b""


@structure
class DescribedGroup:
    """A group. `protocol_data` is the chosen protocol's name.

    `authorized_operations` is a set of bits, -2^31 when not asked for.
    """

    error_code: Int16 = 0
    error_message: Annotated[String | None, Since(6), Nullable(since=6)] = None
    group_id: String
    group_state: String = ""
    protocol_type: String = ""
    protocol_data: String = ""
    members: list[DescribedGroupMember] = field(default_factory=list)
    authorized_operations: Annotated[Int32, Since(3)] = NOT_ASKED


@message(api_key=15, kind="response", versions=(0, 6), flexible_since=5)
@structure
class DescribeGroupsResponse:
    """An answer for every group of the request."""

    throttle_time_ms: Annotated[Int32, Since(1)] = 0
    groups: list[DescribedGroup] = field(default_factory=list)
