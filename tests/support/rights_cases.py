"""Requests for each API, and sets of ACLs, to compare what is answered to clients without rights.

A case is an API, a version and the fields of its request as plain values. Nothing that it asks for
changes what a later case finds, or `reset` in the test undoes it: there are a topic `t` with an id
of the placeholder T_ID, a group `g`, a transactional id `x`; `m` is always missing.
"""

from typing import Any, NamedTuple

from broker.handlers import HANDLERS
from protocol.records import Record, build

T_ID, UNKNOWN_ID = b"T" * 16, b"?" * 16
ROWS = {row.api_key.name: row for row in HANDLERS}


class Case(NamedTuple):
    api: str
    version: int
    body: dict[str, Any]
    label: str = ""

    def __str__(self) -> str:
        return f"{self.api.lower()}-v{self.version}{self.label and '-'}{self.label}"


class Grant(NamedTuple):
    """One ACL of the client under test."""

    kind: int  # ResourceType
    operation: int  # AclOperation
    name: str = "*"
    pattern: int = 3  # LITERAL; 4: PREFIXED
    host: str = "*"
    permission: int = 3  # ALLOW; 2: DENY
    principal: str = ""  # of the client under test


TOPIC, GROUP, CLUSTER, TXN = 2, 3, 4, 5
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = 2, 3, 4, 5, 6, 7, 8
CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = 9, 10, 11, 12
DENY, PREFIXED = 2, 4


def grant(kind: int, operation: int, name: str = "*", **more: Any) -> Grant:
    return Grant(kind, operation, "kafka-cluster" if kind == CLUSTER else name, **more)


def grants() -> dict[str, list[Grant]]:
    """Return the sets of ACLs, each with its name."""
    found: dict[str, list[Grant]] = {"none": []}
    kinds = {
        TOPIC: range(2, 12),
        GROUP: (ALL, READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS),
        CLUSTER: (ALL, *range(5, 13)),
        TXN: (ALL, WRITE, DESCRIBE),
    }
    for kind, operations in kinds.items():
        for operation in operations:
            if (kind, operation) != (TOPIC, CLUSTER_ACTION):
                found[f"{kind}:{operation}"] = [grant(kind, operation)]
    everything = [grant(kind, ALL) for kind in kinds]
    found["everything"] = everything
    for kind in kinds:
        found[f"all but {kind}"] = [one for one in everything if one.kind != kind]
    for operation in (READ, WRITE, DESCRIBE, DELETE, CREATE, DESCRIBE_CONFIGS):
        denied = grant(TOPIC, operation, "t", permission=DENY)
        rest = [one for one in everything if one.kind != CLUSTER]
        found[f"deny {operation} of t"] = [*rest, denied]
    found["deny describe of g"] = [*everything, grant(GROUP, DESCRIBE, "g", permission=DENY)]
    found["deny read of g"] = [*everything, grant(GROUP, READ, "g", permission=DENY)]
    found["deny all of each topic"] = [*everything, grant(TOPIC, ALL, permission=DENY)]
    found["prefix"] = [grant(TOPIC, ALL, "t", pattern=PREFIXED), grant(GROUP, ALL, "g")]
    found["other prefix"] = [grant(TOPIC, ALL, "u", pattern=PREFIXED), grant(GROUP, ALL, "gg")]
    found["other host"] = [one._replace(host="10.9.9.9") for one in everything]
    found["this host"] = [one._replace(host="127.0.0.1") for one in everything]
    found["group and topic"] = [grant(GROUP, READ), grant(TOPIC, READ, "t")]
    found["describe both"] = [grant(GROUP, DESCRIBE), grant(TOPIC, DESCRIBE, "t")]
    found["id and topic"] = [grant(TXN, WRITE), grant(TOPIC, WRITE, "t")]
    found["id, group, topic"] = [grant(TXN, WRITE), grant(GROUP, READ), grant(TOPIC, READ, "t")]
    found["named"] = [grant(TOPIC, ALL, "t"), grant(GROUP, ALL, "g"), grant(TXN, ALL, "x")]
    found["everybody"] = [one._replace(principal="User:*") for one in everything]
    found["deny everybody t"] = [
        *everything,
        grant(TOPIC, ALL, "t", permission=DENY, principal="User:*"),
    ]
    found["deny a prefix"] = [
        *everything,
        grant(TOPIC, ALL, "t", pattern=PREFIXED, permission=DENY),
        grant(GROUP, ALL, "g", pattern=PREFIXED, permission=DENY),
        grant(TXN, ALL, "x", pattern=PREFIXED, permission=DENY),
    ]
    for host in ("127.0.0.1", "10.9.9.9"):
        denied = [grant(kind, ALL, permission=DENY, host=host) for kind in (GROUP, TOPIC)]
        found[f"deny from {host}"] = [*everything, *denied]
    found["deny each operation of the cluster"] = [
        *everything,
        *(grant(CLUSTER, operation, permission=DENY) for operation in range(5, 13)),
    ]
    found["create only"] = [grant(TOPIC, CREATE), grant(TOPIC, DESCRIBE)]
    return found


