"""Produce: WRITE on each topic, and on the transactional id if a batch is transactional.

- A transactional id without a transactional batch is not checked, as in Kafka; it then does
  nothing here.
- With acks=0 there is no answer to say what was refused: the connection is closed, and what the
  client may write is appended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from broker.rights.asking import DENIED, NAMES_PER_TURN, Asking, Need, Refused, Turns
from broker.rights.clauses import TOPIC, TRANSACTIONAL_ID, Each
from broker.runtime.request import Request
from broker.security.acl.acl_codes import AclOperation
from protocol.errors import ErrorCode
from protocol.messages.produce import ProduceRequest
from protocol.record_batch import HEADER_SIZE, read_header

TOPIC_ID_VERSION: Final = 13
ACKS_ONE: Final = 1
NEED: Final = Need(TOPIC, AclOperation.WRITE)
NEED_OF_ID: Final = Need(TRANSACTIONAL_ID, AclOperation.WRITE)
LINES: Final = (
    (
        "TOPIC WRITE",
        "TOPIC_AUTHORIZATION_FAILED for its partitions; with acks=0 the connection is closed",
    ),
    (
        "TRANSACTIONAL_ID WRITE, if a batch is transactional",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED for the request",
    ),
)


class _EachProduced(Each):
    __slots__ = ()

    def answer_to(self, asking: Asking, code: ErrorCode, items: Sequence[Any]) -> Any:
        """Return the answer as if there was one: with acks=0, the handler's closes."""
        return asking.answer_to(code, topic_data=items, acks=ACKS_ONE)


EACH_TOPIC: Final = _EachProduced((NEED,), "topic_data", "responses", id_since=TOPIC_ID_VERSION)
again = None  # appends that wait ask for themselves (`standing`)


def key(request: Request) -> str | bytes | None:
    """Return the topic of the usual request: it names one, and no transactional id."""
    body: ProduceRequest = request.body
    topics = body.topic_data
    if len(topics) != 1 or body.transactional_id is not None:
        return None
    topic = topics[0]
    return topic.topic_id if request.header.api_version >= TOPIC_ID_VERSION else topic.name


def keys(request: Request) -> list[str | bytes] | None:
    """Return the topics of a request without a transactional id, if they are not many."""
    body: ProduceRequest = request.body
    topics = body.topic_data
    if body.transactional_id is not None or len(topics) > NAMES_PER_TURN:
        return None
    by_id = request.header.api_version >= TOPIC_ID_VERSION
    return [topic.topic_id if by_id else topic.name for topic in topics]


def ask(asking: Asking) -> Turns:
    """Refuse topics, or the whole request for its transactional id."""
    body: ProduceRequest = asking.request.body
    name = body.transactional_id
    if name is not None and not asking.allows(NEED_OF_ID, name):
        if _is_transactional(body):
            asking.log(NEED_OF_ID, name)
            return asking.refuse(DENIED[TRANSACTIONAL_ID])
        asking.narrow(transactional_id=None)
    refused = yield from EACH_TOPIC.ask(asking)
    if body.acks == 0 and (refused is not None or asking.later):
        asking.request.connection.abort(f"{DENIED[TOPIC].name} during produce request with acks=0")
        if refused is not None:
            return Refused(None)
    return refused


def _is_transactional(body: ProduceRequest) -> bool:
    return any(
        isinstance(data.records, memoryview)
        and len(data.records) >= HEADER_SIZE
        and read_header(data.records).is_transactional
        for topic in body.topic_data
        for data in topic.partition_data
    )
