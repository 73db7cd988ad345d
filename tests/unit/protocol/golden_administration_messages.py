"""Bytes that Apache Kafka 4.3's client library wrote: brokers, replicas, features and rules.

Rows of (message, version, bytes in hexadecimal) for `test_messages.py`, made by
org.apache.kafka.common.message's JSON converters from the same values.
"""

from protocol.messages import (
    alter_partition_reassignments,
    create_acls,
    delete_acls,
    describe_acls,
    elect_leaders,
    list_partition_reassignments,
    unregister_broker,
    update_features,
)


def reassign(version: int) -> alter_partition_reassignments.AlterPartitionReassignmentsRequest:
    """Return a request with every field of that version."""
    return alter_partition_reassignments.AlterPartitionReassignmentsRequest(
        timeout_ms=9000,
        allow_replication_factor_change=version < 1,
        topics=[
            alter_partition_reassignments.ReassignableTopic(
                name="clicks",
                partitions=[
                    alter_partition_reassignments.ReassignablePartition(
                        partition_index=3, replicas=[1, 2]
                    ),
                    alter_partition_reassignments.ReassignablePartition(partition_index=4),
                ],
            )
        ],
    )


def reassigned(version: int) -> alter_partition_reassignments.AlterPartitionReassignmentsResponse:
    """Return a response with every field of that version."""
    return alter_partition_reassignments.AlterPartitionReassignmentsResponse(
        throttle_time_ms=7,
        allow_replication_factor_change=version < 1,
        error_code=41,
        error_message=None if version < 1 else "moved",
        responses=[
            alter_partition_reassignments.ReassignableTopicResponse(
                name="clicks",
                partitions=[
                    alter_partition_reassignments.ReassignablePartitionResponse(
                        partition_index=3, error_message=None
                    ),
                    alter_partition_reassignments.ReassignablePartitionResponse(
                        partition_index=4, error_code=85, error_message="none"
                    ),
                ],
            )
        ],
    )


LIST_MOVES = list_partition_reassignments.ListPartitionReassignmentsRequest(
    timeout_ms=9000,
    topics=[
        list_partition_reassignments.ListPartitionReassignmentsTopics(
            name="clicks", partition_indexes=[3, 4]
        )
    ],
)
LIST_ALL_MOVES = list_partition_reassignments.ListPartitionReassignmentsRequest(topics=None)
MOVES = list_partition_reassignments.ListPartitionReassignmentsResponse(
    throttle_time_ms=7,
    error_message="busy",
    topics=[
        list_partition_reassignments.OngoingTopicReassignment(
            name="clicks",
            partitions=[
                list_partition_reassignments.OngoingPartitionReassignment(
                    partition_index=3,
                    replicas=[1, 2, 5],
                    adding_replicas=[5],
                    removing_replicas=[1, 2],
                )
            ],
        )
    ],
)
NO_MOVES = list_partition_reassignments.ListPartitionReassignmentsResponse(
    error_code=41, error_message=None
)


def elect(version: int) -> elect_leaders.ElectLeadersRequest:
    """Return a request with every field of that version."""
    return elect_leaders.ElectLeadersRequest(
        election_type=1 if version >= 1 else 0,
        topic_partitions=[elect_leaders.TopicPartitions(topic="clicks", partitions=[3, 4])],
        timeout_ms=9000,
    )


def elected(version: int) -> elect_leaders.ElectLeadersResponse:
    """Return a response with every field of that version."""
    return elect_leaders.ElectLeadersResponse(
        throttle_time_ms=7,
        error_code=31 if version >= 1 else 0,
        replica_election_results=[
            elect_leaders.ReplicaElectionResult(
                topic="clicks",
                partition_result=[
                    elect_leaders.PartitionResult(partition_id=3, error_message=None),
                    elect_leaders.PartitionResult(
                        partition_id=4, error_code=84, error_message="leads"
                    ),
                ],
            )
        ],
    )


def update(version: int) -> update_features.UpdateFeaturesRequest:
    """Return a request with every field of that version."""
    key = update_features.FeatureUpdateKey(feature="group.version", max_version_level=1)
    if version >= 1:
        key.upgrade_type = 3
    else:
        key.allow_downgrade = True
    return update_features.UpdateFeaturesRequest(
        timeout_ms=9000, feature_updates=[key], validate_only=version >= 1
    )