def batch(producer_id: int = -1) -> memoryview:
    """Return a batch of one record; with a producer id, a transactional one."""
    records = [Record(0, 1_700_000_000_000, b"k", b"v")]
    if producer_id < 0:
        return memoryview(build(records))
    ids = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0}
    return memoryview(build(records, **ids, transactional=True))


def _each(name: str = "name", inner: str = "partitions", **of: Any) -> list[dict[str, Any]]:
    return [{name: topic, inner: [{**of}]} for topic in ("t", "m")]


def _numbers(name: str = "name", inner: str = "partitions") -> list[dict[str, Any]]:
    return [{name: topic, inner: [0]} for topic in ("t", "m")]


def _produce(acks: int, topics: list[dict[str, Any]], name: str | None = None) -> dict[str, Any]:
    return {"transactional_id": name, "acks": acks, "timeout_ms": 5000, "topic_data": topics}


DATA = {"index": 0, "records": batch()}
FETCH = {"max_wait_ms": 0, "min_bytes": 0}
PLACE = {"fetch_offset": 0, "partition_max_bytes": 1000}
COMMIT = {"partition_index": 0, "committed_offset": 1}
MEMBER = {"group_id": "g", "generation_id": 1, "member_id": "nobody"}
IN_TXN = {"transactional_id": "x", "producer_id": 10**9, "producer_epoch": 0}
OLD_TXN = {f"v3_and_below_{name}": value for name, value in IN_TXN.items()}
OWN = {"resource_name": "1", "resource_type": 4}
RESOURCES = [
    {"resource_type": 2, "resource_name": "t"},
    {"resource_type": 2, "resource_name": "m"},
    OWN,
    {"resource_type": 32, "resource_name": "g"},
]
ALTERED = [
    {**one, "configs": [{"name": name, "value": value}]}
    for one, name, value in zip(
        (RESOURCES[0], RESOURCES[1], RESOURCES[3]),
        ("retention.ms", "retention.ms", "consumer.session.timeout.ms"),
        ("100000", "100000", "45000"),
        strict=True,
    )
]
ANY_ACL = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1}
BEAT = {"group_id": "cg", "member_id": "nobody", "member_epoch": 5}


def _cases_1() -> list[Case]:
    return [
        Case("PRODUCE", 9, _produce(1, _each(inner="partition_data", **DATA))),
        Case(
            "PRODUCE",
            13,
            _produce(
                1,
                [
                    {"topic_id": one, "partition_data": [{"index": 0, "records": batch()}]}
                    for one in (T_ID, UNKNOWN_ID)
                ],
            ),
        ),
        Case(
            "PRODUCE", 9, _produce(1, _each(inner="partition_data", **DATA), "x"), "plain with id"
        ),
        Case(
            "PRODUCE",
            11,
            _produce(
                -1,
                [
                    {
                        "name": "t",
                        "partition_data": [{"index": 0, "records": batch(10**9)}],
                    }
                ],
                "x",
            ),
            "transactional",
        ),
        Case("FETCH", 12, {**FETCH, "topics": _each("topic", partition=0, **PLACE)}),
        Case(
            "FETCH",
            16,
            {
                **FETCH,
                "topics": [
                    {"topic_id": one, "partitions": [{"partition": 0, **PLACE}]}
                    for one in (T_ID, UNKNOWN_ID)
                ],
            },
        ),
        Case(
            "LIST_OFFSETS",
            7,
            {"replica_id": -1, "topics": _each(partition_index=0, timestamp=-2)},
        ),
    ]


