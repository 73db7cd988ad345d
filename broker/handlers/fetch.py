"""Fetch, API key 1, versions 4-18.

Behaviour
- Whole batches from the partition's files, unopened; the first may begin before the offset asked
  for, and readers skip. The first partition that has anything yields at least one batch even if it
  is larger than the limits (KIP-74).
- A partition that is named again is answered once, by what was said of it last, as in Kafka.
- Nothing above the high watermark is served, so what a consumer has seen survives a power cut.
- Fewer than `min_bytes` there: the request is parked until there are, at most `max_wait_ms`. An
  unknown topic or partition beside known ones does not end the wait, as in Kafka: a consumer that
  still asks for what was deleted would ask without a pause.
- While answers that cannot leave fill `barnabas.answer.bytes.max`, a fetch gives 1 MiB at most.
- Large slices leave as mapped pages; what is not in the page cache is read by the pool first.
- Fetch sessions (KIP-227) are declined: every answer carries session id 0, which tells clients to
  send full requests; a request within a session gets FETCH_SESSION_ID_NOT_FOUND.
- A `current_leader_epoch` (KIP-320) other than the log's is fenced or unknown, a
  `last_fetched_epoch` that diverged is answered with where (KIP-595), one that has not come yet
  is OFFSET_OUT_OF_RANGE. Epochs below 0 are none.
- An error belongs to the partition that has it: the others are answered as if they were alone.

Version notes: 7 sessions, 9 leader epoch, 11 rack, 12 flexible and diverging epochs, 13 topic ids
(KIP-516), 15 replica state instead of replica id, 16 node endpoints (KIP-951), 17 directory ids.

Not done: no followers, so a fetch as a replica gets NOT_LEADER_OR_FOLLOWER for
every partition; no racks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from broker.error_mapping import error_code_of
from broker.partitions.epoch_fencing import UNDEFINED, end_of_epoch, fence
from broker.partitions.partition import ParkedFetch, Partition
from broker.partitions.warm_reads import ATTEMPTS_MAX
from broker.runtime.owners import Owner
from broker.runtime.request import Pending, Request
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from storage.errors import StorageError
from storage.log import Log
from storage.segments.cold import Cold, without_waiting
from storage.segments.log_file import LogSlice

logger = logging.getLogger("barnabas.requests")

TOPIC_ID_VERSION = 13
READ_COMMITTED = 1
SESSION_NONE = 0
EPOCH_FULL = 0
EPOCH_FINAL = -1
PRESSED_BYTES_MAX = 1024 * 1024


class _Reading:
    """One fetch: what it asks for, resolved once, and read as often as it is woken."""

    __slots__ = (
        "attempts_left", "body", "cold", "missing", "pending", "request", "services", "targets",
        "unforeseen",
    )  # fmt: skip

    def __init__(self, request: Request, services: Services) -> None:
        self.request = request
        self.body: FetchRequest = request.body
        self.services = services
        self.pending: Pending | None = None
        self.cold: list[tuple[PartitionData, LogSlice]] = []
        self.missing: list[Cold] = []  # what look-ups need
        self.attempts_left = ATTEMPTS_MAX
        self.unforeseen = 0  # failures to be counted
        self.targets: list[tuple[FetchTopic, list[tuple[FetchPartition, _Target]]]] = []

    def resolve(self) -> None:
        """Look every partition up."""
        by_id = self.request.header.api_version >= TOPIC_ID_VERSION
        for topic, partitions in _once_each(self.body.topics, by_id=by_id):
            name: str | None = topic.topic
            if by_id:
                known = self.services.topics.by_id(topic.topic_id)
                name = None if known is None else known.name
            self.targets.append(
                (topic, [(asked, self._target(name, asked)) for asked in partitions])
            )

    def _target(self, name: str | None, asked: FetchPartition) -> _Target:
        if name is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        try:
            partition = self.services.partitions.get(name, asked.partition)
        except StorageError as error:
            return error_code_of(error)
        if asked.current_leader_epoch >= 0:
            return fence(partition.log, asked.current_leader_epoch) or partition
        return partition

    def partitions(self) -> list[Partition]:
        """Return the partitions that can be read."""
        return [
            target
            for _, asked_targets in self.targets
            for _, target in asked_targets
            if isinstance(target, Partition)
        ]

    def enough(self) -> bool:
        """Whether an answer now would have `min_bytes`, or something that cannot wait.

        An error cannot wait: the read that follows says whose it is. What is not in memory is
        left to that read, too.
        """
        try:
            with without_waiting():
                return self._is_enough()
        except (StorageError, OSError, Cold):
            return True

    def _is_enough(self) -> bool:
        wanted = min(self.body.min_bytes, self.body.max_bytes, self.services.config.fetch_max_bytes)
        none_known = True
        for _, asked_targets in self.targets:
            for asked, target in asked_targets:
                if not isinstance(target, Partition):
                    if target not in UNKNOWN:
                        return True
                    continue
                none_known = False
                log = target.log
                if asked.last_fetched_epoch >= 0 and _divergence(log, asked) is not None:
                    return True
                offset = asked.fetch_offset
                if not log.start_offset <= offset <= log.end_offset:
                    return True
                if offset < log.high_watermark:
                    if wanted <= 1:
                        return True  # as most consumers ask: no look-up before the one that reads
                    # available_bytes may say 0 of what is there: damage, which a read reports.
                    available = log.available_bytes(offset)
                    if available <= 0:
                        return True
                    # The first partition gives a batch however little of it is asked for.
                    wanted -= min(available, max(asked.partition_max_bytes, 1))
                    if wanted <= 0:
                        return True
        return none_known or wanted <= 0

    def read(self) -> FetchResponse:
        """Read what is there now. Slices that are not in the page cache are left in `cold`."""
        left = min(self.body.max_bytes, self.services.config.fetch_max_bytes)
        if self.services.answers.full:
            left = min(left, PRESSED_BYTES_MAX)
        by_id = self.request.header.api_version >= TOPIC_ID_VERSION
        response = FetchResponse(session_id=SESSION_NONE)
        nothing_yet = True
        for topic, asked_targets in self.targets:
            answers = []
            for asked, target in asked_targets:
                if not isinstance(target, Partition):
                    answers.append(_refused(asked, target))
                    continue
                answer, size = self._read_partition(target.log, asked, left, first=nothing_yet)
                answers.append(answer)
                left -= size
                nothing_yet = nothing_yet and not size
            response.responses.append(
                FetchableTopicResponse(
                    topic="" if by_id else topic.topic,
                    topic_id=topic.topic_id,
                    partitions=answers,
                )
            )
        return response

    def _read_partition(
        self, log: Log, asked: FetchPartition, left: int, *, first: bool
    ) -> tuple[PartitionData, int]:
        answer = PartitionData(
            partition_index=asked.partition,
            high_watermark=log.high_watermark,
            last_stable_offset=log.high_watermark,
            log_start_offset=log.start_offset,
            # Null tells a reader of uncommitted records that nothing was left out (Kafka's answer).
            aborted_transactions=[] if self.body.isolation_level == READ_COMMITTED else None,
            records=b"",
        )
        size_max = min(left, asked.partition_max_bytes)
        try:
            if asked.last_fetched_epoch >= 0:
                divergence = _divergence(log, asked)
                if divergence == UNDEFINED:
                    _say_error(answer, ErrorCode.OFFSET_OUT_OF_RANGE)
                    return answer, 0
                if divergence is not None:
                    epoch, end_offset = divergence
                    answer.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
                    return answer, 0
            if size_max <= 0 and not first:
                # Out of range must be said even when there is no room for bytes.
                if not log.start_offset <= asked.fetch_offset <= log.end_offset:
                    _say_error(answer, ErrorCode.OFFSET_OUT_OF_RANGE)
                return answer, 0
            piece = log.read(asked.fetch_offset, max(size_max, 0), at_least_one_batch=first)
            if piece is None:
                return answer, 0
            copies = self.request.header.copies_records
            records = piece.read_hot() if copies else piece.load_hot()
        except Cold as cold:
            self.missing.append(cold)
            return answer, 0
        except Exception as error:
            self._fail(answer, log.directory, error)
            return answer, 0
        if records is None:
            self.cold.append((answer, piece))
        else:
            answer.records = records
        return answer, len(piece)

    def answer(self) -> None:
        """Read and answer: what a parked fetch is released to."""
        assert self.pending is not None
        try:
            response = self.read_or_begin()
        except Exception as error:  # whoever released it has others to see to
            self.pending.fail(error)
            return
        if response is not None:
            self.pending.complete(response)

    def read_or_begin(self) -> FetchResponse | None:
        """Read; None if a thread must fetch something first: `pending` is completed then.

        Where a look-up meets what is not in memory, all of it is read again afterwards.
        """
        if self.attempts_left:
            with without_waiting():
                response = self.read()
        else:
            response = self.read()
        self._count_failures()
        services = self.services
        if not self.missing and not self.cold:
            return response
        if self.pending is None:
            self.pending = Pending()
        if self.missing:
            self.attempts_left -= 1
            services.pool.submit(Owner.FETCH_READ, self._pull, self._pulled)
        else:
            services.metrics.reads_cold += len(self.cold)
            services.pool.submit(
                Owner.FETCH_READ, self.warm, lambda error: self._warmed(response, error)
            )
        return None

    def _pull(self) -> None:
        """Have in memory what look-ups missed: in the pool. An error is the next read's to say."""
        for cold in self.missing:
            try:
                cold.pull()
            except OSError:
                self.attempts_left = 0

    def _pulled(self, error: BaseException | None) -> None:
        assert self.pending is not None
        self.missing.clear()
        self.cold.clear()
        if isinstance(error, Exception):
            self.pending.fail(error)
        else:
            self.answer()

    def _warmed(self, response: FetchResponse, error: BaseException | None) -> None:
        assert self.pending is not None
        self._count_failures()
        if isinstance(error, Exception):
            self.pending.fail(error)
        else:
            self.pending.complete(response)

    def warm(self) -> None:
        """Load the cold slices: in the pool, since it waits for the disk."""
        for answer, piece in self.cold:
            try:
                copies = self.request.header.copies_records
                answer.records = piece.read() if copies else piece.load()
            except Exception as error:
                self._fail(answer, piece.log_file.path, error)

    def _fail(self, answer: PartitionData, path: str, error: Exception) -> None:
        """Answer a read that failed. What nobody foresaw ends it for this partition alone, too."""
        code = error_code_of(error)
        if code is ErrorCode.UNKNOWN_SERVER_ERROR:
            self.unforeseen += 1
            logger.error("Error processing fetch from %s", path, exc_info=error)
        _say_error(answer, code)

    def _count_failures(self) -> None:
        self.services.metrics.request_errors += self.unforeseen
        self.unforeseen = 0