FEATURES_UPDATED = update_features.UpdateFeaturesResponse(
    throttle_time_ms=7, error_code=96, error_message="refused"
)
EACH_FEATURE_UPDATED = update_features.UpdateFeaturesResponse(
    throttle_time_ms=7,
    error_message=None,
    results=[
        update_features.UpdatableFeatureResult(feature="group.version", error_message=None),
        update_features.UpdatableFeatureResult(
            feature="metadata.version", error_code=96, error_message="refused"
        ),
    ],
)
DESCRIBE_ACLS = describe_acls.DescribeAclsRequest(
    resource_type_filter=2,
    resource_name_filter="clicks",
    pattern_type_filter=4,
    principal_filter="User:ann",
    host_filter="10.0.0.1",
    operation=5,
    permission_type=1,
)
DESCRIBE_ANY_ACLS = describe_acls.DescribeAclsRequest(
    resource_type_filter=1,
    resource_name_filter=None,
    principal_filter=None,
    host_filter=None,
    operation=6,
    permission_type=2,
)
ACLS = describe_acls.DescribeAclsResponse(
    throttle_time_ms=7,
    error_message=None,
    resources=[
        describe_acls.DescribeAclsResource(
            resource_type=2,
            resource_name="clicks",
            pattern_type=4,
            acls=[
                describe_acls.AclDescription(
                    principal="User:ann", host="10.0.0.1", operation=5, permission_type=1
                )
            ],
        )
    ],
)
NO_ACLS = describe_acls.DescribeAclsResponse(error_code=54, error_message="security is off")
CREATE_ACLS = create_acls.CreateAclsRequest(
    creations=[
        create_acls.AclCreation(
            resource_type=2,
            resource_name="clicks",
            resource_pattern_type=4,
            principal="User:ann",
            host="10.0.0.1",
            operation=5,
            permission_type=1,
        )
    ]
)
ACLS_CREATED = create_acls.CreateAclsResponse(
    throttle_time_ms=7,
    results=[
        create_acls.AclCreationResult(error_message=None),
        create_acls.AclCreationResult(error_code=54, error_message="security is off"),
    ],
)
DELETE_ACLS = delete_acls.DeleteAclsRequest(
    filters=[
        delete_acls.DeleteAclsFilter(
            resource_type_filter=2,
            resource_name_filter="clicks",
            pattern_type_filter=4,
            principal_filter="User:ann",
            host_filter="10.0.0.1",
            operation=5,
            permission_type=1,
        ),
        delete_acls.DeleteAclsFilter(
            resource_type_filter=1,
            resource_name_filter=None,
            principal_filter=None,
            host_filter=None,
            operation=6,
            permission_type=2,
        ),
    ]
)
ACLS_DELETED = delete_acls.DeleteAclsResponse(
    throttle_time_ms=7,
    filter_results=[
        delete_acls.DeleteAclsFilterResult(
            error_message=None,
            matching_acls=[
                delete_acls.DeleteAclsMatchingAcl(
                    error_code=42,
                    error_message="kept",
                    resource_type=2,
                    resource_name="clicks",
                    pattern_type=4,
                    principal="User:ann",
                    host="10.0.0.1",
                    operation=5,
                    permission_type=1,
                ),
                delete_acls.DeleteAclsMatchingAcl(
                    error_message=None,
                    resource_type=3,
                    resource_name="readers",
                    principal="User:bob",
                    host="*",
                    operation=6,
                    permission_type=2,
                ),
            ],
        ),
        delete_acls.DeleteAclsFilterResult(error_code=54, error_message="security is off"),
    ],
)

