"""DeleteGroups, API key 42, versions 0 to 2: remove groups and all their offsets (KIP-229).

Version notes: from 1 on a throttled answer is sent before the pause; 2 flexible.

Source: DeleteGroupsRequest.json and DeleteGroupsResponse.json, Apache Kafka 4.3.
"""

from dataclasses import field

from protocol.wire import Int16, Int32, String, message, structure


@message(api_key=42, kind="request", versions=(0, 2), flexible_since=2)
@structure
class DeleteGroupsRequest:
    """Ids of groups."""

    groups_names: list[String] = field(default_factory=list)


@structure
class DeletableGroupResult:
    """The outcome for one group."""

    group_id: String
    error_code: Int16 = 0


@message(api_key=42, kind="response", versions=(0, 2), flexible_since=2)
@structure
class DeleteGroupsResponse:
    """An answer for every group of the request."""

    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult] = field(default_factory=list)