def _once_each(
    topics: list[FetchTopic], *, by_id: bool
) -> list[tuple[FetchTopic, Iterable[FetchPartition]]]:
    """Return what is asked of each partition: what was said last, in the place of the first."""
    if len(topics) == 1 and len(topics[0].partitions) == 1:
        return [(topics[0], topics[0].partitions)]
    once: dict[str | bytes, tuple[FetchTopic, dict[int, FetchPartition]]] = {}
    for topic in topics:
        _, partitions = once.setdefault(topic.topic_id if by_id else topic.topic, (topic, {}))
        for asked in topic.partitions:
            partitions[asked.partition] = asked
    return [(topic, partitions.values()) for topic, partitions in once.values()]


_Target = Partition | ErrorCode
UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def handle(request: Request, services: Services) -> FetchResponse | Pending:
    """Read now, or park until there is enough to read."""
    body: FetchRequest = request.body
    session_error = _session_error(body)
    if session_error:
        return FetchResponse(error_code=session_error, session_id=SESSION_NONE)
    reading = _Reading(request, services)
    if _replica_id(request, body) >= 0:
        response = error_response(request, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        response.error_code = ErrorCode.NONE  # only the partitions are in error
        return response
    reading.resolve()
    if body.max_wait_ms <= 0 or not reading.targets or reading.enough():
        now = reading.read_or_begin()
        if now is not None:
            return now
        assert reading.pending is not None
        return reading.pending
    pending = reading.pending = Pending()
    partitions = reading.partitions()
    services.purgatory.park(
        ParkedFetch(request, partitions, reading.enough, reading.answer), body.max_wait_ms
    )
    for partition in partitions:
        # A reader is here now: what was appended without anyone waiting is flushed at once.
        if partition.log.high_watermark < partition.log.end_offset:
            services.commit.flush_now(partition)
    return pending


def _divergence(log: Log, asked: FetchPartition) -> tuple[int, int] | None:
    """Where the history of a reader parts from the log's; None: it does not."""
    epoch, end_offset = end_of_epoch(log, asked.last_fetched_epoch)
    if epoch < asked.last_fetched_epoch or end_offset < asked.fetch_offset:
        return epoch, end_offset
    return None


def _session_error(body: FetchRequest) -> ErrorCode | None:
    if body.session_epoch in (EPOCH_FULL, EPOCH_FINAL):
        return None  # a full fetch, whatever session it begins or ends
    return ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def _replica_id(request: Request, body: FetchRequest) -> int:
    if request.header.api_version >= 15:
        return body.replica_state.replica_id
    return body.replica_id


def _refused(asked: FetchPartition, code: ErrorCode) -> PartitionData:
    answer = PartitionData(
        partition_index=asked.partition, high_watermark=-1, aborted_transactions=None, records=b""
    )
    _say_error(answer, code)
    if code in UNKNOWN:
        answer.aborted_transactions = []  # null is for what was found: Kafka's two ways to say no
    return answer


def _say_error(answer: PartitionData, code: ErrorCode) -> None:
    answer.error_code = code
    answer.records = b""
    answer.aborted_transactions = None
    answer.high_watermark = answer.last_stable_offset = answer.log_start_offset = -1


def error_response(request: Request, code: ErrorCode) -> FetchResponse:
    """Return the answer that says `code` of every partition asked for."""
    return FetchResponse(
        error_code=code if request.header.api_version >= 7 else ErrorCode.NONE,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[_refused(asked, code) for asked in topic.partitions],
            )
            for topic in request.body.topics
        ],
    )