def _cases_2() -> list[Case]:
    return [
        Case(
            "METADATA",
            8,
            {
                "topics": [{"name": "t"}, {"name": "m"}],
                "allow_auto_topic_creation": False,
                "include_cluster_authorized_operations": True,
                "include_topic_authorized_operations": True,
            },
        ),
        Case("METADATA", 0, {"topics": []}, "all"),
        Case(
            "METADATA",
            12,
            {"topics": [{"topic_id": T_ID, "name": None}, {"topic_id": UNKNOWN_ID, "name": None}]},
            "ids",
        ),
        Case("METADATA", 12, {"topics": None, "include_topic_authorized_operations": True}, "all"),
        Case("OFFSET_COMMIT", 8, {"group_id": "g", "topics": _each(**COMMIT)}),
        Case(
            "OFFSET_COMMIT",
            10,
            {
                "group_id": "g",
                "topics": [{"topic_id": one, "partitions": [COMMIT]} for one in (T_ID, UNKNOWN_ID)],
            },
        ),
        Case("OFFSET_FETCH", 7, {"group_id": "g", "topics": _numbers(inner="partition_indexes")}),
        Case("OFFSET_FETCH", 1, {"group_id": "g", "topics": _numbers(inner="partition_indexes")}),
        Case("OFFSET_FETCH", 7, {"group_id": "g", "topics": None}, "all"),
        Case(
            "OFFSET_FETCH",
            9,
            {
                "groups": [
                    {"group_id": "g", "topics": _numbers(inner="partition_indexes")},
                    {"group_id": "none", "topics": None},
                ]
            },
        ),
        Case("OFFSET_FETCH", 9, {"groups": [{"group_id": "g", "topics": None}]}, "all"),
    ]


def _cases_3() -> list[Case]:
    return [
        Case(
            "OFFSET_FETCH",
            10,
            {
                "groups": [
                    {
                        "group_id": "g",
                        "topics": [
                            {"topic_id": one, "partition_indexes": [0]}
                            for one in (T_ID, UNKNOWN_ID)
                        ],
                    }
                ]
            },
        ),
        Case("FIND_COORDINATOR", 3, {"key": "g", "key_type": 0}),
        Case("FIND_COORDINATOR", 3, {"key": "x", "key_type": 1}, "id"),
        Case("FIND_COORDINATOR", 4, {"key_type": 0, "coordinator_keys": ["g", "gg"]}),
        Case("FIND_COORDINATOR", 4, {"key_type": 1, "coordinator_keys": ["x"]}, "id"),
        Case(
            "JOIN_GROUP",
            4,
            {
                "group_id": "g",
                "session_timeout_ms": 10_000,
                "rebalance_timeout_ms": 10_000,
                "member_id": "nobody",
                "protocol_type": "consumer",
                "protocols": [{"name": "range", "metadata": b""}],
            },
        ),
        Case("SYNC_GROUP", 3, MEMBER),
        Case("HEARTBEAT", 3, MEMBER),
        Case("LEAVE_GROUP", 3, {"group_id": "g", "members": [{"member_id": "nobody"}]}),
        Case("DESCRIBE_GROUPS", 4, {"groups": ["g"], "include_authorized_operations": True}),
        Case("LIST_GROUPS", 4, {}),
        Case(
            "CREATE_TOPICS",
            7,
            {
                "topics": [
                    {"name": name, "num_partitions": 1, "replication_factor": 1}
                    for name in ("t", "new")
                ],
                "validate_only": True,
            },
        ),
        Case("DELETE_TOPICS", 5, {"topic_names": ["m"], "timeout_ms": 5000}),
        Case(
            "DELETE_TOPICS",
            6,
            {"topics": [{"name": "m"}, {"topic_id": UNKNOWN_ID}], "timeout_ms": 5000},
        ),
    ]


