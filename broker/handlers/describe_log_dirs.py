"""DescribeLogDirs, API key 35, versions 1-5.

Behaviour
- There is one directory, with the requested partitions (null: all) and the size of each one's log
  files. Partitions that do not exist, or are offline, are left out without an error, as in Kafka.
  The metadata log is not listed.
- The offset lag is always 0: Kafka has one for followers, and for logs that move to another
  directory.
- Total and usable bytes are those of the volume, for an unprivileged process.

Version notes: 2 flexible, 3 an error of the whole answer, 4 total and usable bytes (KIP-827),
5 cordoned directories (KIP-1066; ours never is).
"""

from __future__ import annotations

from broker.partitions.partition import Partition
from broker.runtime.request import Request
from broker.runtime.steps import Steps
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from storage.errors import StorageError

PARTITIONS_PER_TURN = 1_000  # about a millisecond, after which the loop gets a turn


async def handle(request: Request, services: Services) -> Steps:
    """Describe the data directory."""
    logs = services.logs
    path = logs.directory.path

    def volume() -> tuple[int, int]:
        return logs.directory.filesystem.total_bytes(path), logs.directory.filesystem.free_bytes(
            path
        )

    total_bytes, usable_bytes = await services.pool.run(volume)
    result = DescribeLogDirsResult(
        log_dir=path, topics=[], total_bytes=total_bytes, usable_bytes=usable_bytes
    )
    return _described(request.body, services, result)


def _described(
    body: DescribeLogDirsRequest, services: Services, result: DescribeLogDirsResult
) -> Steps:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for partition in _wanted(body, services):
        log = partition.log
        topic = topics.setdefault(log.topic, DescribeLogDirsTopic(name=log.topic))
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=log.partition, partition_size=log.size_bytes, offset_lag=0
            )
        )
        yield 0
    result.topics = list(topics.values())
    return DescribeLogDirsResponse(results=[result])


def _wanted(body: DescribeLogDirsRequest, services: Services) -> list[Partition]:
    """Return the requested partitions that are open, each once."""
    if body.topics is None:
        return services.partitions.all()
    found: dict[Partition, None] = {}
    for topic in body.topics:
        for number in topic.partitions:
            try:
                found[services.partitions.get(topic.topic, number)] = None
            except StorageError:  # unknown or offline
                continue
    return list(found)


def error_response(request: Request, code: ErrorCode) -> DescribeLogDirsResponse:  # noqa: ARG001
    """Return an answer with `code` that describes nothing."""
    return DescribeLogDirsResponse(error_code=code)
