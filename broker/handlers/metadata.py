"""Metadata, API key 3, versions 0-13.

Behaviour
- Null (from version 1 on) or an empty list (version 0) means all topics. Otherwise the answer has
  the named topics, each once; or from version 12 on those given by id, and then without names, as
  in Kafka. An id in an older version, or a topic with neither name nor id, makes the whole request
  INVALID_REQUEST.
- A named topic that does not exist is created with `num.partitions` if the client allows it (from
  version 4 on; older ones always do) and `auto.create.topics.enable` is on. The answer comes when
  the topic is online, or says why it cannot be created. Kafka answers UNKNOWN_TOPIC_OR_PARTITION
  first, which costs every client a retry.
- A creation counts against the client's quota of changes to topics; above it the topic is
  UNKNOWN_TOPIC_OR_PARTITION, and its client asks again, as in Kafka.
- Kafka's internal topics are never created here: they belong to the coordinators that use them.
  A read-only broker creates no topics.
- There is one broker, at the address of the listener that received the request
  (broker/network/advertised.py).
- Authorized operations, if requested, are all operations: there is no authorization.

Version notes: 1 controller and internal flag, 2 cluster id, 5 offline replicas, 7 leader epoch,
8 authorized operations, 9 flexible, 10 topic ids, 12 nullable names (KIP-516), 13 top-level error
(KIP-1102).
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.authorized_operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from broker.error_mapping import error_code_of
from broker.metadata.asked_topics import is_addressed
from broker.metadata.image import PartitionInfo, TopicInfo
from broker.metadata.topic_rules import (
    INTERNAL_TOPICS,
    PARTITIONS_PER_REQUEST_MAX,
    NewTopic,
    TopicError,
    check_name,
)
from broker.runtime.request import Request
from broker.runtime.steps import Steps
from broker.runtime.turns import InTurns
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol.wire import ZERO_UUID
from storage.errors import StorageError
from storage.files.filenames import METADATA_TOPIC

ALL_TOPICS_IS_EMPTY_VERSION = 0
NEVER_CREATED = INTERNAL_TOPICS | {METADATA_TOPIC}

PARTITIONS_PER_STEP = 50
NAMES_PER_TURN = 5_000
STRICT_QUOTA_VERSION = 0  # of this API: a topic above the quota of changes is not created


async def handle(request: Request, services: Services) -> MetadataResponse | Steps:
    """Describe the broker and the requested topics, and create missing topics if allowed."""
    body: MetadataRequest = request.body
    version = request.header.api_version
    if not is_addressed(body, version):
        return error_response(request, ErrorCode.INVALID_REQUEST)
    host, port = services.advertised.endpoint(request.info)
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=services.node_id, host=host, port=port, rack=services.config.broker_rack
            )
        ],
        cluster_id=services.cluster_id,
        controller_id=services.node_id,
    )
    if body.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    wanted = body.topics
    topics: Iterable[MetadataResponseTopic]
    if wanted is None or (version == ALL_TOPICS_IS_EMPTY_VERSION and not wanted):
        topics = (_named(topic) for topic in services.topics.all())
    else:
        topics = await _answers(services, request)
    return _describe(services, body, topics, response)


def _describe(
    services: Services,
    body: MetadataRequest,
    topics: Iterable[MetadataResponseTopic],
    response: MetadataResponse,
) -> Steps:
    """Fill in the partitions of `topics`, a few per step."""
    for answer in topics:
        response.topics.append(answer)
        if body.include_topic_authorized_operations and answer.name is not None:
            answer.topic_authorized_operations = TOPIC_OPERATIONS
        topic = None if answer.error_code else services.topics.by_id(answer.topic_id)
        if topic is not None:
            for info in topic.partitions:
                answer.partitions.append(_describe_partition(services, topic.name, info))
                if not len(answer.partitions) % PARTITIONS_PER_STEP:
                    yield 0
        yield 0
    return response


async def _answers(services: Services, request: Request) -> Iterable[MetadataResponseTopic]:
    """Yield an answer for each named topic, each once, without its partitions."""
    body: MetadataRequest = request.body
    wanted = body.topics or []
    ids: dict[bytes, None] = {}
    names: dict[str, None] = {}
    async for topic in InTurns(wanted, NAMES_PER_TURN):
        if topic.topic_id != ZERO_UUID:
            ids[topic.topic_id] = None
        elif topic.name is not None:
            names[topic.name] = None
    if ids:
        return (_by_id(services, topic_id) for topic_id in ids)
    # Before version 4 the flag has its default, which allows creation.
    may_create = (
        services.config.auto_create_topics_enable
        and body.allow_auto_topic_creation
        and not services.config.barnabas_read_only
    )
    failures = await _create_missing(services, request, names) if may_create else {}
    return (_by_name(services, name, failures.get(name)) for name in names)


async def _create_missing(
    services: Services, request: Request, names: Iterable[str]
) -> dict[str, ErrorCode]:
    """Create the named topics that do not exist; return the codes of those that cannot be."""
    missing = [
        name
        async for name in InTurns(names, NAMES_PER_TURN)
        if name not in NEVER_CREATED and services.topics.by_name(name) is None
    ]
    if not missing:
        return {}
    if len(missing) > PARTITIONS_PER_REQUEST_MAX:  # each would have one at least
        return dict.fromkeys(missing, ErrorCode.POLICY_VIOLATION)
    quota = None
    if (quotas := services.quotas.clients) is not None:
        quota = quotas.mutations(request, STRICT_QUOTA_VERSION)
    try:
        outcomes = await services.topics.create([NewTopic(name=name) for name in missing], quota)
    except (StorageError, TopicError) as error:  # for all of them: existing topics are described
        return dict.fromkeys(missing, error_code_of(error))
    failures: dict[str, ErrorCode] = {}
    for name, outcome in outcomes.items():
        # Another client may have created it first, which is as good.
        if isinstance(outcome, TopicError) and outcome.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            failures[name] = outcome.code
            if outcome.code == ErrorCode.THROTTLING_QUOTA_EXCEEDED:  # clients ask again for this
                failures[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return failures


def _by_id(services: Services, topic_id: bytes) -> MetadataResponseTopic:
    topic = services.topics.by_id(topic_id)
    if topic is not None:
        return _named(topic)
    return MetadataResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id
    )


def _by_name(services: Services, name: str, code: ErrorCode | None) -> MetadataResponseTopic:
    topic = services.topics.by_name(name)
    if topic is not None:
        return _named(topic)
    if code is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        try:
            check_name(name)
        except TopicError as error:
            code = error.code
    return MetadataResponseTopic(error_code=code, name=name, is_internal=name in INTERNAL_TOPICS)


def _named(topic: TopicInfo) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name, topic_id=topic.topic_id, is_internal=topic.name in INTERNAL_TOPICS
    )


def _describe_partition(
    services: Services, topic: str, info: PartitionInfo
) -> MetadataResponsePartition:
    led = services.partitions.leader(topic, info.partition, services.node_id)
    return MetadataResponsePartition(
        error_code=led.error_code,
        partition_index=info.partition,
        leader_id=led.leader_id,
        leader_epoch=info.leader_epoch,
        replica_nodes=[services.node_id],
        isr_nodes=[services.node_id],
        offline_replicas=led.offline_replicas,
    )


def error_response(request: Request, code: ErrorCode) -> MetadataResponse:
    """Return an answer with `code` for each topic in the request."""
    return MetadataResponse(
        error_code=code,
        topics=[
            MetadataResponseTopic(error_code=code, name=topic.name or "", topic_id=topic.topic_id)
            for topic in request.body.topics or []
        ],
    )
