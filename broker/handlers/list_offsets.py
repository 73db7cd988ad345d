"""ListOffsets, API key 2, versions 1-11.

Behaviour
- Timestamps: -1 latest (the high watermark, and for isolation level read_committed the last stable
  offset), -2 earliest, -3 the record with the largest timestamp (KIP-734; it may lie below the log
  start, until its segment is deleted), -4 earliest local (KIP-405; the same as earliest here), -5
  latest tiered and -6 earliest pending upload (KIP-1005, KIP-1023; there is no tiered storage:
  offset -1); from 0 on, the first record at or after that time.
- Latest, largest timestamp and lookups by time wait for the flush that covers the log's end at
  arrival, so that "produce with acks=1, then ask for the end" is answered as by Kafka. A thread
  opens the batch that holds the record. A record above the high watermark, appended meanwhile, is
  answered when it becomes visible. On a failed log it never will, and is answered as if there were
  none (Kafka: Partition.fetchOffsetForTimestamp).
- Earliest waits for DeleteRecords that is under way there: its client may not have waited for the
  answer. Without an end before the timeout, the start as it is is answered.
- A record that is not below the last stable offset is not there for read_committed: offset -1.
- A `current_leader_epoch` other than the log's is fenced or unknown (KIP-320).
- A partition that is named twice is answered once, with INVALID_REQUEST.

Version notes: 2 isolation level, 4 leader epoch, 6 flexible, 7 -3, 8 -4, 9 -5, 10 timeout_ms
(KIP-1075), 11 -6.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

from broker.error_mapping import code_of_failed_read, error_code_of
from broker.partitions.epoch_fencing import NO_EPOCH, epoch_at, fence
from broker.partitions.fetch_asked import READ_COMMITTED
from broker.partitions.partition import Partition
from broker.partitions.warm_reads import when_warm
from broker.runtime import owners
from broker.runtime.clock import MS_NS, let_others_run
from broker.runtime.owners import Owner
from broker.runtime.request import Pending, Request, Responder
from broker.runtime.steps import Steps
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from storage.errors import StorageError
from storage.log import Log
from storage.segments.timestamp_lookup import TimestampCandidate, TimestampOffset

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
# The version from which each special timestamp may be asked for.
SPECIAL_SINCE = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
NOTHING_WAITED_FOR = (EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD)
DEFAULT_TIMEOUT_MS = 30_000  # Kafka's default request.timeout.ms, for versions without one


class _Progress:
    """One request in progress: its answer, and how many of its partitions still wait."""

    __slots__ = (
        "client",
        "deadline_ns",
        "is_committed",
        "outstanding",
        "pending",
        "response",
        "services",
    )

    def __init__(
        self, services: Services, client: Responder, timeout_ms: int, *, is_committed: bool
    ) -> None:
        self.services = services
        self.client = client
        self.is_committed = is_committed
        self.deadline_ns = services.clock.monotonic_ns() + timeout_ms * MS_NS
        self.response = ListOffsetsResponse()
        self.outstanding = 0
        self.pending: Pending | None = None

    def finish_one(self) -> None:
        """Count one outstanding partition as done; the last one sends the answer."""
        self.outstanding -= 1
        if self.outstanding == 0 and self.pending is not None:
            self.pending.complete(self.response)

    @property
    def left_ms(self) -> int:
        """How long the answer may still take."""
        return max(0, (self.deadline_ns - self.services.clock.monotonic_ns()) // MS_NS)


def handle(request: Request, services: Services) -> Steps:
    """Answer each partition, now or when its log's end is durable."""
    body: ListOffsetsRequest = request.body
    version = request.header.api_version
    timeout_ms = body.timeout_ms if version >= 10 else DEFAULT_TIMEOUT_MS
    is_committed = body.isolation_level == READ_COMMITTED
    progress = _Progress(services, request.connection, timeout_ms, is_committed=is_committed)
    counts = Counter(
        (topic.name, asked.partition_index) for topic in body.topics for asked in topic.partitions
    )
    for topic in body.topics:
        answers = []
        for asked in topic.partitions:
            yield 0
            times = counts.pop((topic.name, asked.partition_index), 0)
            if not times:
                continue  # named again, and refused before
            answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
            answers.append(answer)
            if times > 1:
                answer.error_code = ErrorCode.INVALID_REQUEST
            else:
                _resolve(progress, topic.name, asked, answer, version)
        if answers:
            progress.response.topics.append(
                ListOffsetsTopicResponse(name=topic.name, partitions=answers)
            )
    if progress.outstanding == 0:
        return progress.response
    progress.pending = Pending()
    return progress.pending


