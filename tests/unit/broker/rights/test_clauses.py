"""Each API asks for exactly its rights: the table is written here once more, by hand.

For each case of `tests.support.rights_cases`: with the rights of one alternative nothing is denied;
without one of them, though with every other right, something is. So it is with a deny beside them,
for another host, and never for a super user.
"""

from collections.abc import Iterator

import pytest

from broker.handlers import HANDLERS, Handler
from broker.rights.clauses import Each, Nothing
from protocol.api_keys import ApiKey
from tests.support import rights_cases
from tests.support.rights_cases import (
    ALL,
    ALTER,
    ALTER_CONFIGS,
    CLUSTER,
    CLUSTER_ACTION,
    CREATE,
    DELETE,
    DENY,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    GROUP,
    IDEMPOTENT_WRITE,
    READ,
    TOPIC,
    TXN,
    WRITE,
    Case,
    Grant,
    grant,
)
from tests.support.rights_rig import RightsRig, denials

C, G, T, X = CLUSTER, GROUP, TOPIC, TXN
Needs = tuple[tuple[int, int], ...]
CONFIGS: dict[str, list[Needs]] = {
    "describe": [((T, DESCRIBE_CONFIGS), (G, DESCRIBE_CONFIGS), (C, DESCRIBE_CONFIGS))],
    "alter": [((T, ALTER_CONFIGS), (G, ALTER_CONFIGS))],
}
NEEDED: dict[str, list[Needs]] = {
    "produce": [((T, WRITE),)],
    "produce-v11-transactional": [((X, WRITE), (T, WRITE))],
    "fetch": [((T, READ),)],
    "list_offsets": [((T, DESCRIBE),)],
    "metadata": [((T, DESCRIBE),)],
    "metadata-v0-all": [()],
    "metadata-v12-all": [()],
    "offset_commit": [((G, READ), (T, READ))],
    "offset_fetch": [((G, DESCRIBE), (T, DESCRIBE))],
    "offset_fetch-v7-all": [((G, DESCRIBE),)],
    "offset_fetch-v9-all": [((G, DESCRIBE),)],
    "find_coordinator": [((G, DESCRIBE),)],
    "find_coordinator-v3-id": [((X, DESCRIBE),)],
    "find_coordinator-v4-id": [((X, DESCRIBE),)],
    "join_group": [((G, READ),)],
    "sync_group": [((G, READ),)],
    "heartbeat": [((G, READ),)],
    "leave_group": [((G, READ),)],
    "describe_groups": [((G, DESCRIBE),)],
    "list_groups": [()],
    "create_topics": [((T, CREATE), (T, DESCRIBE_CONFIGS)), ((C, CREATE), (T, DESCRIBE_CONFIGS))],
    "delete_topics": [((T, DESCRIBE),), ((C, DELETE),)],  # of topics that are missing
    "delete_records": [((T, DELETE),)],
    "init_producer_id": [((C, IDEMPOTENT_WRITE),), ((T, WRITE),)],
    "init_producer_id-v4-id": [((X, WRITE),)],
    "offset_for_leader_epoch": [((T, DESCRIBE),), ((C, CLUSTER_ACTION),)],
    "add_partitions_to_txn": [((X, WRITE), (T, WRITE))],
    "add_partitions_to_txn-v4": [((C, CLUSTER_ACTION),)],
    "add_offsets_to_txn": [((X, WRITE), (G, READ))],
    "end_txn": [((X, WRITE),)],
    "write_txn_markers": [((C, ALTER),), ((C, CLUSTER_ACTION),)],
    "txn_offset_commit": [((X, WRITE), (G, READ), (T, READ))],
    "describe_acls": [((C, DESCRIBE),)],
    "create_acls": [((C, ALTER),)],
    "delete_acls": [((C, ALTER),)],
    "describe_configs": CONFIGS["describe"],
    "alter_configs": CONFIGS["alter"],
    "incremental_alter_configs": CONFIGS["alter"],
    "describe_log_dirs": [((C, DESCRIBE),)],
    "create_partitions": [((T, ALTER),)],
    "delete_groups": [((G, DELETE),)],
    "elect_leaders": [((C, ALTER),)],
    "alter_partition_reassignments": [((C, ALTER),)],
    "list_partition_reassignments": [((C, DESCRIBE),)],
    "offset_delete": [((G, DELETE), (T, READ))],
    "describe_client_quotas": [((C, DESCRIBE_CONFIGS),)],
    "alter_client_quotas": [((C, ALTER_CONFIGS),)],
    "describe_user_scram_credentials": [((C, DESCRIBE),)],
    "alter_user_scram_credentials": [((C, ALTER),)],
    "describe_quorum": [((C, DESCRIBE),)],
    "update_features": [((C, ALTER),)],
    "describe_cluster": [()],
    "describe_producers": [((T, READ),)],
    "describe_producers-v0-invalid": [()],
    "unregister_broker": [((C, ALTER),)],
    "describe_transactions": [((X, DESCRIBE),)],
    "list_transactions": [()],
    "consumer_group_heartbeat": [((G, READ),)],
    "consumer_group_heartbeat-v0-names": [((G, READ), (T, DESCRIBE))],
    "consumer_group_describe": [((G, DESCRIBE),)],
    "list_config_resources": [((C, DESCRIBE_CONFIGS),)],
    "describe_topic_partitions": [((T, DESCRIBE),)],
    "describe_topic_partitions-v0-all": [()],
}
FREE = {
    "API_VERSIONS", "SASL_HANDSHAKE", "SASL_AUTHENTICATE", "GET_TELEMETRY_SUBSCRIPTIONS",
    "PUSH_TELEMETRY",
}  # fmt: skip
EVERY = [one for grants in rights_cases.grants().values() for one in grants if len(grants) == 1]
IMPLYING = {DESCRIBE: (READ, WRITE, DELETE, ALTER), DESCRIBE_CONFIGS: (ALTER_CONFIGS,)}


