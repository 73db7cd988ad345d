"""OffsetDelete, API key 47, version 0: forget offsets that a group has committed (KIP-496).

The only version has no compact forms.

Source: OffsetDeleteRequest.json and OffsetDeleteResponse.json, Apache Kafka 4.3.
"""

from dataclasses import field

from protocol.wire import Int16, Int32, String, message, structure


@structure
class OffsetDeleteRequestPartition:
    """A partition whose offset is to be deleted."""

    partition_index: Int32


@structure
class OffsetDeleteRequestTopic:
    """Partitions of one topic."""

    name: String
    partitions: list[OffsetDeleteRequestPartition] = field(default_factory=list)


@message(api_key=47, kind="request", versions=(0, 0), flexible_since=None)
@structure
class OffsetDeleteRequest:
    """A group and the partitions whose offsets are to be deleted."""

    group_id: String
    topics: list[OffsetDeleteRequestTopic] = field(default_factory=list)


@structure
class OffsetDeleteResponsePartition:
    """The outcome for one partition's offset."""

    partition_index: Int32
    error_code: Int16 = 0


@structure
class OffsetDeleteResponseTopic:
    """Partitions of one topic."""

    name: String
    partitions: list[OffsetDeleteResponsePartition] = field(default_factory=list)


@message(api_key=47, kind="response", versions=(0, 0), flexible_since=None)
@structure
class OffsetDeleteResponse:
    """The error of the group, or an answer for every partition; the error comes first."""

    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: list[OffsetDeleteResponseTopic] = field(default_factory=list)