def _resolve(
    progress: _Progress,
    topic: str,
    asked: ListOffsetsPartition,
    answer: ListOffsetsPartitionResponse,
    version: int,
) -> None:
    timestamp = asked.timestamp
    if timestamp < 0 and version < SPECIAL_SINCE.get(timestamp, version + 1):
        answer.error_code = ErrorCode.UNSUPPORTED_VERSION
        return
    try:
        partition = progress.services.partitions.get(topic, asked.partition_index)
    except StorageError as error:
        answer.error_code = error_code_of(error)
        return
    log = partition.log
    if code := fence(log, asked.current_leader_epoch):
        answer.error_code = code
        return
    if timestamp in (EARLIEST, EARLIEST_LOCAL) and progress.services.starts.is_cut(log):
        progress.outstanding += 1
        start = _say_start_when_cut(progress, partition, answer)
        owners.spawn(Owner.REQUEST, start, "the start of a log that is being cut")
        return
    if timestamp in NOTHING_WAITED_FOR or log.high_watermark >= log.end_offset:
        _look_up(progress, partition, timestamp, answer)
        return

    def durable(code: ErrorCode) -> None:
        # A failed log is still read, up to its durable end.
        if code in (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR):
            _look_up(progress, partition, timestamp, answer)
        else:  # timed out, or the topic was deleted meanwhile
            answer.error_code = code
        progress.finish_one()

    progress.outstanding += 1
    progress.services.commit.wait(partition, log.end_offset, progress.left_ms, durable)


def _look_up(
    progress: _Progress,
    partition: Partition,
    timestamp: int,
    answer: ListOffsetsPartitionResponse,
) -> None:
    log = partition.log
    answer.leader_epoch = log.leader_epoch
    if timestamp == LATEST:
        answer.offset = log.last_stable_offset if progress.is_committed else log.high_watermark
    elif timestamp in (EARLIEST, EARLIEST_LOCAL):
        answer.offset = log.start_offset
        answer.leader_epoch = epoch_at(log, log.start_offset)
    elif timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        answer.leader_epoch = NO_EPOCH
    else:
        answer.leader_epoch = NO_EPOCH
        wanted = None if timestamp == MAX_TIMESTAMP else timestamp
        progress.outstanding += 1
        _look_into(progress, partition, partial(log.timestamp_candidates, wanted), answer)


async def _say_start_when_cut(
    progress: _Progress, partition: Partition, answer: ListOffsetsPartitionResponse
) -> None:
    await progress.services.starts.until_cut(partition.log, progress.left_ms / 1000)
    _look_up(progress, partition, EARLIEST, answer)
    progress.finish_one()


def _look_into(
    progress: _Progress,
    partition: Partition,
    candidates: Callable[[int], Iterator[TimestampCandidate]],
    answer: ListOffsetsPartitionResponse,
    from_offset: int = 0,
) -> None:
    """Search the next segment that may hold the record, in a thread, piece by piece.

    The segments below `from_offset` have been searched. Each is looked up by itself: a log may have
    thousands that must be searched, as the largest timestamp of one may be that of a marker. Looked
    up again for each, their indexes would be read too often (`STARTS_MAX`).
    """
    services = progress.services

    def found(candidate: TimestampCandidate | Exception | None) -> None:
        if isinstance(candidate, TimestampCandidate):
            look_on(candidate)
            return
        if candidate is not None:
            answer.error_code = _said_of(partition.log, candidate)
        progress.finish_one()

    def look_on(candidate: TimestampCandidate) -> None:
        look = partial(candidate.look_on, let_others_run)
        done = partial(looked, candidate)
        services.record_work.submit(Owner.TIMESTAMP_LOOKUP, progress.client, look, done)

    def looked(candidate: TimestampCandidate, error: BaseException | None) -> None:
        if isinstance(error, Exception):
            answer.error_code = _said_of(partition.log, error)
            progress.finish_one()
        elif candidate.found is not None:
            _say_when_visible(progress, partition, candidate.found, answer)
        elif candidate.is_over:
            _look_into(progress, partition, candidates, answer, candidate.end_offset)
        else:
            look_on(candidate)

    def next_one() -> TimestampCandidate | None:
        return next(candidates(from_offset), None)

    when_warm(services.pool, Owner.TIMESTAMP_LOOKUP, next_one, found)


def _said_of(log: Log, error: Exception) -> ErrorCode:
    code = code_of_failed_read(log, error)
    if code is ErrorCode.UNKNOWN_SERVER_ERROR:
        owners.failed(Owner.TIMESTAMP_LOOKUP, error)
    return code


def _say_when_visible(
    progress: _Progress,
    partition: Partition,
    found: TimestampOffset,
    answer: ListOffsetsPartitionResponse,
) -> None:
    def visible(code: ErrorCode) -> None:
        if code is ErrorCode.NONE:
            if not progress.is_committed or found.offset < partition.log.last_stable_offset:
                answer.timestamp, answer.offset, answer.leader_epoch = found
        elif code is not ErrorCode.KAFKA_STORAGE_ERROR:
            answer.error_code = code
        progress.finish_one()

    progress.services.commit.wait(partition, found.offset + 1, progress.left_ms, visible)


def error_response(request: Request, code: ErrorCode) -> ListOffsetsResponse:
    """Return an answer with `code` for each partition in the request."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=asked.partition_index, error_code=code
                    )
                    for asked in topic.partitions
                ],
            )
            for topic in request.body.topics
        ]
    )
