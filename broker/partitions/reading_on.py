"""The usual fetch: one partition, by a consumer that reads on where it stopped.

It is answered at once, by one read of the file and without a `FetchReading`, if the records are in
memory, its isolation level makes no difference, and any record is enough. `read_on` answers as a
reading does, or not at all: then nothing has changed, and a reading does all of it.
"""

from __future__ import annotations

from broker.partitions.fetch_asked import READ_COMMITTED
from broker.partitions.fetch_reading import (
    PRESSED_BYTES_MAX,
    SESSION_NONE,
    TOPIC_ID_VERSION,
    AnswerBudget,
    answers_of,
)
from broker.partitions.partition import Partition
from broker.runtime.request import Request
from protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)


def read_on(
    request: Request,
    topic: FetchTopic,
    asked: FetchPartition,
    partition: Partition,
    bytes_max: int,
    answers: AnswerBudget,
) -> FetchResponse | None:
    """Return the answer to a fetch of one partition, or None: see above.

    `bytes_max` and `answers` as a `FetchReading` gets them.
    """
    body: FetchRequest = request.body
    log, header = partition.log, request.header
    high_watermark, last_stable_offset = log.high_watermark, log.last_stable_offset
    limit = high_watermark
    if body.isolation_level == READ_COMMITTED:
        if log.segments.aborting:
            return None
        limit = last_stable_offset
    if body.min_bytes > 1 or asked.last_fetched_epoch >= 0 or header.copies_records:
        return None
    if answers.full:
        bytes_max = min(bytes_max, PRESSED_BYTES_MAX)
    size_max = min(body.max_bytes, bytes_max, asked.partition_max_bytes)
    records = log.read_on(asked.fetch_offset, size_max, limit)
    if records is None:
        return None
    log.read_bytes += len(records)
    response = FetchResponse(session_id=SESSION_NONE)
    answers_of(topic, response, by_id=header.api_version >= TOPIC_ID_VERSION).append(
        PartitionData(
            partition_index=asked.partition,
            high_watermark=high_watermark,
            last_stable_offset=last_stable_offset,
            log_start_offset=log.start_offset,
            aborted_transactions=[] if body.isolation_level == READ_COMMITTED else None,
            records=records,
        )
    )
    return response
