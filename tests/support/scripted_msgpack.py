"""A ScriptedTransactions behind a MSGPACK listener: the answers of a MsgpackPeer."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from protocol.messages import (
    describe_transactions,
    end_txn,
    find_coordinator,
    init_producer_id,
    metadata,
    produce,
    txn_offset_commit,
)
from tests.support.scripted_transactions import ScriptedTransactions

CLASSES = {
    "metadata": metadata.MetadataRequest,
    "find_coordinator": find_coordinator.FindCoordinatorRequest,
    "init_producer_id": init_producer_id.InitProducerIdRequest,
    "produce": produce.ProduceRequest,
    "txn_offset_commit": txn_offset_commit.TxnOffsetCommitRequest,
    "end_txn": end_txn.EndTxnRequest,
    "describe_transactions": describe_transactions.DescribeTransactionsRequest,
}


def answers(scripted: ScriptedTransactions) -> Any:
    """Return the function that answers a request's map with the scripted answer's map."""

    def answer(api: str, body: dict[str, Any]) -> dict[str, Any] | None:
        cls = CLASSES[api]
        found = scripted.answers[cls](_request(api, body))
        return None if found is None else _with_ids(asdict(found))

    return answer


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"\0")


def _with_ids(answer: dict[str, Any]) -> dict[str, Any]:
    for topic in [*answer.get("topics", []), *answer.get("responses", [])]:
        topic["topic_id"] = topic_id(topic.get("name") or "")
    return answer


def _request(api: str, body: dict[str, Any]) -> Any:
    if api == "metadata":
        topics = [metadata.MetadataRequestTopic(name=one["name"]) for one in body["topics"]]
        return metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=True)
    if api == "produce":
        data = [
            produce.TopicProduceData(
                name=topic["topic_id"].rstrip(b"\0").decode(),
                partition_data=[
                    produce.PartitionProduceData(**one) for one in topic["partition_data"]
                ],
            )
            for topic in body["topic_data"]
        ]
        return produce.ProduceRequest(**{**body, "topic_data": data})
    if api == "txn_offset_commit":
        topics = [
            txn_offset_commit.TxnOffsetCommitRequestTopic(
                name=topic["name"],
                partitions=[
                    txn_offset_commit.TxnOffsetCommitRequestPartition(**one)
                    for one in topic["partitions"]
                ],
            )
            for topic in body["topics"]
        ]
        return txn_offset_commit.TxnOffsetCommitRequest(**{**body, "topics": topics})
    return CLASSES[api](**body)
