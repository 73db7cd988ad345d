"""DescribeTransactions: a transaction shows only topics that the client may describe."""

from tests.support.rights_cases import DESCRIBE, TOPIC, TXN, grant
from tests.support.rights_rig import RightsRig


async def test_hidden_topics_are_left_out(rights: RightsRig) -> None:
    ask = {"transactional_id": "x", "transaction_timeout_ms": 60_000}
    began = await rights.admin("INIT_PRODUCER_ID", 4, **ask)
    fields = {
        "v3_and_below_transactional_id": "x",
        "v3_and_below_producer_id": began.producer_id,
        "v3_and_below_producer_epoch": began.producer_epoch,
        "v3_and_below_topics": [{"name": "t", "partitions": [0]}],
    }
    added = await rights.admin("ADD_PARTITIONS_TO_TXN", 3, **fields)
    results = added.results_by_topic_v3_and_below[0].results_by_partition
    assert [one.partition_error_code for one in results] == [0]
    for grants, seen in (
        ((grant(TXN, DESCRIBE, "x"),), []),
        ((grant(TXN, DESCRIBE, "x"), grant(TOPIC, DESCRIBE, "t")), ["t"]),
    ):
        rights.allow(*grants)
        answer = await rights.ask("DESCRIBE_TRANSACTIONS", 0, transactional_ids=["y", "x"])
        refused, described = answer.transaction_states
        assert (refused.transactional_id, refused.error_code) == ("y", 53)
        assert (described.error_code, [one.topic for one in described.topics]) == (0, seen)
