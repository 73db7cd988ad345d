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
- A request for very many partitions, or of very many bytes, is appended piece by piece: the loop
  turns in between, and the connection's next requests wait (broker/large_produces.py).
- Records for internal topics are INVALID_TOPIC_EXCEPTION, unless Kafka's admin client sends them.
- A transactional batch is appended if its transaction admits it, in the same turn of the loop
  (broker/transactions). From version 12 the request adds its partitions to the transaction; if the
  one before is still being ended, it waits for that.

Version notes: 8 adds error messages and record errors (KIP-467), 10 the current leader (KIP-951),
11 TRANSACTION_ABORTABLE, 12 adds partitions to transactions (KIP-890), 13 topic ids (KIP-516).
Versions 0 to 2 are advertised but not served, as in Kafka, for librdkafka's sake (KAFKA-18659).

Batches are accepted or refused whole. `record_errors` names the first hundred of a batch that lack
a key, in a compacted topic, or have a timestamp out of bounds, and ten thousand in an answer; the
message has the total (Kafka names all).
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from functools import partial

from broker.error_mapping import BatchRefused
from broker.large_produces import (
    LARGE,
    LARGE_BYTES,
    PARTITION_BYTES_MIN,
    Piece,
    in_steps,
    is_large,
)
from broker.metadata.topic_rules import INTERNAL_TOPICS, TopicError
from broker.partitions.preparation import AS_PRODUCED, COMPACT, preparation
from broker.produce_progress import ACKS_ALL, ProduceProgress
from broker.refused_batches import refuse_all, refusing
from broker.rights.standing import Standing, standing_of
from broker.runtime.request import Pending, Request
from broker.runtime.steps import Steps
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from protocol.record_batch import HEADER_SIZE, read_header
from protocol.record_errors import CorruptBatch, RecordError
from storage.errors import StorageError

Answer = ProduceResponse | Pending | Steps | None

ACKS_VALID = (ACKS_ALL, 0, 1)
TOPIC_ID_VERSION = 13
ADDS_PARTITIONS_VERSION = 12
TRANSACTION_VERSION = 2  # of the senders of such a request


def handle(
    request: Request, services: Services
) -> ProduceResponse | Pending | Steps | Coroutine[None, None, Answer] | None:
    """Append every batch, then answer as `acks` asks."""
    body: ProduceRequest = request.body
    large = services.large_produces
    if not large.lines.waiting and (usual := _append_usual(request, body, services)) is not None:
        return usual
    if body.acks not in ACKS_VALID:
        return refusing(body, ErrorCode.INVALID_REQUIRED_ACKS)
    is_long = request.frame_bytes > LARGE * PARTITION_BYTES_MIN and is_large(request)
    if body.transactional_id != "" and (is_long or request.connection in large.lines.waiting):
        progress = ProduceProgress(request, services, standing_of(request, services))
        return _append_in_pieces(progress, services)
    if body.transactional_id is not None:
        if not body.transactional_id:
            return error_response(request, ErrorCode.INVALID_REQUEST)
        if request.header.api_version >= ADDS_PARTITIONS_VERSION:
            free = services.transactions.line_up(body.transactional_id)
            if free is not None:
                return _append_after(free, request, services, standing_of(request, services))
    return _append_all(request, services, None)


