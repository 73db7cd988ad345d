"""Every API that is served answers the same through both dialects, byte counts apart."""

import asyncio
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgpack
import pytest

from broker.handlers import HANDLERS, Handler
from broker.lifecycle.serving import dialects_of
from broker.runtime.request import ConnectionInfo, Request
from protocol.api_keys import ApiKey
from protocol.kafka.codec import decode_message, encode_message
from protocol.messages.alter_configs import AlterConfigsResource
from protocol.messages.alter_user_scram_credentials import ScramCredentialDeletion
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.create_topics import CreatableTopic
from protocol.messages.delete_topics import DeleteTopicState
from protocol.messages.describe_configs import DescribeConfigsResource
from protocol.messages.describe_user_scram_credentials import UserName
from protocol.messages.leave_group import MemberIdentity
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from protocol.messages.metadata import MetadataRequestTopic
from protocol.messages.offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequestGroup
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from protocol.messages.produce import PartitionProduceData, TopicProduceData
from protocol.msgpack.decoder import decoder
from protocol.msgpack.encoder import encoder
from protocol.msgpack.reader import Reader
from tests.support.broker_rig import LISTENER, Rig, batch
from tests.support.fake_connection import FakeConnection
from tests.support.rig_client import create
from tests.support.rig_fetch import fetch, of

TOPIC = 2  # the resource type


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    made = Rig(tmp_path / "data")
    yield made
    await made.close()


def group_fields(topic_id: bytes) -> dict[ApiKey, dict[str, Any]]:
    """The requests of an unknown member, and of a stored offset."""
    member = {"group_id": "g", "member_id": "m"}
    committed = OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    return {
        ApiKey.OFFSET_COMMIT: {
            "group_id": "g",
            "topics": [OffsetCommitRequestTopic(topic_id=topic_id, partitions=[committed])],
        },
        ApiKey.OFFSET_FETCH: {"groups": [OffsetFetchRequestGroup(group_id="g", topics=None)]},
        ApiKey.FIND_COORDINATOR: {"coordinator_keys": ["g"]},
        ApiKey.JOIN_GROUP: {**member, "session_timeout_ms": 10_000, "protocol_type": "consumer"},
        ApiKey.HEARTBEAT: {**member, "generation_id": 1},
        ApiKey.DESCRIBE_GROUPS: {"groups": ["g"], "include_authorized_operations": True},
        ApiKey.DELETE_GROUPS: {"groups_names": ["no"]},
        ApiKey.OFFSET_DELETE: {"group_id": "no"},
        ApiKey.LEAVE_GROUP: {"group_id": "g", "members": [MemberIdentity(member_id="m")]},
        ApiKey.CONSUMER_GROUP_HEARTBEAT: {"group_id": "g", "member_id": "m", "member_epoch": 3},
        ApiKey.CONSUMER_GROUP_DESCRIBE: {"group_ids": ["g"]},
        ApiKey.SYNC_GROUP: {
            **member,
            "generation_id": 1,
            "protocol_type": "consumer",
            "protocol_name": "range",
        },
    }


TRANSACTIONAL = {"transactional_id": "x", "producer_id": 1, "producer_epoch": 0}


