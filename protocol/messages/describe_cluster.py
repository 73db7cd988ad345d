"""DescribeCluster, API key 60, versions 0 to 2: the brokers, the controller and the cluster's id.

Version notes: 1 `endpoint_type` (KIP-919), 2 fenced brokers (KIP-1073). All are flexible.

Source: DescribeClusterRequest.json and DescribeClusterResponse.json, Apache Kafka 4.3 (KIP-700).
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import Bool, Int8, Int16, Int32, Nullable, Since, String, message, structure

BROKERS = 1  # EndpointType in Kafka
NOT_ASKED = -(2**31)


@message(api_key=60, kind="request", versions=(0, 2), flexible_since=0)
@structure
class DescribeClusterRequest:
    """Which kind of endpoints to list."""

    include_cluster_authorized_operations: Bool = False
    endpoint_type: Annotated[Int8, Since(1)] = BROKERS
    include_fenced_brokers: Annotated[Bool, Since(2)] = False


@structure
class DescribeClusterBroker:
    """A broker and its address."""

    broker_id: Int32
    host: String
    port: Int32
    rack: Annotated[String | None, Nullable()] = None
    is_fenced: Annotated[Bool, Since(2)] = False


@message(api_key=60, kind="response", versions=(0, 2), flexible_since=0)
@structure
class DescribeClusterResponse:
    """The cluster. `cluster_authorized_operations` is a set of bits, -2^31 when not asked for."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[String | None, Nullable()] = None
    endpoint_type: Annotated[Int8, Since(1)] = BROKERS
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker] = field(default_factory=list)
    cluster_authorized_operations: Int32 = NOT_ASKED