GOLDEN = [
    (reassign(1), 1, "00002328000207636c69636b730300000003030000000100000002000000000400000000"),
    (reassign(0), 0, "000023280207636c69636b730300000003030000000100000002000000000400000000"),
    (
        reassigned(1),
        1,
        (
            "00000007000029066d6f7665640207636c69636b73030000000300000000000000040055056e6f6e"
            "65000000"
        ),
    ),
    (
        reassigned(0),
        0,
        "000000070029000207636c69636b73030000000300000000000000040055056e6f6e65000000",
    ),
    (LIST_MOVES, 0, "000023280207636c69636b730300000003000000040000"),
    (LIST_ALL_MOVES, 0, "0000ea600000"),
    (
        MOVES,
        0,
        (
            "00000007000005627573790207636c69636b73020000000304000000010000000200000005020000"
            "0005030000000100000002000000"
        ),
    ),
    (NO_MOVES, 0, "000000000029000100"),
    (elect(2), 2, "010207636c69636b73030000000300000004000000232800"),
    (elect(1), 1, "01000000010006636c69636b7300000002000000030000000400002328"),
    (elect(0), 0, "000000010006636c69636b7300000002000000030000000400002328"),
    (elect_leaders.ElectLeadersRequest(topic_partitions=None), 2, "00000000ea6000"),
    (elect_leaders.ElectLeadersRequest(topic_partitions=None), 0, "ffffffff0000ea60"),
    (elected(2), 2, "00000007001f0207636c69636b73030000000300000000000000040054066c65616473000000"),
    (
        elected(1),
        1,
        ("00000007001f000000010006636c69636b7300000002000000030000ffff00000004005400056c65616473"),
    ),
    (
        elected(0),
        0,
        ("00000007000000010006636c69636b7300000002000000030000ffff00000004005400056c65616473"),
    ),
    (unregister_broker.UnregisterBrokerRequest(broker_id=5), 0, "0000000500"),
    (
        unregister_broker.UnregisterBrokerResponse(
            throttle_time_ms=7, error_code=102, error_message="unknown"
        ),
        0,
        "00000007006608756e6b6e6f776e00",
    ),
    (unregister_broker.UnregisterBrokerResponse(error_message=None), 0, "0000000000000000"),
    (update(2), 2, "00002328020e67726f75702e76657273696f6e000103000100"),
    (update(0), 0, "00002328020e67726f75702e76657273696f6e0001010000"),
    (FEATURES_UPDATED, 2, "000000070060087265667573656400"),
    (
        EACH_FEATURE_UPDATED,
        1,
        (
            "00000007000000030e67726f75702e76657273696f6e00000000116d657461646174612e76657273"
            "696f6e006008726566757365640000"
        ),
    ),
    (DESCRIBE_ACLS, 3, "0207636c69636b730409557365723a616e6e0931302e302e302e31050100"),
    (DESCRIBE_ACLS, 1, "020006636c69636b73040008557365723a616e6e000831302e302e302e310501"),
    (DESCRIBE_ANY_ACLS, 3, "0100030000060200"),
    (DESCRIBE_ANY_ACLS, 1, "01ffff03ffffffff0602"),
    (
        ACLS,
        3,
        ("00000007000000020207636c69636b73040209557365723a616e6e0931302e302e302e310501000000"),
    ),
    (
        ACLS,
        1,
        (
            "000000070000ffff00000001020006636c69636b7304000000010008557365723a616e6e00083130"
            "2e302e302e310501"
        ),
    ),
    (NO_ACLS, 3, "000000000036107365637572697479206973206f66660100"),
    (CREATE_ACLS, 3, "020207636c69636b730409557365723a616e6e0931302e302e302e3105010000"),
    (CREATE_ACLS, 1, "00000001020006636c69636b73040008557365723a616e6e000831302e302e302e310501"),
    (ACLS_CREATED, 3, "0000000703000000000036107365637572697479206973206f66660000"),
    (ACLS_CREATED, 1, "00000007000000020000ffff0036000f7365637572697479206973206f6666"),
    (
        DELETE_ACLS,
        3,
        ("030207636c69636b730409557365723a616e6e0931302e302e302e31050100010003000006020000"),
    ),
    (
        DELETE_ACLS,
        1,
        (
            "00000002020006636c69636b73040008557365723a616e6e000831302e302e302e31050101ffff03"
            "ffffffff0602"
        ),
    ),
    (
        ACLS_DELETED,
        3,
        (
            "000000070300000003002a056b6570740207636c69636b730409557365723a616e6e0931302e302e"
            "302e310501000000000308726561646572730309557365723a626f62022a06020000003610736563"
            "7572697479206973206f6666010000"
        ),
    ),
    (
        ACLS_DELETED,
        1,
        (
            "00000007000000020000ffff00000002002a00046b657074020006636c69636b7304000855736572"
            "3a616e6e000831302e302e302e3105010000ffff03000772656164657273030008557365723a626f"
            "6200012a06020036000f7365637572697479206973206f666600000000"
        ),
    ),
]