def filled(row: Handler, topic_id: bytes) -> Any:
    """A request with a non-empty answer about the topic `t`, which may be sent twice."""
    produced = PartitionProduceData(
        index=0, records=batch(b"a", b"b", producer_id=7, producer_epoch=0, base_sequence=0)
    )
    known = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    fields: dict[ApiKey, dict[str, Any]] = {
        ApiKey.PRODUCE: {
            "acks": -1,
            "timeout_ms": 5000,
            "topic_data": [TopicProduceData(topic_id=topic_id, partition_data=[produced])],
        },
        ApiKey.LIST_OFFSETS: {
            "replica_id": -1,
            "topics": [
                ListOffsetsTopic(
                    name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)]
                )
            ],
        },
        ApiKey.METADATA: {"topics": [MetadataRequestTopic(name="t")]},
        **group_fields(topic_id),
        ApiKey.CREATE_TOPICS: {
            "topics": [
                CreatableTopic(name="t", num_partitions=1, replication_factor=1),
                CreatableTopic(name="u", num_partitions=1, replication_factor=3),
            ],
            "validate_only": True,
        },
        ApiKey.DELETE_TOPICS: {"topics": [DeleteTopicState(name="no")], "timeout_ms": 1000},
        ApiKey.INIT_PRODUCER_ID: {"transactional_id": "x", "transaction_timeout_ms": 1000},
        ApiKey.ADD_OFFSETS_TO_TXN: {**TRANSACTIONAL, "group_id": "g"},
        ApiKey.END_TXN: {**TRANSACTIONAL, "committed": True},
        ApiKey.TXN_OFFSET_COMMIT: {**TRANSACTIONAL, "group_id": "g"},
        ApiKey.OFFSET_FOR_LEADER_EPOCH: {
            "topics": [OffsetForLeaderTopic(topic="t", partitions=[known])]
        },
        ApiKey.DESCRIBE_ACLS: {
            "resource_type_filter": 1,
            "operation": 1,
            "permission_type": 1,
            "pattern_type_filter": 1,
        },
        ApiKey.DESCRIBE_CONFIGS: {
            "resources": [DescribeConfigsResource(resource_type=TOPIC, resource_name="t")],
            "include_synonyms": True,
        },
        ApiKey.ALTER_CONFIGS: {
            "resources": [AlterConfigsResource(resource_type=TOPIC, resource_name="no")]
        },
        ApiKey.UNREGISTER_BROKER: {"broker_id": 77},
        ApiKey.SASL_HANDSHAKE: {"mechanism": "PLAIN"},
        ApiKey.SASL_AUTHENTICATE: {"auth_bytes": b"token"},
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: {"users": [UserName(name="no")]},
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: {
            "deletions": [ScramCredentialDeletion(name="no", mechanism=1)]
        },
    }
    if row.api_key == ApiKey.FETCH:
        return fetch(of(0, 0), topic_id=topic_id, topic="")
    if row.api_key == ApiKey.API_VERSIONS:
        return ApiVersionsRequest(client_software_name="x", client_software_version="1")
    return row.request(**fields.get(row.api_key, {}))


class Speaker:
    """Asks a rig through a dialect: frames in, frames out."""

    def __init__(self, rig: Rig, protocol: str) -> None:
        self.rig = rig
        self.dialect = dialects_of(rig.clock)[protocol]

    def frame(self, row: Handler, body: Any) -> bytes:
        raise NotImplementedError

    def response(self, row: Handler, data: memoryview) -> Any:
        raise NotImplementedError

    async def ask(self, row: Handler, body: Any) -> Any:
        decoded = self.dialect.decode_request(memoryview(bytearray(self.frame(row, body))))
        connection = FakeConnection()
        connection.info = ConnectionInfo(LISTENER, self.dialect, ("127.0.0.1", 1), ("::1", 2))
        self.rig.dispatcher.dispatch(Request(connection, decoded.header, decoded.body, 10))
        async with asyncio.timeout(10):
            while not connection.sent:
                await asyncio.sleep(0.001)
        data = b"".join(connection.sent[0])
        assert struct.unpack_from(">i", data)[0] == len(data) - 4
        return self.response(row, memoryview(data)[4:])


class KafkaSpeaker(Speaker):
    def frame(self, row: Handler, body: Any) -> bytes:
        spec = row.request.MESSAGE  # type: ignore[attr-defined]
        head = struct.pack(">hhih", row.api_key, row.max_version, 5, -1)
        tags = b"\0" if spec.is_flexible(row.max_version) else b""
        return head + tags + encode_message(body, row.max_version)

    def response(self, row: Handler, data: memoryview) -> Any:
        spec = row.response.MESSAGE  # type: ignore[attr-defined]
        flexible = spec.is_flexible(row.max_version) and row.api_key != ApiKey.API_VERSIONS
        message, end = decode_message(row.response, row.max_version, data, 5 if flexible else 4)
        assert end == len(data)
        return message


