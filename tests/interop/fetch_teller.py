"""One broker as a client with a fetch session sees it, told so that two brokers can be compared.

Told of each fetch: its error, what became of the session, and of each partition its code, high
watermark, log start and whether it has records. The order is told of those that have records: Kafka
puts partitions that it does not read at the end of an answer.
"""

from __future__ import annotations

import time
from typing import Any, Final

from client.kafka.connection import Connection
from protocol.errors import ErrorCode
from protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from protocol.records import Record, build
from protocol.wire import ZERO_UUID

BY_NAME: Final = 12
SETTLED: Final = 1.5  # seconds after which Kafka's metadata knows what was made or deleted
VALUE = bytes(1_000)


class Teller:
    """One broker, the topics of one story, and one session; steps return what can be compared."""

    def __init__(self, connection: Connection, story: str, version: int) -> None:
        self.connection = connection
        self._story = story
        self.version = version
        self.session_id = 0
        self.epoch = 0
        self.told: list[Any] = []
        self._ids: dict[str, bytes] = {}

    # -- what happens to topics -----------------------------------------------------------------

    def make(self, topic: str, partitions: int = 3) -> None:
        """Create a topic."""
        made = CreatableTopic(
            name=self._name(topic), num_partitions=partitions, replication_factor=1
        )
        asked = CreateTopicsRequest(topics=[made], timeout_ms=10_000)
        answer = self.connection.call(asked, CreateTopicsResponse)
        assert not answer.topics[0].error_code, answer
        self._ids[topic] = answer.topics[0].topic_id
        self._until_led(topic, partitions)

    def _until_led(self, topic: str, partitions: int) -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            asked = MetadataRequest(topics=[MetadataRequestTopic(name=self._name(topic))])
            answer = self.connection.call(asked, MetadataResponse, version_max=9)
            found = answer.topics[0].partitions
            if len(found) == partitions and not any(one.error_code for one in found):
                time.sleep(0.3)  # Kafka's logs come after its metadata
                return
            time.sleep(0.05)
        raise AssertionError(f"{topic} has no leader")

    def drop(self, topic: str) -> None:
        """Delete a topic, and wait until everybody knows."""
        asked = DeleteTopicsRequest(topic_names=[self._name(topic)], timeout_ms=10_000)
        answer = self.connection.call(asked, DeleteTopicsResponse, version_max=5)
        assert not answer.responses[0].error_code, answer
        time.sleep(SETTLED)

    def put(self, topic: str, partition: int, *, connection: Connection | None = None) -> None:
        """Append one record of 1,000 bytes."""
        records = build([Record(0, 1_700_000_000_000, None, VALUE)])
        data = PartitionProduceData(index=partition, records=bytes(records))
        asked = ProduceRequest(
            acks=-1,
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name=self._name(topic), partition_data=[data])],
        )
        answer = (connection or self.connection).call(asked, ProduceResponse, version_max=12)
        assert not answer.responses[0].partition_responses[0].error_code, answer

    def cut(self, topic: str, partition: int, offset: int) -> None:
        """Delete the records below an offset."""
        asked = DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name=self._name(topic),
                    partitions=[DeleteRecordsPartition(partition_index=partition, offset=offset)],
                )
            ],
            timeout_ms=10_000,
        )
        answer = self.connection.call(asked, DeleteRecordsResponse)
        assert not answer.topics[0].partitions[0].error_code, answer

    # -- fetches --------------------------------------------------------------------------------

    def full(self, *wanted: tuple[str, int, int], **fields: Any) -> None:
        """Ask for a new session; (topic, partition, offset) each."""
        self._fetch(self.session_id, 0, wanted, (), fields)

    def final(self, *wanted: tuple[str, int, int]) -> None:
        """End the session."""
        self._fetch(self.session_id, -1, wanted, (), {})

    def more(
        self, *wanted: tuple[str, int, int], forget: tuple[tuple[str, int], ...] = (), **fields: Any
    ) -> None:
        """Ask within the session, in its next epoch."""
        self._fetch(self.session_id, self.epoch, wanted, forget, fields)

    def stray(self, session_id: int, epoch: int, *wanted: tuple[str, int, int]) -> None:
        """Ask with another id (relative to the session's) and epoch."""
        self._fetch(session_id, epoch, wanted, (), {}, is_own=False)

    def _fetch(
        self,
        session_id: int,
        epoch: int,
        wanted: tuple[tuple[str, int, int], ...],
        forget: tuple[tuple[str, int], ...],
        fields: dict[str, Any],
        *,
        is_own: bool = True,
    ) -> None:
        version = fields.pop("version", self.version)
        bytes_max = fields.pop("partition_max_bytes", 100_000)
        asked = FetchRequest(
            session_id=session_id,
            session_epoch=epoch,
            topics=[
                FetchTopic(
                    topic=self._name(topic),
                    topic_id=self._id(topic),
                    partitions=[
                        FetchPartition(
                            partition=number, fetch_offset=offset, partition_max_bytes=bytes_max
                        )
                    ],
                )
                for topic, number, offset in wanted
            ],
            forgotten_topics_data=[
                ForgottenTopic(
                    topic=self._name(topic), topic_id=self._id(topic), partitions=[number]
                )
                for topic, number in forget
            ],
            **{"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1_000_000, **fields},
        )
        answer = self.connection.call(
            asked, FetchResponse, version_min=version, version_max=version
        )
        self.told.append(self._as_told(answer, epoch))
        if is_own:
            self.session_id = answer.session_id
            if not answer.error_code:
                self.epoch = 1 if epoch == 0 else epoch + 1

    def _as_told(self, answer: FetchResponse, epoch: int) -> Any:
        what = "none"
        if answer.session_id:
            what = "the same" if answer.session_id == self.session_id else "new"
        names = {self._id(topic): topic for topic in self._ids}
        found = [
            (
                names.get(topic.topic_id, topic.topic.removeprefix(self._story)),
                one.partition_index,
                ErrorCode(one.error_code).name,
                one.high_watermark,
                one.log_start_offset,
                bool(one.records),
            )
            for topic in answer.responses
            for one in topic.partitions
        ]
        with_records = [one[:2] for one in found if one[-1]]
        return epoch, ErrorCode(answer.error_code).name, what, sorted(found), with_records

    def _name(self, topic: str) -> str:
        return self._story + topic

    def _id(self, topic: str) -> bytes:
        return self._ids.get(topic, b"\x07" * 16 if topic.startswith("no") else ZERO_UUID)
