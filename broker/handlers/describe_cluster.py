"""DescribeCluster, API key 60, versions 0-2.

Behaviour
- There is one broker, at the address of the listener that received the request
  (broker/network/advertised.py). It is also the controller, and never fenced.
- This is a broker's endpoint: asking for controllers (`endpoint_type` 2, KIP-919) is
  MISMATCHED_ENDPOINT_TYPE, any other type is UNSUPPORTED_ENDPOINT_TYPE.
- Authorized operations, if requested, are all operations: there is no authorization.

Version notes: 1 endpoint type, 2 fenced brokers (KIP-1073), of which there are none.
"""

from __future__ import annotations

from broker.authorized_operations import CLUSTER_OPERATIONS
from broker.runtime.request import Request
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.describe_cluster import (
    BROKERS,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

CONTROLLERS = 2  # EndpointType in Kafka: on the wire, never renumber


def handle(request: Request, services: Services) -> DescribeClusterResponse:
    """Describe this broker."""
    body: DescribeClusterRequest = request.body
    if body.endpoint_type == CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of type BROKER, but we wanted an "
            "endpoint of type CONTROLLER",
        )
    if body.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"Unsupported endpoint type {body.endpoint_type}",
        )
    host, port = services.advertised.endpoint(request.info)
    response = DescribeClusterResponse(
        cluster_id=services.cluster_id,
        controller_id=services.node_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=services.node_id, host=host, port=port, rack=services.config.broker_rack
            )
        ],
    )
    if body.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def error_response(request: Request, code: ErrorCode) -> DescribeClusterResponse:  # noqa: ARG001
    """Return an answer with `code` that describes nothing."""
    return DescribeClusterResponse(error_code=code, error_message=code.message)
