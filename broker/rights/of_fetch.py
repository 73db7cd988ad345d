"""Fetch: READ on each topic; a fetch as a replica needs CLUSTER_ACTION.

A fetch may wait for records for as long as the client likes. Those that come after a right was
taken away are not served: an answer that comes later is asked about again, if an ACL has changed.
The sleeping partitions of a session are not asked for, so for them this counts from its request on.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any, Final

from broker.rights.asking import DENIED, NAMES_PER_TURN, Asking, Need, Refused, Turns
from broker.rights.clauses import CLUSTER, TOPIC, Each
from broker.runtime.fetch_body import SessionFetch
from broker.runtime.request import Request
from broker.security.acl.acl_codes import AclOperation
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

TOPIC_ID_VERSION: Final = 13
REPLICA_STATE_VERSION: Final = 15
NEED: Final = Need(TOPIC, AclOperation.READ)
NEED_OF_REPLICA: Final = Need(CLUSTER, AclOperation.CLUSTER_ACTION)
EACH_TOPIC: Final = Each(
    (NEED,), "topics", "responses", "topic", id_since=TOPIC_ID_VERSION, calls_empty=True
)
LINES: Final = (
    (
        "TOPIC READ",
        "TOPIC_AUTHORIZATION_FAILED for the topic's partitions",
    ),
    (
        "CLUSTER CLUSTER_ACTION, as a replica",
        "TOPIC_AUTHORIZATION_FAILED for each partition",
    ),
)


def key(request: Request) -> str | bytes | None:
    """Return the topic of a consumer's fetch from one."""
    body: FetchRequest = request.body
    topics = body.topics
    version = request.header.api_version
    replica_id = (
        body.replica_state.replica_id if version >= REPLICA_STATE_VERSION else body.replica_id
    )
    if len(topics) != 1 or replica_id >= 0:
        return None
    topic = topics[0]
    return topic.topic_id if version >= TOPIC_ID_VERSION else topic.topic


def keys(request: Request) -> list[str | bytes] | None:
    """Return the topics of a consumer's fetch, if they are not many."""
    body: FetchRequest = request.body
    topics = body.topics
    if _is_of_replica(request) or len(topics) > NAMES_PER_TURN:
        return None
    by_id = request.header.api_version >= TOPIC_ID_VERSION
    return [topic.topic_id if by_id else topic.topic for topic in topics]


def ask(asking: Asking) -> Turns:
    """Refuse topics, or all that a replica asks for."""
    if _is_of_replica(asking.request):
        if asking.allows(NEED_OF_REPLICA):
            return None
        asking.log(NEED_OF_REPLICA)
        answer = asking.answer_to(DENIED[TOPIC])
        answer.error_code = ErrorCode.NONE  # only the partitions are in error
        return Refused(answer)
    refused = yield from EACH_TOPIC.ask(asking)
    asking.later.append(partial(again, asking))
    return refused


def again(asking: Asking, answer: FetchResponse) -> Generator[int, None, Any]:
    """Take out of an answer what the client may no longer read."""
    yield 0
    if not asking.is_outdated and not _wakes_others(asking):
        return answer
    by_id = asking.request.header.api_version >= TOPIC_ID_VERSION
    for at, served in enumerate(answer.responses):
        name = asking.name_of(served.topic_id) if by_id else served.topic
        if name is None or not asking.allows(NEED, name):
            if name is not None:
                asking.log(NEED, name)
            asked = [
                FetchPartition(partition=one.partition_index, fetch_offset=0, partition_max_bytes=0)
                for one in served.partitions
            ]
            topic = FetchTopic(topic=served.topic, topic_id=served.topic_id, partitions=asked)
            code = ErrorCode.UNKNOWN_TOPIC_ID if name is None else DENIED[TOPIC]
            answer.responses[at] = asking.answer_to(code, topics=[topic]).responses[0]
        yield 0
    return answer


def _wakes_others(asking: Asking) -> bool:
    """Whether partitions that slept may be among those served that were allowed before a change."""
    body: FetchRequest = asking.request.body
    rights = body.context.rights if type(body) is SessionFetch else None
    info = asking.request.info
    return rights is not None and rights != (info.principal, info.peer_host, asking.version)


def _is_of_replica(request: Request) -> bool:
    body: FetchRequest = request.body
    if request.header.api_version >= REPLICA_STATE_VERSION:
        return body.replica_state.replica_id >= 0
    return body.replica_id >= 0
