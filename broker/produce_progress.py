"""One Produce request in progress: its answer, and how many of its partitions still wait.

The handler appends (`broker.handlers.produce`). What becomes of each batch is told here: at once,
or by the append queue, by group commit, or by a thread that has looked for mistimed records. The
last one sends the answer.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from broker.error_mapping import error_code_of
from broker.large_produces import in_steps
from broker.metadata.topic_rules import TopicError
from broker.partitions.partition import AppendOutcome, Partition
from broker.partitions.preparation import INLINE_BYTES_MAX, is_quick
from broker.refused_batches import count_refused, refused_each, say_mistimed
from broker.rights.standing import Standing
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
)
from protocol.record_errors import RecordError, RecordsWithoutKey
from protocol.record_walks import Mistimed, mistimed
from storage.errors import InvalidTimestamp
from storage.log import Appended

if TYPE_CHECKING:
    from broker.transactions.batch_admission import BatchAdmission

logger = logging.getLogger("barnabas.requests")

ACKS_ALL: Final = -1
ADMIN_CLIENT_ID: Final = "__admin_client"  # Kafka's AdminUtils: may write to internal topics
OPENED_BYTES_MAX: Final = 4 * 1024 * 1024  # of records, decompressed, to name the refused ones
RECORD_ERRORS_VERSION: Final = 8
# Records that one answer names, some 60 bytes each. A batch of a hundred may be as small as 80
# bytes, and a request may have very many of them.
NAMED_MAX: Final = 10_000


class ProduceProgress:
    """One request in progress: its answer, and how many of its partitions still wait."""

    __slots__ = (
        "acks",
        "admission",
        "client_id",
        "connection",
        "failures",
        "inline_bytes_left",
        "is_large",
        "named_left",
        "names_records",
        "outstanding",
        "pending",
        "request",
        "response",
        "services",
        "standing",
        "timeout_ms",
    )

    def __init__(
        self,
        request: Request,
        services: Services,
        standing: Standing | None,
        response: ProduceResponse | None = None,
    ) -> None:
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
        self.named_left = NAMED_MAX
        self.is_large = False  # it is appended piece by piece, and answered in steps
        self.timeout_ms = body.timeout_ms
        self.request = request
        self.services = services
        self.standing = standing  # of a request that has waited, or whose batches wait
        self.response = ProduceResponse() if response is None else response
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

    def refused_each(
        self, partitions: Sequence[PartitionProduceData], code: ErrorCode
    ) -> list[PartitionProduceResponse]:
        """Return the answers for partitions whose batches may not be appended."""
        for _ in partitions:
            self.count(code)
        return refused_each(partitions, code)

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
        if not (self.names_records and self.named_left):
            return
        if isinstance(error, RecordsWithoutKey):
            named = error.indexes[: self.named_left]
            self.named_left -= len(named)
            answer.record_errors = [
                BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=error.each)
                for index in named
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

        def say() -> None:
            found = named[0]
            first = found.first[: self.named_left]
            self.named_left -= len(first)
            say_mistimed(answer, error, found._replace(first=first))

        def ended(failure: BaseException | None) -> None:
            if failure is None:
                say()
            elif not isinstance(failure, RecordError | WalkAbandoned):  # those name none
                logger.error("mistimed records could not be named", exc_info=failure)
            self.finish_one()

        if self.may_open_here(records):
            with contextlib.suppress(RecordError):
                name()
                say()
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
            self.pending.complete(in_steps(self.response) if self.is_large else self.response)
