"""AddPartitionsToTxn: one refused topic refuses all; versions for brokers ask for the cluster."""

from tests.support.rights_cases import CLUSTER, CLUSTER_ACTION, TOPIC, TXN, WRITE, grant
from tests.support.rights_rig import RightsRig

TXN_FIELDS = {"transactional_id": "x", "producer_id": 5, "producer_epoch": 0}


def names(*wanted: tuple[str, int]) -> list[dict[str, object]]:
    return [{"name": name, "partitions": [number]} for name, number in wanted]


async def test_one_refused_topic_refuses_all(rights: RightsRig) -> None:
    rights.allow(grant(TXN, WRITE), grant(TOPIC, WRITE, "t"))
    wanted = names(("t", 0), ("m", 0), ("t", 9), ("__consumer_offsets", 0))
    ask = {f"v3_and_below_{name}": value for name, value in TXN_FIELDS.items()}
    answer = await rights.ask("ADD_PARTITIONS_TO_TXN", 3, **ask, v3_and_below_topics=wanted)
    found = [
        (one.name, one.results_by_partition[0].partition_error_code)
        for one in answer.results_by_topic_v3_and_below
    ]
    assert found == [("t", 55), ("m", 29), ("t", 3), ("__consumer_offsets", 29)]


async def test_versions_for_brokers_ask_for_the_cluster(rights: RightsRig) -> None:
    rights.allow(grant(TXN, WRITE), grant(TOPIC, WRITE))
    transactions = [{**TXN_FIELDS, "topics": names(("t", 0))}]
    answer = await rights.ask("ADD_PARTITIONS_TO_TXN", 4, transactions=transactions)
    assert answer.error_code == 31
    rights.allow(grant(CLUSTER, CLUSTER_ACTION))
    answer = await rights.ask("ADD_PARTITIONS_TO_TXN", 4, transactions=transactions)
    assert answer.error_code == 0
