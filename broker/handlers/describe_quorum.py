"""DescribeQuorum, API key 55, versions 0-2.

Behaviour
- The quorum of the metadata log has one voter. This node is the leader, in the log's epoch, and
  always caught up. There are no observers.
- The high watermark is the durable end of the metadata log; the log end offset is its written end.
- If a request names anything but partition 0 of `__cluster_metadata`, or names it twice, everything
  in it is UNKNOWN_TOPIC_OR_PARTITION, as in Kafka.
- The voter's directory id is zero, as with Kafka's static voters (kraft.version 0).
- The node's endpoint is that of the listener that received the request: there is no controller
  listener.

Version notes: 1 timestamps (KIP-836), 2 messages, nodes and directory ids (KIP-853).
"""

from __future__ import annotations

from broker.runtime.request import Request
from broker.runtime.steps import Steps
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from storage.files.filenames import METADATA_TOPIC


def handle(request: Request, services: Services) -> DescribeQuorumResponse | Steps:
    """Describe the quorum, which has one voter."""
    body: DescribeQuorumRequest = request.body
    asked = [  # no more of it than tells: it may be very long
        (topic.topic_name, [partition.partition_index for partition in topic.partitions[:2]])
        for topic in body.topics[:2]
    ]
    if asked != [(METADATA_TOPIC, [0])]:
        return _refused(body, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    host, port = services.advertised.endpoint(request.info)
    listener = Listener(name=request.info.listener.name, host=host, port=port)
    return DescribeQuorumResponse(
        topics=[TopicData(topic_name=METADATA_TOPIC, partitions=[_quorum(services)])],
        nodes=[Node(node_id=services.node_id, listeners=[listener])],
    )


def _quorum(services: Services) -> PartitionData:
    metadata_log = services.controller.metadata_log
    now_ms = services.clock.now_ms()
    voter = ReplicaState(
        replica_id=services.node_id,
        log_end_offset=metadata_log.end_offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    return PartitionData(
        partition_index=0,
        leader_id=services.node_id,
        leader_epoch=metadata_log.epoch,
        high_watermark=metadata_log.log.high_watermark,
        current_voters=[voter],
    )


def _refused(body: DescribeQuorumRequest, code: ErrorCode) -> Steps:
    response = DescribeQuorumResponse()
    for topic in body.topics:
        answer = TopicData(topic_name=topic.topic_name)
        response.topics.append(answer)
        yield len(topic.topic_name)
        for partition in topic.partitions:
            answer.partitions.append(
                PartitionData(
                    partition_index=partition.partition_index,
                    error_code=code,
                    error_message=code.message,
                )
            )
            yield len(code.message)
    return response


def error_response(request: Request, code: ErrorCode) -> DescribeQuorumResponse:  # noqa: ARG001
    """Return an answer with `code` for the whole request."""
    return DescribeQuorumResponse(error_code=code, error_message=code.message)