def _cases_4() -> list[Case]:
    return [
        Case(
            "DELETE_RECORDS",
            2,
            {"topics": _each(partition_index=0, offset=0), "timeout_ms": 5000},
        ),
        Case("INIT_PRODUCER_ID", 4, {"transactional_id": None, "transaction_timeout_ms": 60_000}),
        Case(
            "INIT_PRODUCER_ID", 4, {"transactional_id": "x", "transaction_timeout_ms": 9999}, "id"
        ),
        Case("OFFSET_FOR_LEADER_EPOCH", 4, {"topics": _each("topic", partition=0, leader_epoch=0)}),
        Case("ADD_PARTITIONS_TO_TXN", 3, {**OLD_TXN, "v3_and_below_topics": _numbers()}),
        Case(
            "ADD_PARTITIONS_TO_TXN",
            3,
            {**OLD_TXN, "v3_and_below_topics": [{"name": "t", "partitions": [0]}]},
            "one",
        ),
        Case("ADD_PARTITIONS_TO_TXN", 4, {"transactions": [{**IN_TXN, "topics": _numbers()}]}),
        Case("ADD_OFFSETS_TO_TXN", 3, {**IN_TXN, "group_id": "g"}),
        Case("END_TXN", 3, {**IN_TXN, "committed": False}),
        Case(
            "WRITE_TXN_MARKERS",
            1,
            {
                "markers": [
                    {
                        "producer_id": 10**9,
                        "producer_epoch": 0,
                        "transaction_result": False,
                        "topics": [{"name": "m", "partition_indexes": [0]}],
                        "coordinator_epoch": 0,
                    }
                ]
            },
        ),
        Case("TXN_OFFSET_COMMIT", 3, {**IN_TXN, "group_id": "g", "topics": _each(**COMMIT)}),
        Case("DESCRIBE_ACLS", 3, {**ANY_ACL, "permission_type": 1, "host_filter": "1.2.3.4"}),
        Case(
            "CREATE_ACLS",
            3,
            {
                "creations": [
                    {
                        "resource_type": 2,
                        "resource_name": "",
                        "resource_pattern_type": 3,
                        "principal": "User:a",
                        "host": "*",
                        "operation": 3,
                        "permission_type": 3,
                    }
                ]
            },
        ),
    ]


