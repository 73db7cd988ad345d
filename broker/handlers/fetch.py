"""Fetch, API key 1, versions 4-18.

Behaviour
- The answer has whole batches from the partition's files, unopened. The first may start before the
  requested offset, and clients skip its first records. The first partition that has records yields
  at least one batch, even above the limits (KIP-74).
- A partition that is named more than once is answered once, by its last entry, as in Kafka.
- Nothing above the high watermark is served, so records that a consumer has seen survive a power
  cut. Isolation level read_committed gets nothing above the last stable offset, and the list of
  transactions whose records it must skip, by producer and first offset.
- With fewer than `min_bytes` to read, the request is parked until there are enough, at most for
  `max_wait_ms`. An unknown topic or partition beside known ones does not end the wait, as in Kafka:
  a consumer that still asks for a deleted one would poll without a pause.
- While answers that cannot leave fill `barnabas.answer.bytes.max`, a fetch returns at most 1 MiB.
- Large slices are sent as mapped pages. Pages that are not in memory are first loaded by a thread
  (broker/partitions/fetch_reading.py).
- Within a fetch session (KIP-227) the partitions that may have news are read, not those that the
  request names; `broker.fetch_sessions` stands before and behind this module.
- A `current_leader_epoch` (KIP-320) other than the log's is fenced or unknown. A diverged
  `last_fetched_epoch` is answered with the point of divergence (KIP-595); one above the log's is
  OFFSET_OUT_OF_RANGE. Epochs below 0 are ignored.
- An error belongs to its partition: the others are answered as if it had not been named.

Version notes: 7 sessions, 9 leader epoch, 11 rack, 12 flexible and diverging epochs, 13 topic ids
(KIP-516), 15 replica state instead of replica id, 16 node endpoints (KIP-951), 17 directory ids.

Not done: followers, so a fetch as a replica is NOT_LEADER_OR_FOLLOWER for every partition; racks.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from types import GeneratorType

from broker.error_mapping import error_code_of
from broker.fetch_sessions.fetch_session import CachedPartition
from broker.fetch_sessions.session_fetch import Incremental
from broker.partitions.epoch_fencing import fence
from broker.partitions.fetch_asked import Named, Resolved, ResolvedTopics, View, readable
from broker.partitions.fetch_reading import (
    TOPIC_ID_VERSION,
    FetchReading,
    refused,
)
from broker.partitions.large_reading import ANSWER_BYTES, LARGE, LargeReading, is_large
from broker.partitions.partition import ParkedFetch, Partition
from broker.partitions.reading_on import read_on
from broker.runtime.fetch_body import SessionFetch
from broker.runtime.request import Pending, Request
from broker.runtime.steps import Steps, finished
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from storage.errors import StorageError

REPLICA_STATE_VERSION = 15


def handle(request: Request, services: Services) -> FetchResponse | Steps | Pending:
    """Read now, or park until there is enough to read."""
    body: FetchRequest = request.body
    if _replica_id(request, body) >= 0:
        return _refused_in_steps(body)
    session = body.context.view if type(body) is SessionFetch else None
    if session is not None:
        find = partial(_found_in_session, services)
        found = session.begin(find, body.topics)
        return _serve(request, services, found, session, is_long=session.size > LARGE)
    topics = body.topics
    if len(topics) == 1 and len(topics[0].partitions) == 1:  # the usual request
        return _serve_one(request, services)
    if is_large(topics):
        return _handle_in_steps(request, services)
    return _serve(request, services, finished(_resolved_topics(request, services)))


def _handle_in_steps(request: Request, services: Services) -> Steps:
    removals = services.partitions.removals
    topics = yield from _resolved_topics(request, services)
    # What is removed answers those who wait for it, and then nobody: so nobody begins to wait.
    may_wait = services.partitions.removals == removals
    result = _serve(request, services, topics, is_long=True, may_wait=may_wait)
    if type(result) is GeneratorType:
        return (yield from result)
    return result


def _serve(
    request: Request,
    services: Services,
    topics: ResolvedTopics,
    session: Incremental | None = None,
    *,
    is_long: bool = False,
    may_wait: bool = True,
) -> FetchResponse | Steps | Pending:
    body: FetchRequest = request.body
    view: View = Named(topics) if session is None else session
    bytes_max = _bytes_max(request, services)
    make = LargeReading if is_long else FetchReading
    reading = make(request, view, bytes_max, services.answers, services.pool, services.metrics)
    is_empty = not topics and not view.has_others
    if body.max_wait_ms <= 0 or is_empty or not may_wait or reading.is_enough():
        return reading.read_or_load()
    pending = reading.pending = Pending()
    partitions = readable(topics)
    fetch = ParkedFetch(request, partitions, reading.is_enough, reading.answer, is_large=is_long)
    services.purgatory.park(fetch, body.max_wait_ms)
    if session is not None:
        session.parked(fetch)
    for partition in partitions:
        # Records that no producer waits for are flushed at once, since a reader waits now.
        if partition.log.high_watermark < partition.log.end_offset:
            services.commit.flush_now(partition)
    return pending


def _found_in_session(services: Services, cached: CachedPartition) -> Resolved:
    """Look up a partition of a session, which may outlive its topic."""
    name = cached.name
    if not isinstance(cached.ident, str):
        topic = services.topics.by_id(cached.ident)
        if topic is not None:
            name = cached.name = topic.name
        elif services.partitions.has(name, cached.asked.partition):
            return ErrorCode.INCONSISTENT_TOPIC_ID  # of the next topic with this name
    return _resolved(services, name or None, cached.asked)


def _serve_one(request: Request, services: Services) -> FetchResponse | Steps | Pending:
    (topic,) = request.body.topics
    (asked,) = topic.partitions
    by_name = request.header.api_version < TOPIC_ID_VERSION
    name = topic.topic if by_name else _name_of(topic, request, services)
    found = _resolved(services, name, asked)
    if type(found) is Partition:
        bytes_max = _bytes_max(request, services)
        response = read_on(request, topic, asked, found, bytes_max, services.answers)
        if response is not None:
            return response
    return _serve(request, services, [(topic, [(asked, found)])])


def _bytes_max(request: Request, services: Services) -> int:
    """Return the broker's own limit of an answer."""
    bytes_max = services.config.fetch_max_bytes
    if (quotas := services.quotas.clients) is not None:
        return quotas.fetch_bytes_max(request, bytes_max)
    return bytes_max


