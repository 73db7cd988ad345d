"""Produce, API key 0, versions 3-13.

Behaviour
- Each partition's batch is checked by its header, lengths and CRC, unopened, and appended before
  this handler returns, in the order of the requests; or it is queued for the partition
  (broker/partitions/append_queue.py). If the topic has a `compression.type`, batches with another
  codec are opened, checked and recompressed, in their order. A compacted topic opens all batches,
  and refuses those with a record that has no key. Threads do that
  (broker/partitions/preparation.py).
- acks=0 is never answered; an error closes the connection, as in Kafka. acks=1 is answered when the
  batch is in the log. acks=-1 is answered when it is durable, or after `timeout_ms` with
  REQUEST_TIMED_OUT; the records may still become durable after that.
- A duplicate is answered like its original, and with acks=-1 when the original is durable.
- `min.insync.replicas` has no effect with one replica.
- Records for internal topics are INVALID_TOPIC_EXCEPTION, unless Kafka's admin client sends them.
- A transactional batch is appended if its transaction admits it, in the same turn of the loop
  (broker/transactions). From version 12 the request adds its partitions to the transaction; if the
  one before is still being ended, it waits for that.

Version notes: 8 adds error messages and record errors (KIP-467), 10 the current leader (KIP-951),
11 TRANSACTION_ABORTABLE, 12 adds partitions to transactions (KIP-890), 13 topic ids (KIP-516).
Versions 0 to 2 are advertised but not served, as in Kafka, for librdkafka's sake (KAFKA-18659).

Batches are accepted or refused whole. `record_errors` names the first hundred that lack a key, in a
compacted topic, or have a timestamp out of bounds; the message has the total (Kafka names all).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING

from broker.error_mapping import BatchRefused, error_code_of
from broker.metadata.topic_rules import INTERNAL_TOPICS, TopicError
from broker.partitions.partition import AppendOutcome, Partition
from broker.partitions.preparation import (
    AS_PRODUCED,
    COMPACT,
    INLINE_BYTES_MAX,
    is_quick,
    preparation,
)
from broker.refused_batches import count_refused, refuse_all, say_mistimed
from broker.rights.standing import Standing, standing_of
from broker.runtime.clock import let_others_run
from broker.runtime.owners import Owner
from broker.runtime.record_work import WalkAbandoned
from broker.runtime.request import Pending, Request
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from protocol.record_errors import CorruptBatch, RecordError, RecordsWithoutKey
from protocol.record_walks import Mistimed, mistimed
from storage.errors import InvalidTimestamp, StorageError
from storage.log import Appended

if TYPE_CHECKING:
    from broker.transactions.batch_admission import BatchAdmission

logger = logging.getLogger("barnabas.requests")

ACKS_ALL = -1
ACKS_VALID = (ACKS_ALL, 0, 1)
TOPIC_ID_VERSION = 13
ADMIN_CLIENT_ID = "__admin_client"  # Kafka's AdminUtils: may write to internal topics
OPENED_BYTES_MAX = 4 * 1024 * 1024  # of records, decompressed, to name the refused ones
RECORD_ERRORS_VERSION = 8
ADDS_PARTITIONS_VERSION = 12


class _Progress:
    """One request in progress: its answer, and how many of its partitions still wait."""

    __slots__ = (
        "acks",
        "admission",
        "client_id",
        "connection",
        "failures",
        "inline_bytes_left",
        "names_records",
        "outstanding",
        "pending",
        "request",
        "response",
        "services",
        "standing",
        "timeout_ms",
    )

    def __init__(self, request: Request, services: Services, standing: Standing | None) -> None:
        body: ProduceRequest = request.body
        header = request.header
        self.acks = body.acks
        self.admission: BatchAdmission | None = None
        if body.transactional_id is not None:
            self.admission = services.transactions.batches(
                body.transactional_id, header.api_version, services.appends
            )
        self.client_id = header.client_id
        self.connection = request.connection
        self.names_records = header.api_version >= RECORD_ERRORS_VERSION and body.acks != 0
        self.inline_bytes_left = INLINE_BYTES_MAX
        self.timeout_ms = body.timeout_ms
        self.request = request
        self.services = services
        self.standing = standing  # of a request that has waited, or whose batches wait
        self.response = ProduceResponse()
        self.outstanding = 0
        self.failures: set[ErrorCode] = set()
        self.pending: Pending | None = None

    def check_internal(self, name: str) -> None:
        """Refuse records for a topic that belongs to a coordinator, as in Kafka."""
        if self.client_id != ADMIN_CLIENT_ID:
            raise TopicError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {name}"
            )

    def count(self, code: ErrorCode, *why: object) -> None:
        """Note that a partition of the request failed; `why` is for `count_refused`."""
        self.failures.add(code)
        count_refused(self.services.metrics.traffic, code, *why)  # type: ignore[arg-type]

    def appended(
        self, partition: Partition, answer: PartitionProduceResponse, appended: Appended
    ) -> None:
        """Fill in the answer; with acks=-1, wait until the batch is durable."""
        answer.base_offset = appended.base_offset
        answer.log_append_time_ms = appended.append_time_ms
        answer.log_start_offset = appended.start_offset
        if self.acks == ACKS_ALL and partition.log.high_watermark <= appended.last_offset:
            self.outstanding += 1
            self.services.commit.wait(
                partition,
                appended.last_offset + 1,
                self.timeout_ms,
                partial(self.committed, answer),
            )

    def refused(
        self, answer: PartitionProduceResponse, error: Exception, records: object, topic: str
    ) -> None:
        """Fill in the answer with the reason why the batch, `records`, was not appended."""
        code = error_code_of(error)
        answer.error_code = code
        answer.error_message = str(error)
        self.count(code, topic, error, records)
        if not self.names_records:
            return
        if isinstance(error, RecordsWithoutKey):
            answer.record_errors = [
                BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=error.each)
                for index in error.indexes
            ]
        elif isinstance(error, InvalidTimestamp) and isinstance(records, memoryview):
            self.name_mistimed(answer, error, records)

    def may_open_here(self, batch: memoryview) -> bool:
        """Whether the loop may walk over these records; counts them against the request's limit."""
        if not is_quick(batch, self.inline_bytes_left):
            return False
        self.inline_bytes_left -= len(batch)
        return True

    def name_mistimed(
        self, answer: PartitionProduceResponse, error: InvalidTimestamp, records: memoryview
    ) -> None:
        """Open the batch, and name the records whose timestamps are out of bounds, as in Kafka."""
        named: list[Mistimed] = []

        def name() -> None:
            named.append(
                mistimed(
                    records,
                    error.earliest,
                    error.latest,
                    size_max=OPENED_BYTES_MAX,
                    rest=let_others_run,
                )
            )

        def ended(failure: BaseException | None) -> None:
            if failure is None:
                say_mistimed(answer, error, named[0])
            elif not isinstance(failure, RecordError | WalkAbandoned):  # those name none
                logger.error("mistimed records could not be named", exc_info=failure)
            self.finish_one()

        if self.may_open_here(records):
            with contextlib.suppress(RecordError):
                name()
                say_mistimed(answer, error, named[0])
        else:
            self.outstanding += 1
            self.services.record_work.submit(Owner.REQUEST, self.connection, name, ended)

    def committed(self, answer: PartitionProduceResponse, code: ErrorCode) -> None:
        """Finish one partition, which is durable or, with a `code`, will not be."""
        if code:
            answer.error_code = code
            answer.error_message = code.message
            answer.base_offset = answer.log_start_offset = -1
            self.count(code)
        self.finish_one()

    def left_queue(
        self,
        partition: Partition,
        answer: PartitionProduceResponse,
        records: object,
        outcome: AppendOutcome,
    ) -> None:
        """Continue with the outcome of a queued append."""
        if isinstance(outcome, Appended):
            self.appended(partition, answer, outcome)
        else:
            self.refused(answer, outcome, records, partition.log.topic)
        self.finish_one()

    def finish_one(self) -> None:
        """Count one outstanding partition as done; the last one sends the answer."""
        self.outstanding -= 1
        if self.outstanding == 0 and self.pending is not None:
            self.pending.complete(self.response)


