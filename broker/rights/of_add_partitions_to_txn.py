"""AddPartitionsToTxn: WRITE on the transactional id and on each topic; from version 4 as a broker.

One refused topic refuses the transaction: nothing is added. The other partitions are answered
OPERATION_NOT_ATTEMPTED, and UNKNOWN_TOPIC_OR_PARTITION where they do not exist.
"""

from __future__ import annotations

from typing import Final

from broker.metadata.topic_rules import INTERNAL_TOPICS
from broker.rights.asking import DENIED, NAMES_PER_TURN, Asking, Need, Refused, Turns
from broker.rights.clauses import CLUSTER, TOPIC, TRANSACTIONAL_ID
from broker.security.acl.acl_codes import AclOperation
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)

BATCHED_VERSION: Final = 4
NEED_OF_BROKERS: Final = Need(CLUSTER, AclOperation.CLUSTER_ACTION)
NEED_OF_ID: Final = Need(TRANSACTIONAL_ID, AclOperation.WRITE)
NEED: Final = Need(TOPIC, AclOperation.WRITE)
LINES: Final = (
    (
        "TRANSACTIONAL_ID WRITE",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED for each partition",
    ),
    (
        "TOPIC WRITE",
        "TOPIC_AUTHORIZATION_FAILED for the topic's partitions; none is added",
    ),
    (
        "from version 4: CLUSTER CLUSTER_ACTION alone",
        "CLUSTER_AUTHORIZATION_FAILED for the request",
    ),
)


def ask(asking: Asking) -> Turns:
    """Refuse the transaction."""
    body: AddPartitionsToTxnRequest = asking.request.body
    if asking.request.header.api_version >= BATCHED_VERSION:
        if asking.allows(NEED_OF_BROKERS):
            return None
        asking.log(NEED_OF_BROKERS)
        return asking.refuse(DENIED[CLUSTER])
    name = body.v3_and_below_transactional_id
    if not asking.allows(NEED_OF_ID, name):
        asking.log(NEED_OF_ID, name)
        return asking.refuse(DENIED[TRANSACTIONAL_ID])
    denied: set[str] = set()
    for at, topic in enumerate(body.v3_and_below_topics):
        if topic.name not in INTERNAL_TOPICS and not asking.allows(NEED, topic.name):
            asking.log(NEED, topic.name)
            denied.add(topic.name)
        if at % NAMES_PER_TURN == NAMES_PER_TURN - 1:
            yield
    if not denied:
        return None
    response = AddPartitionsToTxnResponse()
    answered = 0
    for topic in body.v3_and_below_topics:
        result = AddPartitionsToTxnTopicResult(name=topic.name)
        response.results_by_topic_v3_and_below.append(result)
        for number in topic.partitions:
            code = _code(asking, topic.name, number, denied)
            result.results_by_partition.append(
                AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=code)
            )
            answered += 1
            if answered % NAMES_PER_TURN == 0:
                yield
    return Refused(response)


def _code(asking: Asking, topic: str, number: int, denied: set[str]) -> ErrorCode:
    if topic in denied or topic in INTERNAL_TOPICS:
        return DENIED[TOPIC]
    known = asking.services.topics.by_name(topic)
    if known is None or not 0 <= number < len(known.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.OPERATION_NOT_ATTEMPTED