class MsgpackSpeaker(Speaker):
    def frame(self, row: Handler, body: Any) -> bytes:
        made = encoder(row.request, row.max_version)(body)
        if row.api_key == ApiKey.FETCH:
            made["raw"] = True
        return msgpack.packb([int(row.api_key), 5, None, made])

    def response(self, row: Handler, data: memoryview) -> Any:
        reader = Reader(data, 100_000)
        assert (reader.array(), reader.integer()) == (2, 5)
        message, _ = decoder(row.response, row.max_version, Reader.view)(reader)
        assert reader.position == len(data)
        return message


async def test_every_api_answers_the_same_through_both_dialects(rig: Rig) -> None:
    topic_id = await create(rig)
    kafka, packed = KafkaSpeaker(rig, "PLAINTEXT"), MsgpackSpeaker(rig, "MSGPACK")
    # The second time the batch is a duplicate, and both dialects answer so.
    await packed.ask(HANDLERS[0], filled(HANDLERS[0], topic_id))
    for row in HANDLERS:
        in_kafka = await kafka.ask(row, filled(row, topic_id))
        in_msgpack = await packed.ask(row, filled(row, topic_id))
        if (
            row.api_key == ApiKey.DESCRIBE_LOG_DIRS
        ):  # other programs write to this disk in the meantime
            in_kafka.results[0].usable_bytes = in_msgpack.results[0].usable_bytes
        if row.api_key == ApiKey.GET_TELEMETRY_SUBSCRIPTIONS:
            assert len(in_msgpack.client_instance_id) == len(in_kafka.client_instance_id) == 16
            in_kafka.client_instance_id = in_msgpack.client_instance_id  # a new one for each
            in_kafka.push_interval_ms = in_msgpack.push_interval_ms  # so is the first interval
            in_kafka.subscription_id = in_msgpack.subscription_id
        assert in_msgpack == in_kafka, row.api_key.name
        if row.api_key == ApiKey.PRODUCE:
            said = in_msgpack.responses[0].partition_responses[0]
            assert (said.error_code, said.base_offset) == (0, 0)
        if row.api_key == ApiKey.FETCH:
            said = in_msgpack.responses[0].partitions[0]
            assert (said.error_code, said.high_watermark) == (0, 2)
            assert len(said.records) > 60


async def test_produced_as_maps_fetched_as_maps(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mapped pages may only be sent: what msgpack looks into is read, hot or cold."""
    from storage.segments.log_file import LogSlice

    topic_id = await create(rig)
    dialect = dialects_of(rig.clock)["MSGPACK"]

    def mapped(_: LogSlice) -> Any:
        raise AssertionError("a view of the mapped file was asked for")

    monkeypatch.setattr(LogSlice, "load_hot", mapped)
    monkeypatch.setattr(LogSlice, "load", mapped)

    async def ask(api: str, body: Any) -> Any:
        request = msgpack.packb([api, 1, None, body])
        decoded = dialect.decode_request(memoryview(bytearray(request)))
        connection = FakeConnection()
        connection.info = ConnectionInfo(LISTENER, dialect, ("127.0.0.1", 1), ("::1", 2))
        rig.dispatcher.dispatch(Request(connection, decoded.header, decoded.body, 10))
        async with asyncio.timeout(10):
            while not connection.sent:
                await asyncio.sleep(0.001)
        return msgpack.unpackb(b"".join(connection.sent[0])[4:])[1]

    partition = {"index": 0, "records": [{"key": b"k", "value": b"v"}]}
    topics = [{"topic_id": topic_id, "partition_data": [partition]}]
    await ask("produce", {"acks": -1, "timeout_ms": 5000, "topic_data": topics})
    asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    topics = [{"topic_id": topic_id, "partitions": [asked]}]
    body = {"max_wait_ms": 0, "min_bytes": 1, "topics": topics}
    for read_hot in (LogSlice.read_hot, lambda *_: None):
        monkeypatch.setattr(LogSlice, "read_hot", read_hot)
        (said,) = (await ask("fetch", body))["responses"][0]["partitions"]
        (record,) = said["records"]
        assert (record["offset"], record["key"], record["value"]) == (0, b"k", b"v")
