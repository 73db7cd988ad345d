"""A minimal msgpack client: one socket, no hidden requests, no retries.

It imports nothing of the product.

The dialect has a framing and an encoding of its own, so it shares only `Closed` with `raw_client`.
"""

import socket
import struct
from typing import Any, Self

import msgpack

from tests.support.raw_client import Closed


class MsgpackClient:
    """One connection."""

    def __init__(self, port: int, timeout_s: float = 60.0) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = self.socket.makefile("rb")
        self._number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()
        self.socket.close()

    def send(self, payload: bytes) -> None:
        """Send bytes as one frame."""
        self.socket.sendall(struct.pack(">I", len(payload)) + payload)

    def receive(self) -> Any:
        """Return the next answer with its correlation id. Raises Closed at the end."""
        try:
            head = self.stream.read(4)
        except ConnectionResetError as error:
            raise Closed(str(error)) from None
        if len(head) < 4:
            raise Closed("end of stream")
        (size,) = struct.unpack(">I", head)
        return msgpack.unpackb(self.stream.read(size))

    def ask(self, api: str | int, body: Any) -> Any:
        """Send a request; return the body of the answer."""
        self._number += 1
        self.send(msgpack.packb([api, self._number, "test", body]))
        number, answer = self.receive()
        assert number == self._number
        return answer

    def create(self, name: str, partitions: int = 1, **configs: str) -> bytes:
        """Create a topic; return its id."""
        rows = [{"name": key.replace("_", "."), "value": configs[key]} for key in configs]
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1}
        answer = self.ask("create_topics", {"topics": [{**topic, "configs": rows}]})
        (created,) = answer["topics"]
        assert created["error_code"] == 0, created
        topic_id: bytes = created["topic_id"]
        return topic_id

    def topic_id(self, name: str) -> bytes:
        """Return a topic's id."""
        (topic,) = self.ask("metadata", {"topics": [{"name": name}]})["topics"]
        topic_id: bytes = topic["topic_id"]
        return topic_id

    def produce(self, topic_id: bytes, records: Any, partition: int = 0) -> Any:
        """Produce with acks=-1; return the partition's part of the answer."""
        answer = self.ask("produce", produce_body(topic_id, records, partition))
        return answer["responses"][0]["partition_responses"][0]

    def fetch(self, topic_id: bytes, offset: int, partition: int = 0, **more: Any) -> Any:
        """Fetch from one partition without waiting; return its part of the answer."""
        asked = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        topics = [{"topic_id": topic_id, "partitions": [asked]}]
        body = {"max_wait_ms": 0, "min_bytes": 1, "topics": topics, **more}
        return self.ask("fetch", body)["responses"][0]["partitions"][0]

    def read(self, topic_id: bytes, end: int, partition: int = 0) -> list[Any]:
        """Return all records below `end`, fetched in as many requests as needed."""
        records: list[Any] = []
        offset = 0
        while offset < end:
            answer = self.fetch(topic_id, offset, partition)
            assert answer["error_code"] == 0, answer
            records += answer["records"]
            offset = answer["next_offset"]
        return records


def produce_body(topic_id: bytes, records: Any, partition: int = 0, acks: int = -1) -> Any:
    """Return the body of a produce request to one partition."""
    data = [{"index": partition, "records": records}]
    topics = [{"topic_id": topic_id, "partition_data": data}]
    return {"acks": acks, "timeout_ms": 10_000, "topic_data": topics}