def _append_usual(
    request: Request, body: ProduceRequest, services: Services
) -> ProduceResponse | Pending | None:
    """Append the one batch of a usual request; return None, with nothing done, for any other.

    Nothing stands before such a batch: no preparation, no queue, and no transaction but one that
    takes it at once. An account of the request is made only where the batch is refused, or must
    become durable first.
    """
    topics, acks = body.topic_data, body.acks
    version, transactional_id = request.header.api_version, body.transactional_id
    if (
        (transactional_id is not None and version < ADDS_PARTITIONS_VERSION)
        or (acks != 1 and acks != ACKS_ALL)
        or len(topics) != 1
        or len(topics[0].partition_data) != 1
        or request.frame_bytes > LARGE_BYTES
    ):
        return None
    (topic,) = topics
    (data,) = topic.partition_data
    name = topic.name
    if version >= TOPIC_ID_VERSION:
        if (known := services.topics.by_id(topic.topic_id)) is None:
            return None
        name = known.name
    partition, records = services.partitions.find(name, data.index), data.records
    if partition is None or not isinstance(records, memoryview) or name in INTERNAL_TOPICS:
        return None
    config, appends = partition.log.config, services.appends
    if (
        config.compression_type != AS_PRODUCED
        or COMPACT in config.cleanup_policy
        or services.config.barnabas_validate_records
        or not appends.has_turn(partition)
        or (transactional_id is not None and not _may_join(services, transactional_id, records))
    ):
        return None
    partition.produces += 1
    answer = PartitionProduceResponse(index=data.index, base_offset=-1)
    answers = TopicProduceResponse(
        name=topic.name, topic_id=topic.topic_id, partition_responses=[answer]
    )
    response = ProduceResponse(responses=[answers])
    try:
        if transactional_id is None:
            appended = appends.append(partition, records, services.clock.now_ms())
        else:
            services.transactions.admit_batch(
                transactional_id, read_header(records), name, data.index, version
            )
            appended = appends.append(
                partition, records, services.clock.now_ms(), TRANSACTION_VERSION
            )
    except (StorageError, RecordError, BatchRefused) as error:
        progress = ProduceProgress(request, services, None, response)
        progress.refused(answer, error, records, name)
        return _ended(progress)
    answer.base_offset, last_offset, answer.log_append_time_ms, answer.log_start_offset, _ = (
        appended
    )
    if acks == ACKS_ALL and partition.log.high_watermark <= last_offset:
        progress = ProduceProgress(request, services, None, response)
        progress.appended(partition, answer, appended)
        return _ended(progress)
    return response


def _may_join(services: Services, transactional_id: str, records: memoryview) -> bool:
    """Whether a batch is of a transaction that takes it now, or refuses it, and need not wait."""
    if not transactional_id or len(records) < HEADER_SIZE:
        return False
    header = read_header(records)
    is_of_one = header.is_transactional and header.producer_id >= 0
    return is_of_one and services.transactions.is_free(transactional_id)


def _ended(progress: ProduceProgress) -> ProduceResponse | Pending:
    """Return the answer of a request whose batches have been looked at, or what will have it."""
    if progress.outstanding == 0:
        return progress.response
    progress.pending = Pending()
    return progress.pending


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


def _append_in_pieces(
    progress: ProduceProgress, services: Services
) -> Coroutine[None, None, Answer]:
    """Append piece by piece, behind the large requests of the same connection."""
    request, standing = progress.request, progress.standing
    body: ProduceRequest = request.body
    by_id = request.header.api_version >= TOPIC_ID_VERSION
    responses = progress.response.responses
    progress.is_large = True
    begun: TopicProduceData | None = None

    def line_up() -> Coroutine[None, None, None] | None:
        if body.transactional_id is None or request.header.api_version < ADDS_PARTITIONS_VERSION:
            return None
        return services.transactions.line_up(body.transactional_id)

    def append(pieces: Sequence[Piece]) -> None:
        nonlocal begun
        now_ms = services.clock.now_ms()
        codes = [
            ErrorCode.NONE if standing is None else standing.refusal((one.topic,), services.topics)
            for one in pieces
        ]
        if (admission := progress.admission) is not None:
            named = [one.topic_data() for one, code in zip(pieces, codes, strict=True) if not code]
            admission.add_together(named, services.topics, services.partitions)
        try:
            for (topic, some), code in zip(pieces, codes, strict=True):
                if topic is not begun:
                    responses.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id))
                    begun = topic
                responses[-1].partition_responses += (
                    [_append(progress, services, topic, one, now_ms, by_id=by_id) for one in some]
                    if not code
                    else progress.refused_each(some, code)
                )
        finally:
            if admission is not None:
                admission.end_turn()

    topics, large = body.topic_data, services.large_produces
    appending = large.begin(request.connection, topics, line_up, append)
    return _answer_in_steps(appending, progress)


async def _answer_in_steps(
    appending: Coroutine[None, None, None], progress: ProduceProgress
) -> Answer:
    await appending
    if progress.acks == 0:
        return _without_answer(progress.request, progress)
    if progress.outstanding == 0:
        return in_steps(progress.response)
    progress.pending = Pending()
    return progress.pending


def _append_all(
    request: Request, services: Services, standing: Standing | None
) -> ProduceResponse | Pending | None:
    body: ProduceRequest = request.body
    progress = ProduceProgress(request, services, standing)
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
    if progress.acks == 0:
        return _without_answer(request, progress)
    return _ended(progress)


def _append(
    progress: ProduceProgress,
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


def _without_answer(request: Request, progress: ProduceProgress) -> Pending | None:
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


def _close_on_error(request: Request, progress: ProduceProgress) -> None:
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