def handle(
    request: Request, services: Services
) -> ProduceResponse | Pending | Coroutine[None, None, ProduceResponse | Pending | None] | None:
    """Append every batch, then answer as `acks` asks."""
    body: ProduceRequest = request.body
    if body.acks not in ACKS_VALID:
        return refuse_all(body, ErrorCode.INVALID_REQUIRED_ACKS)
    if body.transactional_id is not None:
        if not body.transactional_id:
            return error_response(request, ErrorCode.INVALID_REQUEST)
        if request.header.api_version >= ADDS_PARTITIONS_VERSION:
            free = services.transactions.line_up(body.transactional_id)
            if free is not None:
                return _append_after(free, request, services, standing_of(request, services))
    return _append_all(request, services, None)


async def _append_after(
    free: Coroutine[None, None, None],
    request: Request,
    services: Services,
    standing: Standing | None,
) -> ProduceResponse | Pending | None:
    """Append when the transaction before has ended."""
    await free
    body: ProduceRequest = request.body
    if standing is not None and (code := standing.refusal(body.topic_data, services.topics)):
        return error_response(request, code)
    return _append_all(request, services, standing)


def _append_all(
    request: Request, services: Services, standing: Standing | None
) -> ProduceResponse | Pending | None:
    body: ProduceRequest = request.body
    progress = _Progress(request, services, standing)
    now_ms = services.clock.now_ms()
    by_id = request.header.api_version >= TOPIC_ID_VERSION
    if (admission := progress.admission) is not None:
        admission.add_together(body.topic_data, services.topics, services.partitions)
    try:
        for topic in body.topic_data:
            answers = [
                _append(progress, services, topic, data, now_ms, by_id=by_id)
                for data in topic.partition_data
            ]
            progress.response.responses.append(
                TopicProduceResponse(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=answers
                )
            )
    finally:
        if admission is not None:
            admission.end_turn()
    if body.acks == 0:
        return _without_answer(request, progress)
    if progress.outstanding == 0:
        return progress.response
    progress.pending = Pending()
    return progress.pending


