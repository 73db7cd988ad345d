"""DeleteRecords, API key 21, versions 0 to 2: let go of the records below an offset.

Version notes: from 1 on a throttled answer is sent before the pause; 2 flexible.

Source: DeleteRecordsRequest.json and DeleteRecordsResponse.json, Apache Kafka 4.3 (KIP-107).
"""

from dataclasses import field

from protocol.wire import Int16, Int32, Int64, String, message, structure


@structure
class DeleteRecordsPartition:
    """A partition and the first offset to keep; -1 stands for the high watermark."""

    partition_index: Int32
    offset: Int64


@structure
class DeleteRecordsTopic:
    """Partitions of one topic."""

    name: String
    partitions: list[DeleteRecordsPartition] = field(default_factory=list)


@message(api_key=21, kind="request", versions=(0, 2), flexible_since=2)
@structure
class DeleteRecordsRequest:
    """Partitions whose log start offset is to be raised."""

    topics: list[DeleteRecordsTopic] = field(default_factory=list)
    timeout_ms: Int32 = 0


@structure
class DeleteRecordsPartitionResult:
    """The new log start offset of one partition, or the error."""

    partition_index: Int32
    low_watermark: Int64 = 0
    error_code: Int16 = 0


@structure
class DeleteRecordsTopicResult:
    """Partitions of one topic."""

    name: String
    partitions: list[DeleteRecordsPartitionResult] = field(default_factory=list)


@message(api_key=21, kind="response", versions=(0, 2), flexible_since=2)
@structure
class DeleteRecordsResponse:
    """The outcome for each partition."""

    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult] = field(default_factory=list)
