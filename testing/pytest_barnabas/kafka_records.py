"""Topics and records for tests: created, written and read without a client of Kafka's.

What comes here uses the client id `pytest-barnabas`, which no fault rule meets unless it names it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from pytest_barnabas.errors import BarnabasError, BrokerError
from pytest_barnabas.msgpack_caller import MsgpackCaller

POLL_SECONDS: Final = 0.02
FETCH_BYTES: Final = 8 * 1024 * 1024
ALL_REPLICAS: Final = -1


class Record(NamedTuple):
    """One record as it is stored."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class KafkaRecords:
    """Topics and records of one broker, through `caller`."""

    def __init__(self, caller: Callable[[], MsgpackCaller]) -> None:
        self._caller = caller

    def create(self, name: str, partitions: int, configs: Mapping[str, object]) -> None:
        """Create a topic. Raises BrokerError: 36 if it exists."""
        wanted = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": 1,
            "assignments": [],
            "configs": [{"name": key, "value": _text(value)} for key, value in configs.items()],
        }
        body = {"topics": [wanted], "timeout_ms": 30_000, "validate_only": False}
        (topic,) = self._caller().call("create_topics", body)["topics"]
        if topic["error_code"]:
            raise BrokerError(
                f"topic {name}: {topic['error_message'] or 'not created'}", topic["error_code"]
            )

    def append(self, topic: str, partition: int, records: list[dict[str, Any]]) -> int:
        """Write records durably; return the offset of the first. Raises BrokerError."""
        data = {"index": partition, "records": records}
        body = {
            "acks": ALL_REPLICAS,
            "timeout_ms": 30_000,
            "topic_data": [{"topic_id": self._id_of(topic), "partition_data": [data]}],
        }
        answered = self._caller().call("produce", body)["responses"][0]["partition_responses"][0]
        if answered["error_code"]:
            raise BrokerError(f"{topic}-{partition}", answered["error_code"])
        return int(answered["base_offset"])

    def read(self, topic: str, partition: int | None, *, committed: bool) -> list[Record]:
        """Return the visible records of one partition, or of all in their order."""
        wanted = range(self._count_of(topic)) if partition is None else (partition,)
        return [record for each in wanted for record in self._of(topic, each, committed=committed)]

    def wait_for(
        self, topic: str, partition: int | None, at_least: int, seconds: float, *, committed: bool
    ) -> list[Record]:
        """Read until there are enough, for `seconds`. Raises BarnabasError."""
        ends = time.monotonic() + seconds
        while True:
            found = self.read(topic, partition, committed=committed)
            if len(found) >= at_least:
                return found
            if time.monotonic() > ends:
                raise BarnabasError(
                    f"{topic} has {len(found)} records after {seconds} s, expected {at_least}"
                )
            time.sleep(POLL_SECONDS)

    def _of(self, topic: str, partition: int, *, committed: bool) -> Iterator[Record]:
        topic_id = self._id_of(topic)
        position = self._start_of(topic, partition)
        while True:
            asked = {
                "partition": partition,
                "current_leader_epoch": -1,
                "fetch_offset": position,
                "log_start_offset": -1,
                "partition_max_bytes": FETCH_BYTES,
            }
            body = {
                "max_wait_ms": 0,
                "min_bytes": 0,
                "max_bytes": FETCH_BYTES,
                "isolation_level": int(committed),
                "topics": [{"topic_id": topic_id, "partitions": [asked]}],
            }
            answered = self._caller().call("fetch", body)["responses"][0]["partitions"][0]
            if answered["error_code"]:
                raise BrokerError(f"{topic}-{partition}", answered["error_code"])
            for one in answered["records"] or ():
                headers = tuple((name, value) for name, value in one["headers"])
                yield Record(
                    partition, one["offset"], one["timestamp"], one["key"], one["value"], headers
                )
            if answered["next_offset"] <= position:
                return
            position = answered["next_offset"]

    def _start_of(self, topic: str, partition: int) -> int:
        asked = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": -2}
        body = {
            "replica_id": -1,
            "isolation_level": 0,
            "topics": [{"name": topic, "partitions": [asked]}],
            "timeout_ms": 30_000,
        }
        found = self._caller().call("list_offsets", body)["topics"][0]["partitions"][0]
        if found["error_code"]:
            raise BrokerError(f"{topic}-{partition}", found["error_code"])
        return int(found["offset"])

    def _id_of(self, topic: str) -> bytes:
        return bytes(self._described(topic)["topic_id"])

    def _count_of(self, topic: str) -> int:
        return len(self._described(topic)["partitions"])

    def _described(self, topic: str) -> dict[str, Any]:
        body = {
            "topics": [{"name": topic, "topic_id": bytes(16)}],
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": False,
        }
        found: dict[str, Any] = self._caller().call("metadata", body)["topics"][0]
        if found["error_code"]:
            raise BrokerError(f"topic {topic}", found["error_code"])
        return found


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def record_of(
    value: bytes | str | Mapping[str, Any] | None, key: bytes | str | None
) -> dict[str, Any]:
    """Return a record as the dialect has it; a mapping may have key, value, headers, timestamp."""
    if isinstance(value, Mapping):
        record = {name: value[name] for name in value}
        if isinstance(record.get("headers"), Mapping):
            record["headers"] = list(record["headers"].items())
    else:
        record = {"value": value}
    if key is not None:
        record.setdefault("key", key)
    for name in ("key", "value"):
        if isinstance(record.get(name), str):
            record[name] = record[name].encode()
    return record
