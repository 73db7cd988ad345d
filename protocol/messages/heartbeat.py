"""Heartbeat, API key 12, versions 0 to 4: a member of a classic group is alive.

Version notes: 1 `throttle_time_ms`; from 2 on a throttled answer is sent before the pause;
3 `group_instance_id` (KIP-345); 4 flexible.

Source: HeartbeatRequest.json and HeartbeatResponse.json, Apache Kafka 4.3.
"""

from typing import Annotated

from protocol.wire import Int16, Int32, Nullable, Since, String, message, structure


@message(api_key=12, kind="request", versions=(0, 4), flexible_since=4)
@structure
class HeartbeatRequest:
    """A member and the generation it believes to be in."""

    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: Annotated[String | None, Since(3), Nullable(since=3)] = None


@message(api_key=12, kind="response", versions=(0, 4), flexible_since=4)
@structure
class HeartbeatResponse:
    """Only an error; REBALANCE_IN_PROGRESS tells the member to join again."""

    throttle_time_ms: Annotated[Int32, Since(1)] = 0
    error_code: Int16 = 0