def _append(
    progress: _Progress,
    services: Services,
    topic: TopicProduceData,
    data: PartitionProduceData,
    now_ms: int,
    *,
    by_id: bool,
) -> PartitionProduceResponse:
    answer = PartitionProduceResponse(index=data.index, base_offset=-1)
    name = topic.name
    if by_id:
        known = services.topics.by_id(topic.topic_id)
        if known is None:
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_ID
            progress.count(ErrorCode.UNKNOWN_TOPIC_ID)
            return answer
        name = known.name
    try:
        records = data.records
        if not isinstance(records, memoryview):
            raise CorruptBatch(0, "no records were sent")
        if name in INTERNAL_TOPICS:
            progress.check_internal(name)
        partition = services.partitions.get(name, data.index)
        partition.produces += 1
        config = partition.log.config
        validates = services.config.barnabas_validate_records
        prepare = None
        if config.compression_type != AS_PRODUCED or COMPACT in config.cleanup_policy or validates:
            opened_max = services.config.barnabas_decompressed_bytes_max
            prepare = preparation(records, config, opened_max, validates=validates)
            if prepare is not None and not partition.queue and progress.may_open_here(records):
                records, prepare = prepare(), None
        appends = services.appends
        admission = progress.admission
        append = None if admission is None else admission.append_to(partition, records)
        if prepare is None and appends.has_turn(partition):
            if append is None:
                appended = appends.append(partition, records, now_ms)
            else:
                appended = append(records, now_ms)
            progress.appended(partition, answer, appended)
        else:
            standing = progress.standing = progress.standing or standing_of(
                progress.request, services
            )
            if standing is not None:
                append = standing.checked(name, append or partial(appends.append, partition))
            done = partial(progress.left_queue, partition, answer, data.records)
            appends.queue(
                partition, records, progress.timeout_ms, done, prepare, progress.connection, append
            )
            progress.outstanding += 1
    except (StorageError, RecordError, TopicError, BatchRefused) as error:
        topic_name = name if services.partitions.has(name, data.index) else ""
        progress.refused(answer, error, data.records, topic_name)
    return answer


def _without_answer(request: Request, progress: _Progress) -> Pending | None:
    """Finish a request with acks=0: send nothing, but close the connection after an error."""
    if progress.outstanding:
        # Its place in the order is released when the queued appends are done, so that a producer
        # with acks=0 is held back like any other.
        silent = Pending()

        def finish(_: ProduceResponse) -> None:
            _close_on_error(request, progress)
            silent.complete(None)

        progress.pending = Pending()
        progress.pending.then(finish, silent.fail)
        return silent
    _close_on_error(request, progress)
    return None


def _close_on_error(request: Request, progress: _Progress) -> None:
    if progress.failures:
        request.connection.abort(
            "Closing connection due to error during produce request with acks=0: "
            + ", ".join(sorted(code.name for code in progress.failures))
        )


def error_response(request: Request, code: ErrorCode) -> ProduceResponse | None:
    """Return an answer with `code` for each partition in the request."""
    if request.body.acks == 0:
        request.connection.abort(f"{code.name} during produce request with acks=0")
        return None
    return refuse_all(request.body, code)
