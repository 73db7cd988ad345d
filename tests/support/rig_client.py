"""Calls a rig as a client of one version does: fields that the version lacks are lost.

A rig has no sockets: this client passes the product's messages, where `raw_client` sends bytes.
"""

from typing import Any

from broker.handlers import HANDLERS
from broker.metadata.topic_rules import NewTopic
from protocol.kafka.codec import decode_message, encode_message
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.broker_rig import Rig

RESPONSES = {row.api_key: row.response for row in HANDLERS}


def across(message: Any, kind: type, version: int) -> Any:
    """Encode and decode `message`; return it as the other side sees it."""
    data = memoryview(encode_message(message, version))
    decoded, end = decode_message(kind, version, data)
    assert end == len(data)
    return decoded


async def ask(rig: Rig, body: Any, version: int, *, timeout_seconds: float = 60) -> Any:
    """Send a request to `rig`; return the answer as a client of `version` decodes it."""
    request = across(body, type(body), version)
    response = await rig.call(request, version, timeout_seconds=timeout_seconds)
    return across(response, RESPONSES[body.MESSAGE.api_key], version)


async def create(rig: Rig, name: str = "t", count: int = 1, **configs: str) -> bytes:
    """Create a topic; return its id."""
    topic = NewTopic(
        name=name,
        partition_count=count,
        configs={key.replace("_", "."): value for key, value in configs.items()},
    )
    outcome: Any = (await rig.services.topics.create([topic]))[name]
    topic_id: bytes = outcome.topic_id
    return topic_id


async def produce(
    rig: Rig, records: Any, *, topic: str = "t", partition: int = 0, acks: int = -1
) -> int:
    """Append one batch; return its first offset."""
    data = PartitionProduceData(index=partition, records=records)
    body = ProduceRequest(
        acks=acks,
        timeout_ms=5_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )
    response = await rig.call(body, 9)
    answer = response.responses[0].partition_responses[0]
    assert answer.error_code == 0, answer
    offset: int = answer.base_offset
    return offset


async def crash(rig: Rig) -> None:
    """Leave the directory as a crash would: the next rig on it recovers, and epochs increase."""
    if rig.services.has_transactions:
        rig.services.transactions.leave()  # or a timer would write into the next rig's log
    await rig.services.commit.drained()
    rig.services.logs.abandon()
    rig.services.pool.close()


def strays(rig: Rig) -> list[str]:
    """Return the unknown names in the data directory, and partitions that are not open."""
    logs = rig.services.logs
    return logs.directory.strays(logs.logs)
