"""The reading of one fetch: whether there is enough to answer, and the records of the answer.

The handler looks up the requested partitions once and makes a reading of them. The reading reads
as often as the fetch is woken (Kafka's DelayedFetch and ReplicaManager.readFromLog), and never
blocks the loop. A thread of the pool loads what is not in memory:

- bytes for a look-up (an index, a batch header): the thread pulls them in, then everything is read
  again, since the look-up was given up half-way (`storage.segments.cold`);
- records of a slice that was found: the thread loads them into the answer.

Records that were read, and not mapped, are looked at before they are sent (`Log.is_in_order`). If
they do not fit, the log checks its file anew, and the partition is read again: up to the damage, or
with an error.

A reader of isolation level read_committed gets and waits for what lies below the last stable
offset, and is told which transactions in it were aborted: it skips their records itself.

An error belongs to its partition, and the other partitions are answered all the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

from broker.error_mapping import code_of_failed_read
from broker.partitions.aborted_names import AbortedNames
from broker.partitions.epoch_fencing import UNDEFINED, divergence
from broker.partitions.fetch_asked import (
    READ_COMMITTED,
    UNKNOWN,
    Resolved,
    ResolvedTopics,
    View,
    have_enough,
)
from broker.partitions.fetch_counts import count_failures, take_back
from broker.partitions.partition import Partition
from broker.runtime.blocking_pool import BlockingPool
from broker.runtime.metrics import Metrics
from broker.runtime.owners import Owner
from broker.runtime.request import Pending, Request
from broker.runtime.steps import Steps
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
from storage.files.filesystem import Buffer
from storage.log import Log
from storage.segments.cold import NOTHING, Cold, Pulled, without_waiting
from storage.segments.log_file import LogSlice

logger = logging.getLogger("barnabas.requests")

TOPIC_ID_VERSION: Final = 13
SESSION_NONE: Final = 0
PRESSED_BYTES_MAX: Final = 1024 * 1024


class _ColdRecords(NamedTuple):
    """Records that a thread loads into the answer for one partition."""

    data: PartitionData
    log: Log
    offset: int  # that was asked for
    piece: LogSlice


class AnswerBudget(Protocol):
    """Bytes of answers that cannot leave yet (`barnabas.answer.bytes.max`)."""

    @property
    def full(self) -> bool:
        """Whether a fetch must answer with at most PRESSED_BYTES_MAX."""


class FetchReading:
    """The partitions of one fetch, read as often as the fetch is woken."""

    __slots__ = (
        "_aborted", "_answers", "_body", "_bytes_left", "_bytes_max", "_checked_anew", "_cold",
        "_has_errors", "_has_none_yet", "_is_committed", "_metrics", "_missing", "_pool", "_pulled",
        "_request", "_topics", "_unforeseen_count", "_view", "pending",
    )  # fmt: skip

    def __init__(
        self,
        request: Request,
        view: View,
        bytes_max: int,
        answers: AnswerBudget,
        pool: BlockingPool,
        metrics: Metrics,
    ) -> None:
        self._request = request
        self._body: FetchRequest = request.body
        self._is_committed = self._body.isolation_level == READ_COMMITTED
        self._view = view
        self._topics: ResolvedTopics = []  # of the last look
        self._bytes_max = bytes_max  # the broker's own limit (fetch.max.bytes)
        self._answers = answers
        self._pool = pool
        self._metrics = metrics
        self.pending: Pending | None = None
        self._cold: list[_ColdRecords] = []
        self._has_errors = False  # in the answer
        self._bytes_left = 0  # of the answer
        self._has_none_yet = True  # no records
        self._checked_anew: list[Log] = []  # because of what was read first
        self._missing: list[Cold] = []  # bytes that look-ups need
        takes_steps = not request.header.opens_records
        self._aborted = AbortedNames(takes_steps=takes_steps) if self._is_committed else None
        self._pulled = NOTHING  # for the look-ups of one reading
        self._unforeseen_count = 0  # failures that are not in the metrics yet

    def is_enough(self) -> bool:
        """Whether an answer now would have `min_bytes`, or something that cannot wait.

        An error or bytes that are not in memory cannot wait: the read that follows sees to them.
        """
        view = self._view
        try:
            topics, others = view.topics(), view.has_others
            return have_enough(topics, self._body, self._bytes_max, has_others=others)
        except (StorageError, OSError, Cold):
            return True

    def answer(self) -> None:
        """Read, and complete `pending`: what a parked fetch is released to."""
        pending = self.pending
        assert pending is not None
        try:
            response = self.read_or_load()
        except Exception as error:  # must not reach the caller, who has other fetches to release
            pending.fail(error)
            return
        if response is not pending:
            pending.complete(response)

    def read_or_load(self) -> FetchResponse | Steps | Pending:
        """Read and return the answer; return `pending` if a thread must load something first."""
        self._topics = self._view.topics()
        if self._pulled.starts_left:
            with without_waiting(self._pulled):
                response = self._read()
        else:
            response = self._read()
        return self._loaded_if_cold(response)

    def _loaded_if_cold(self, response: FetchResponse) -> FetchResponse | Steps | Pending:
        if self._unforeseen_count:
            self._count_failures()
        if not self._missing:
            self._pulled = NOTHING
            if not self._cold:
                return self._whole(response)
        if self.pending is None or self.pending.done:
            self.pending = Pending()
        if self._missing:
            take_back(self._topics, response, self._cold)
            self._pool.submit(Owner.FETCH_READ, partial(_pull, self._missing), self._go_on)
        else:
            self._metrics.reads_cold += len(self._cold)
            load = partial(_load, self._cold, self._request.header.copies_records, self._fail)
            self._pool.submit(Owner.FETCH_READ, load, partial(self._loaded, response))
        return self.pending

    def _read(self) -> FetchResponse:
        """Read what is in memory; note in `_cold` and `_missing` what is not."""
        response = self._begin_answer()
        by_id = self._request.header.api_version >= TOPIC_ID_VERSION
        for topic, partitions in self._topics:
            self._read_some(partitions, answers_of(topic, response, by_id=by_id))
        return response

    def _begin_answer(self) -> FetchResponse:
        left_max = PRESSED_BYTES_MAX if self._answers.full else self._bytes_max
        self._bytes_left = min(self._body.max_bytes, self._bytes_max, left_max)
        self._has_none_yet = True
        if self._aborted is not None:
            self._aborted.begin()
        return FetchResponse(session_id=SESSION_NONE)

    def _read_some(
        self, partitions: Sequence[tuple[FetchPartition, Resolved]], answers: list[PartitionData]
    ) -> None:
        """Read partitions of one topic into `answers`."""
        left, is_first = self._bytes_left, self._has_none_yet
        for asked, found in partitions:
            if isinstance(found, Partition):
                data, size = self._read_partition(found.log, asked, left, first=is_first)
            else:
                data, size = refused(asked, found), 0
            answers.append(data)
            if not size and data.error_code:
                self._has_errors = True
            left -= size
            is_first = is_first and not size
        self._bytes_left, self._has_none_yet = left, is_first

    def _read_partition(
        self, log: Log, asked: FetchPartition, left: int, *, first: bool
    ) -> tuple[PartitionData, int]:
        """Return the answer for one partition, and how many bytes of records it has or will have.

        `left` bytes may be read. The `first` partition with records gives at least one batch.
        """
        data = PartitionData(
            partition_index=asked.partition,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.start_offset,
            # As in Kafka, null means that nobody is to skip records: isolation read_uncommitted.
            aborted_transactions=[] if self._is_committed else None,
            records=b"",
        )
        limit = data.last_stable_offset if self._is_committed else data.high_watermark
        bytes_max = max(0, min(left, asked.partition_max_bytes))
        offset = asked.fetch_offset
        try:
            if asked.last_fetched_epoch >= 0 and _has_diverged(log, asked, data):
                return data, 0
            if not bytes_max and not first:
                # Out of range is reported even if there is no room for bytes.
                if not log.start_offset <= offset <= log.end_offset:
                    _say_error(data, ErrorCode.OFFSET_OUT_OF_RANGE)
                return data, 0
            header = self._request.header
            copied_max = header.copied_inline_max if header.copies_records else None
            aborts_matter = self._is_committed and log.segments.aborting
            may_read_on = copied_max is None and not aborts_matter
            if may_read_on and (records := log.read_on(offset, bytes_max, limit)):
                data.records = records
                log.read_bytes += len(records)
                return data, len(records)
            while True:
                piece = log.read(offset, bytes_max, at_least_one_batch=first, end_offset=limit)
                if piece is None:
                    return data, 0
                records = piece.load_hot() if copied_max is None else piece.read_hot(copied_max)
                if records is None or not self._must_read_again(log, offset, piece, records):
                    break
            if self._aborted is not None:
                self._aborted.name(data, log, piece, offset)
        except Cold as cold:
            self._missing.append(cold)
            return data, 0
        except Exception as error:
            self._fail(data, log, error)
            return data, 0
        if records is None:
            self._cold.append(_ColdRecords(data, log, offset, piece))
        else:
            data.records = records
        log.read_bytes += piece.size
        return data, piece.size

    def _whole(self, response: FetchResponse) -> FetchResponse | Steps:
        """Return an answer that has been read, or the steps that are left of it."""
        if self._has_errors:
            count_failures(self._topics, response, self._metrics.traffic)
        return response if self._aborted is None else self._aborted.whole(response)

    def _must_read_again(self, log: Log, offset: int, piece: LogSlice, records: Buffer) -> bool:
        """Whether what was read does not fit its log. Its file is checked then, once a fetch."""
        is_mapped = type(records) is memoryview and records.readonly
        if is_mapped or log.is_in_order(piece, records, offset) or log in self._checked_anew:
            return False
        log.distrust(piece)
        self._checked_anew.append(log)
        return True

    def _go_on(self, error: BaseException | None) -> None:
        assert self.pending is not None
        if self._pulled is NOTHING:
            self._pulled = Pulled()
        self._pulled.starts_left -= 1
        for cold in self._missing:
            cold.keep(self._pulled)
        self._missing.clear()
        self._cold.clear()
        if isinstance(error, Exception):
            self.pending.fail(error)
        else:
            self.answer()

    def _loaded(self, response: FetchResponse, error: BaseException | None) -> None:
        assert self.pending is not None
        self._count_failures()
        if isinstance(error, Exception):
            self.pending.fail(error)
            return
        doubtful = [
            cold
            for cold in self._cold
            if cold.data.records and self._must_read_again(*cold[1:], cold.data.records)
        ]
        self._cold.clear()
        if doubtful:
            take_back(self._topics, response)
            self.answer()
        else:
            self.pending.complete(self._whole(response))

    def _fail(self, data: PartitionData, log: Log, error: Exception) -> None:
        """Answer a failed read with its error code; log errors that were not foreseen."""
        code = code_of_failed_read(log, error)
        if code is ErrorCode.UNKNOWN_SERVER_ERROR:
            self._unforeseen_count += 1
            _log_unforeseen(log, error)
        self._has_errors = True
        _say_error(data, code)

    def _count_failures(self) -> None:
        self._metrics.request_errors += self._unforeseen_count
        self._unforeseen_count = 0


def _log_unforeseen(log: Log, error: Exception) -> None:
    where = {"directory": log.directory}
    logger.error("Error processing fetch from %(directory)s", where, exc_info=error)


def _pull(missing: Iterable[Cold]) -> None:
    """Bring into memory what look-ups missed. For a thread; the next read reports errors."""
    for cold in missing:
        cold.pull()


def _load(
    some: Iterable[_ColdRecords],
    copies: bool,  # noqa: FBT001 - given by position
    fail: Callable[[PartitionData, Log, Exception], None],
) -> None:
    """Load the records of slices that are not in memory. For a thread: waits for the disk."""
    for cold in some:
        try:
            cold.data.records = cold.piece.read() if copies else cold.piece.load()
        except Exception as error:
            fail(cold.data, cold.log, error)


def _has_diverged(log: Log, asked: FetchPartition, data: PartitionData) -> bool:
    """Whether the reader's log has left this one, which `data` then says."""
    diverged = divergence(log, asked.last_fetched_epoch, asked.fetch_offset)
    if diverged is None:
        return False
    if diverged == UNDEFINED:
        _say_error(data, ErrorCode.OFFSET_OUT_OF_RANGE)
    else:
        epoch, end_offset = diverged
        data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return True


def answers_of(topic: FetchTopic, response: FetchResponse, *, by_id: bool) -> list[PartitionData]:
    """Add a topic to an answer; return the list for its partitions."""
    answers: list[PartitionData] = []
    name = "" if by_id else topic.topic
    response.responses.append(
        FetchableTopicResponse(topic=name, topic_id=topic.topic_id, partitions=answers)
    )
    return answers


def refused(asked: FetchPartition, code: ErrorCode) -> PartitionData:
    """Return the answer for a partition that is not read, because of `code`."""
    data = PartitionData(
        partition_index=asked.partition, high_watermark=-1, aborted_transactions=None, records=b""
    )
    _say_error(data, code)
    if code in UNKNOWN:
        data.aborted_transactions = []  # null is for partitions that were found, as in Kafka
    return data


def _say_error(data: PartitionData, code: ErrorCode) -> None:
    data.error_code = code
    data.records = b""
    data.aborted_transactions = None
    data.high_watermark = data.last_stable_offset = data.log_start_offset = -1
