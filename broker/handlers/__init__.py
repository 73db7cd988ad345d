"""The APIs this broker serves, in the order of their keys: one row each, one module a row.

What is listed here is served and advertised, and nothing else is (broker/handlers/api_versions.py
has the one exception). A module has `handle(request, services)` and `error_response(request,
code)`; what `handle` may return is described in `broker.dispatch`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

from broker.handlers import (
    alter_configs,
    alter_partition_reassignments,
    api_versions,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_records,
    delete_topics,
    describe_acls,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    elect_leaders,
    fetch,
    incremental_alter_configs,
    init_producer_id,
    list_config_resources,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_for_leader_epoch,
    produce,
    unregister_broker,
    update_features,
)
from broker.request import Request
from broker.services import Services
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse


class Handler(NamedTuple):
    """One API: its key, the versions served, its messages and its functions."""

    api_key: ApiKey
    min_version: int
    max_version: int
    request: type
    response: type
    handle: Callable[[Request, Services], Any]
    error_response: Callable[[Request, ErrorCode], Any]


def _row(
    api_key: ApiKey, versions: tuple[int, int], module: ModuleType, request: type, response: type
) -> Handler:
    return Handler(api_key, *versions, request, response, module.handle, module.error_response)


# Produce is listed from version 0 and served from 3, as in Kafka: librdkafka takes a higher floor
# for "this broker knows no compression" (KAFKA-18659).
PRODUCE_ADVERTISED_MIN = 0

HANDLERS: tuple[Handler, ...] = (
    _row(ApiKey.PRODUCE, (3, 13), produce, ProduceRequest, ProduceResponse),
    _row(ApiKey.FETCH, (4, 18), fetch, FetchRequest, FetchResponse),
    _row(ApiKey.LIST_OFFSETS, (1, 11), list_offsets, ListOffsetsRequest, ListOffsetsResponse),
    _row(ApiKey.METADATA, (0, 13), metadata, MetadataRequest, MetadataResponse),
    _row(ApiKey.API_VERSIONS, (0, 4), api_versions, ApiVersionsRequest, ApiVersionsResponse),
    _row(ApiKey.CREATE_TOPICS, (2, 7), create_topics, CreateTopicsRequest, CreateTopicsResponse),
    _row(ApiKey.DELETE_TOPICS, (1, 6), delete_topics, DeleteTopicsRequest, DeleteTopicsResponse),
    _row(
        ApiKey.DELETE_RECORDS, (0, 2), delete_records, DeleteRecordsRequest, DeleteRecordsResponse
    ),
    _row(
        ApiKey.INIT_PRODUCER_ID,
        (0, 5),
        init_producer_id,
        InitProducerIdRequest,
        InitProducerIdResponse,
    ),
    _row(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        (2, 4),
        offset_for_leader_epoch,
        OffsetForLeaderEpochRequest,
        OffsetForLeaderEpochResponse,
    ),
    _row(ApiKey.DESCRIBE_ACLS, (1, 3), describe_acls, DescribeAclsRequest, DescribeAclsResponse),
    _row(ApiKey.CREATE_ACLS, (1, 3), create_acls, CreateAclsRequest, CreateAclsResponse),
    _row(ApiKey.DELETE_ACLS, (1, 3), delete_acls, DeleteAclsRequest, DeleteAclsResponse),
    _row(
        ApiKey.DESCRIBE_CONFIGS,
        (1, 4),
        describe_configs,
        DescribeConfigsRequest,
        DescribeConfigsResponse,
    ),
    _row(ApiKey.ALTER_CONFIGS, (0, 2), alter_configs, AlterConfigsRequest, AlterConfigsResponse),
    _row(
        ApiKey.DESCRIBE_LOG_DIRS,
        (1, 5),
        describe_log_dirs,
        DescribeLogDirsRequest,
        DescribeLogDirsResponse,
    ),
    _row(
        ApiKey.CREATE_PARTITIONS,
        (0, 3),
        create_partitions,
        CreatePartitionsRequest,
        CreatePartitionsResponse,
    ),
    _row(ApiKey.ELECT_LEADERS, (0, 2), elect_leaders, ElectLeadersRequest, ElectLeadersResponse),
    _row(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        (0, 1),
        incremental_alter_configs,
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    ),
    _row(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        (0, 1),
        alter_partition_reassignments,
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
    ),
    _row(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        (0, 0),
        list_partition_reassignments,
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
    ),
    _row(
        ApiKey.DESCRIBE_QUORUM,
        (0, 2),
        describe_quorum,
        DescribeQuorumRequest,
        DescribeQuorumResponse,
    ),
    _row(
        ApiKey.UPDATE_FEATURES,
        (0, 2),
        update_features,
        UpdateFeaturesRequest,
        UpdateFeaturesResponse,
    ),
    _row(
        ApiKey.DESCRIBE_CLUSTER,
        (0, 2),
        describe_cluster,
        DescribeClusterRequest,
        DescribeClusterResponse,
    ),
    _row(
        ApiKey.DESCRIBE_PRODUCERS,
        (0, 0),
        describe_producers,
        DescribeProducersRequest,
        DescribeProducersResponse,
    ),
    _row(
        ApiKey.UNREGISTER_BROKER,
        (0, 0),
        unregister_broker,
        UnregisterBrokerRequest,
        UnregisterBrokerResponse,
    ),
    _row(
        ApiKey.LIST_CONFIG_RESOURCES,
        (0, 1),
        list_config_resources,
        ListConfigResourcesRequest,
        ListConfigResourcesResponse,
    ),
    _row(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        (0, 0),
        describe_topic_partitions,
        DescribeTopicPartitionsRequest,
        DescribeTopicPartitionsResponse,
    ),
)