def needed(case: Case) -> list[Needs]:
    name = str(case)
    known = NEEDED.get(name) or NEEDED.get(name.partition("-")[0])
    assert known is not None, f"{name} has no line in the table of this test"
    return known


def satisfies(one: Grant, need: tuple[int, int]) -> bool:
    kind, operation = need
    enough = (ALL, operation, *IMPLYING.get(operation, ()))
    return one.kind == kind and one.operation in enough


def each_missing(alternatives: list[Needs]) -> Iterator[list[Grant]]:
    """Yield every right but those that meet one need, and the needs that could stand for it."""
    for needs in alternatives:
        for missing in needs:
            others = {need for rest in alternatives if rest is not needs for need in rest}
            gone = {missing, *(others - set(needs))}
            yield [one for one in EVERY if not any(satisfies(one, need) for need in gone)]


@pytest.mark.parametrize("case", rights_cases.cases(), ids=str)
async def test_an_api_asks_for_exactly_its_rights(rights: RightsRig, case: Case) -> None:
    alternatives = needed(case)
    fresh = {str(one): one for one in rights_cases.cases()}[str(case)]
    assert denials(await rights.send(fresh, "User:ANONYMOUS")) == set()
    if alternatives == [()]:
        assert denials(await rights.send(fresh)) == set()
        return
    assert denials(await rights.send(fresh))
    for grants in each_missing(alternatives):
        rights.allow(*grants)
        assert denials(await rights.send(fresh)), grants
    for needs in alternatives:
        grants = [grant(*need) for need in needs]
        rights.allow(*grants)
        assert denials(await rights.send(fresh)) == set(), grants
        rights.allow(*(one._replace(host="127.0.0.1") for one in grants))
        assert denials(await rights.send(fresh)) == set()
        rights.allow(*(one._replace(host="10.9.9.9") for one in grants))
        assert denials(await rights.send(fresh))
        for denied in grants:
            rights.allow(*grants, denied._replace(permission=DENY))
            assert denials(await rights.send(fresh)), denied


def test_the_table_has_each_api() -> None:
    served = {row.api_key.name for row in HANDLERS}
    assert served - {case.api for case in rights_cases.cases()} == FREE
    free = {row.api_key.name for row in HANDLERS if isinstance(row.rights[0], Nothing)}
    assert free == {*FREE, "DESCRIBE_CLUSTER"}


def test_an_api_without_rights_keeps_the_broker_from_starting() -> None:
    """The table is built when the broker is imported (I18)."""
    with pytest.raises(TypeError, match="FETCH declares no rights"):
        Handler(ApiKey.FETCH, 4, 18)


async def test_refusals_are_in_the_order_of_the_request(rights: RightsRig) -> None:
    rights.allow(grant(TOPIC, DESCRIBE, "t"), grant(TOPIC, DESCRIBE, "n"))
    topics = [
        {"name": name, "partitions": [{"partition_index": 0, "timestamp": -2}]}
        for name in ("a", "t", "b", "n", "c")
    ]
    answer = await rights.ask("LIST_OFFSETS", 7, replica_id=-1, topics=topics)
    found = [(one.name, one.partitions[0].error_code) for one in answer.topics]
    assert found == [("a", 29), ("t", 0), ("b", 29), ("n", 3), ("c", 29)]


async def test_a_missing_and_an_existing_thing_look_the_same(rights: RightsRig) -> None:
    answer = await rights.ask(
        "DELETE_RECORDS",
        2,
        topics=[
            {"name": name, "partitions": [{"partition_index": 0, "offset": 0}]}
            for name in ("t", "m")
        ],
    )
    existing, missing = (one.partitions for one in answer.topics)
    assert existing == missing


def test_lines_name_the_right_and_the_error() -> None:
    each = next(
        one
        for row in HANDLERS
        for one in row.rights
        if row.api_key == ApiKey.LIST_OFFSETS and isinstance(one, Each)
    )
    assert each.lines() == [("TOPIC DESCRIBE", "TOPIC_AUTHORIZATION_FAILED for the topic")]
