"""DescribeLogDirs, API key 35, versions 1 to 5: how much each partition takes, and of what volume.

Version notes
- 0 went with Apache Kafka 4.0. From 1 on a throttled answer is sent before the pause. 2: flexible.
- 3: an error of the whole answer. 4: the volume's size and free bytes (KIP-827). 5: cordoned
  directories (KIP-1066).

Source: DescribeLogDirsRequest.json and DescribeLogDirsResponse.json, Apache Kafka 4.3 (KIP-113).
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import Bool, Int16, Int32, Int64, Nullable, Since, String, message, structure


@structure
class DescribableLogDirTopic:
    """Partitions of one topic."""

    topic: String
    partitions: list[Int32] = field(default_factory=list)


@message(api_key=35, kind="request", versions=(1, 5), flexible_since=2)
@structure
class DescribeLogDirsRequest:
    """Partitions to describe; null means all."""

    topics: Annotated[list[DescribableLogDirTopic] | None, Nullable()] = field(default_factory=list)


@structure
class DescribeLogDirsPartition:
    """One partition: the bytes of its log, and how many records are not yet visible."""

    partition_index: Int32
    partition_size: Int64
    offset_lag: Int64
    is_future_key: Bool = False


@structure
class DescribeLogDirsTopic:
    """Partitions of one topic."""

    name: String
    partitions: list[DescribeLogDirsPartition] = field(default_factory=list)


@structure
class DescribeLogDirsResult:
    """One directory. The bytes are those of the volume that it is on."""

    error_code: Int16 = 0
    log_dir: String
    topics: list[DescribeLogDirsTopic] = field(default_factory=list)
    total_bytes: Annotated[Int64, Since(4)] = -1
    usable_bytes: Annotated[Int64, Since(4)] = -1
    is_cordoned: Annotated[Bool, Since(5)] = False


@message(api_key=35, kind="response", versions=(1, 5), flexible_since=2)
@structure
class DescribeLogDirsResponse:
    """Every directory."""

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Since(3)] = 0
    results: list[DescribeLogDirsResult] = field(default_factory=list)
