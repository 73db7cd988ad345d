"""ListGroups, API key 16, versions 0 to 5: the groups that a broker looks after.

Version notes
- 1: `throttle_time_ms`. From 2 on a throttled answer is sent before the pause. 3: flexible.
- 4: states, told and to choose by (KIP-518). 5: types, told and to choose by (KIP-848).

Source: ListGroupsRequest.json and ListGroupsResponse.json, Apache Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import Int16, Int32, Since, String, message, structure


@message(api_key=16, kind="request", versions=(0, 5), flexible_since=3)
@structure
class ListGroupsRequest:
    """Which groups to list; an empty list selects all."""

    states_filter: Annotated[list[String], Since(4)] = field(default_factory=list)
    types_filter: Annotated[list[String], Since(5)] = field(default_factory=list)


@structure
class ListedGroup:
    """A group. A group that has only offsets has the protocol type ""."""

    group_id: String
    protocol_type: String = ""
    group_state: Annotated[String, Since(4)] = ""
    group_type: Annotated[String, Since(5)] = ""


@message(api_key=16, kind="response", versions=(0, 5), flexible_since=3)
@structure
class ListGroupsResponse:
    """The groups that match."""

    throttle_time_ms: Annotated[Int32, Since(1)] = 0
    error_code: Int16 = 0
    groups: list[ListedGroup] = field(default_factory=list)
