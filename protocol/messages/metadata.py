"""Metadata, API key 3, versions 0 to 13: brokers, topics, partitions and their leaders.

Version notes
- 0: an empty `topics` asks for all topics. From 1 on null asks for all, and empty for none.
  1: racks, the controller, and whether a topic is internal.
- 2: the cluster's id. 3: `throttle_time_ms`. 4: the client may forbid the creation of what it asks
  for. 5: `offline_replicas` (KIP-112).
- From 6 on a throttled answer is sent before the pause. 7: the leader's epoch (KIP-320).
- 8: authorized operations on request (KIP-430). 9: flexible.
- 10: topic ids (KIP-516); 10 and 11 carry ids in the request that brokers do not look up.
- 11: operations on the cluster leave this API for DescribeCluster (KIP-700).
- 12: topics may be asked by id, with a null name. 13: an error for the answer as a whole, which
  tells a client to bootstrap again (KIP-1102).

Source: MetadataRequest.json and MetadataResponse.json, Apache Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated, Final

from protocol.wire import (
    ZERO_UUID,
    Bool,
    Int16,
    Int32,
    Nullable,
    Since,
    String,
    Until,
    Uuid,
    message,
    structure,
)

# "Not asked for": the lowest int32, Kafka's MetadataResponse.AUTHORIZED_OPERATIONS_OMITTED.
AUTHORIZED_OPERATIONS_OMITTED: Final = -(2**31)


@structure
class MetadataRequestTopic:
    """A topic by name, or from version 12 on by id with a null name."""

    topic_id: Annotated[Uuid, Since(10)] = ZERO_UUID
    name: Annotated[String | None, Nullable(since=10)] = ""


@message(api_key=3, kind="request", versions=(0, 13), flexible_since=9)
@structure
class MetadataRequest:
    """What to describe: null `topics` is all of them; so is an empty list in version 0 only."""

    topics: Annotated[list[MetadataRequestTopic] | None, Nullable(since=1)] = field(
        default_factory=list
    )
    allow_auto_topic_creation: Annotated[Bool, Since(4)] = True
    include_cluster_authorized_operations: Annotated[Bool, Since(8), Until(10)] = False
    include_topic_authorized_operations: Annotated[Bool, Since(8)] = False


@structure
class MetadataResponseBroker:
    """A broker and its address for the listener that got the request."""

    node_id: Int32
    host: String
    port: Int32
    rack: Annotated[String | None, Since(1), Nullable(since=1)] = None


@structure
class MetadataResponsePartition:
    """A partition: its leader (-1 none), and the ids of the brokers that hold it."""

    error_code: Int16 = 0
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Annotated[Int32, Since(7)] = -1
    replica_nodes: list[Int32] = field(default_factory=list)
    isr_nodes: list[Int32] = field(default_factory=list)
    offline_replicas: Annotated[list[Int32], Since(5)] = field(default_factory=list)


@structure
class MetadataResponseTopic:
    """A topic, or why it cannot be described.

    The name is null only for an unknown id, from version 12 on; the id is zero only for an
    unknown name.
    """

    error_code: Int16 = 0
    name: Annotated[String | None, Nullable(since=12)] = ""
    topic_id: Annotated[Uuid, Since(10)] = ZERO_UUID
    is_internal: Annotated[Bool, Since(1)] = False
    partitions: list[MetadataResponsePartition] = field(default_factory=list)
    topic_authorized_operations: Annotated[Int32, Since(8)] = AUTHORIZED_OPERATIONS_OMITTED


@message(api_key=3, kind="response", versions=(0, 13), flexible_since=9)
@structure
class MetadataResponse:
    """The cluster as seen from the listener that got the request."""

    throttle_time_ms: Annotated[Int32, Since(3)] = 0
    brokers: list[MetadataResponseBroker] = field(default_factory=list)
    cluster_id: Annotated[String | None, Since(2), Nullable(since=2)] = None
    controller_id: Annotated[Int32, Since(1)] = -1
    topics: list[MetadataResponseTopic] = field(default_factory=list)
    cluster_authorized_operations: Annotated[Int32, Since(8), Until(10)] = (
        AUTHORIZED_OPERATIONS_OMITTED
    )
    error_code: Annotated[Int16, Since(13)] = 0