def _cases_5() -> list[Case]:
    return [
        Case(
            "DELETE_ACLS",
            3,
            {"filters": [{**ANY_ACL, "permission_type": 1, "host_filter": "1.2.3.4"}]},
        ),
        Case(
            "DESCRIBE_CONFIGS",
            4,
            {"resources": [{**one, "configuration_keys": ["none"]} for one in RESOURCES]},
        ),
        Case("ALTER_CONFIGS", 2, {"resources": ALTERED, "validate_only": True}),
        Case("INCREMENTAL_ALTER_CONFIGS", 1, {"resources": ALTERED, "validate_only": True}),
        Case("DESCRIBE_LOG_DIRS", 4, {"topics": []}),
        Case("DESCRIBE_LOG_DIRS", 1, {"topics": []}),
        Case(
            "CREATE_PARTITIONS",
            3,
            {
                "topics": [{"name": name, "count": 2} for name in ("t", "m")],
                "validate_only": True,
                "timeout_ms": 5000,
            },
        ),
        Case("DELETE_GROUPS", 2, {"groups_names": ["none"]}),
        Case(
            "ELECT_LEADERS",
            2,
            {"topic_partitions": [{"topic": "t", "partitions": [0]}], "timeout_ms": 5000},
        ),
        Case(
            "ALTER_PARTITION_REASSIGNMENTS",
            0,
            {"topics": _each(partition_index=0, replicas=None), "timeout_ms": 5000},
        ),
        Case("LIST_PARTITION_REASSIGNMENTS", 0, {"topics": None, "timeout_ms": 5000}),
        Case("OFFSET_DELETE", 0, {"group_id": "g", "topics": _each(partition_index=5)}),
        Case(
            "DESCRIBE_QUORUM",
            1,
            {
                "topics": [
                    {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}
                ]
            },
        ),
        Case("DESCRIBE_CLIENT_QUOTAS", 1, {"components": []}),
        Case(
            "ALTER_CLIENT_QUOTAS",
            1,
            {
                "entries": [
                    {
                        "entity": [{"entity_type": "user", "entity_name": "nobody"}],
                        "ops": [{"key": "request_percentage", "value": 50.0}],
                    }
                ],
                "validate_only": True,
            },
        ),
        Case("DESCRIBE_USER_SCRAM_CREDENTIALS", 0, {"users": [{"name": "nobody"}]}),
        Case(
            "ALTER_USER_SCRAM_CREDENTIALS", 0, {"deletions": [{"name": "nobody", "mechanism": 1}]}
        ),
        Case("UPDATE_FEATURES", 1, {"feature_updates": [], "validate_only": True}),
        Case("DESCRIBE_CLUSTER", 1, {"include_cluster_authorized_operations": True}),
        Case("DESCRIBE_PRODUCERS", 0, {"topics": [*_numbers(inner="partition_indexes")]}),
    ]


def _cases_6() -> list[Case]:
    return [
        Case(
            "DESCRIBE_PRODUCERS",
            0,
            {"topics": [{"name": "no/name", "partition_indexes": [0]}]},
            "invalid",
        ),
        Case("UNREGISTER_BROKER", 0, {"broker_id": 77}),
        Case("DESCRIBE_TRANSACTIONS", 0, {"transactional_ids": ["x", "y"]}),
        Case("LIST_TRANSACTIONS", 0, {}),
        Case("CONSUMER_GROUP_HEARTBEAT", 0, BEAT),
        Case("CONSUMER_GROUP_HEARTBEAT", 0, {**BEAT, "subscribed_topic_names": ["t"]}, "names"),
        Case(
            "CONSUMER_GROUP_DESCRIBE",
            0,
            {"group_ids": ["cg", "g"], "include_authorized_operations": True},
        ),
        Case("LIST_CONFIG_RESOURCES", 0, {}),
        Case("DESCRIBE_TOPIC_PARTITIONS", 0, {"topics": [{"name": "t"}, {"name": "m"}]}),
        Case("DESCRIBE_TOPIC_PARTITIONS", 0, {"topics": []}, "all"),
    ]


def cases() -> list[Case]:
    """Return the requests, in the order of their keys."""
    return [
        *_cases_1(),
        *_cases_2(),
        *_cases_3(),
        *_cases_4(),
        *_cases_5(),
        *_cases_6(),
    ]


def compared_only() -> list[Case]:
    """Return requests whose answers are the same on both brokers, with a right or without."""
    return [
        Case(
            "METADATA",
            11,
            {"topics": [{"topic_id": T_ID, "name": "t"}, {"topic_id": UNKNOWN_ID, "name": "m"}]},
            "ids",
        ),
        Case("SASL_HANDSHAKE", 1, {"mechanism": "PLAIN"}),
        Case("SASL_AUTHENTICATE", 2, {"auth_bytes": b""}),
        Case("FIND_COORDINATOR", 6, {"key_type": 2, "coordinator_keys": ["bad"]}, "share"),
        Case("DELETE_GROUPS", 2, {"groups_names": ["none", "gone", "other"]}, "several"),
        Case(
            "OFFSET_FETCH",
            9,
            {"groups": [{"group_id": one, "topics": None} for one in ("gg", "g", "x")]},
            "several",
        ),
    ]