def _name_of(topic: FetchTopic, request: Request, services: Services) -> str | None:
    if request.header.api_version < TOPIC_ID_VERSION:
        return topic.topic
    known = services.topics.by_id(topic.topic_id)
    return None if known is None else known.name


def _resolved_topics(request: Request, services: Services) -> Generator[int, None, ResolvedTopics]:
    """Look up every partition once: by its last entry, in the place of its first."""
    by_id = request.header.api_version >= TOPIC_ID_VERSION
    named: list[FetchTopic] = request.body.topics
    once: dict[str | bytes, tuple[FetchTopic, dict[int, FetchPartition]]] = {}
    count = 0
    for topic in named:
        _, partitions = once.setdefault(topic.topic_id if by_id else topic.topic, (topic, {}))
        for asked in topic.partitions:
            partitions[asked.partition] = asked
        count += 1 + len(topic.partitions)
        if count >= LARGE:
            yield 0
            count = 0
    topics: ResolvedTopics = []
    for topic, partitions in once.values():
        name = _name_of(topic, request, services)
        found: list[tuple[FetchPartition, Resolved]] = []
        topics.append((topic, found))
        for asked in partitions.values():
            found.append((asked, _resolved(services, name, asked)))
            count += 1
            if count >= LARGE:
                yield 0
                count = 0
    return topics


def _resolved(services: Services, name: str | None, asked: FetchPartition) -> Resolved:
    if name is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    try:
        partition = services.partitions.get(name, asked.partition)
    except StorageError as error:
        return error_code_of(error)
    partition.fetches += 1
    if asked.current_leader_epoch >= 0:
        return fence(partition.log, asked.current_leader_epoch) or partition
    return partition


def _replica_id(request: Request, body: FetchRequest) -> int:
    if request.header.api_version >= REPLICA_STATE_VERSION:
        return body.replica_state.replica_id
    return body.replica_id


def _refused_in_steps(body: FetchRequest) -> Steps:
    """Answer each partition of a replica's fetch."""
    response = FetchResponse()
    for topic in body.topics:
        answered = FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=[])
        response.responses.append(answered)
        yield ANSWER_BYTES
        for asked in topic.partitions:
            answered.partitions.append(refused(asked, ErrorCode.NOT_LEADER_OR_FOLLOWER))
            yield ANSWER_BYTES
    return response


def error_response(request: Request, code: ErrorCode) -> FetchResponse:
    """Return an answer with `code` for each partition in the request."""
    return FetchResponse(
        error_code=code if request.header.api_version >= 7 else ErrorCode.NONE,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[refused(asked, code) for asked in topic.partitions],
            )
            for topic in request.body.topics
        ],
    )
