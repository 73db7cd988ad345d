"""A MSGPACK listener with one topic, `t`, and one group whose assignment the test sets.

`target` is the assignment in the answer to a full heartbeat, and to the next one after a change
(None: no assignment). `codes` are error codes per API; each fails one request, in order. Each
partition has one batch with the records 0 and 1.
"""

from __future__ import annotations

from typing import Any

from protocol.records import Record, build

TOPIC_ID = b"i" * 16
END = 2


class GroupPeer:
    """The answers of a MsgpackPeer."""

    def __init__(self, target: list[int] | None = None, *, partition_count: int = 4) -> None:
        self.target = target
        self.epoch = 1
        self.codes: dict[str, list[int]] = {}
        self.committed: dict[int, int] = {}
        self.heard: list[tuple[str, Any]] = []
        self.interval_ms = 20
        self.start = 0
        self._partition_count = partition_count
        self._told: list[int] | None = None

    def __call__(self, api: str, body: Any) -> Any:
        """Answer as a broker would; close the connection if the code is None."""
        self.heard.append((api, body))
        codes = self.codes.get(api)
        code = codes.pop(0) if codes else 0
        return None if code is None else getattr(self, f"_{api}")(body, code)

    def asked(self, api: str) -> list[Any]:
        """Return the bodies of an API's requests, in order."""
        return [body for name, body in self.heard if name == api]

    def _consumer_group_heartbeat(self, body: Any, code: int) -> Any:
        assignment = None
        is_news = self.target != self._told or "subscribed_topic_names" in body
        if self.target is not None and body["member_epoch"] >= 0 and is_news and not code:
            self._told = self.target
            topics = [{"topic_id": TOPIC_ID, "partitions": self.target}] if self.target else []
            assignment = {"topic_partitions": topics}
        return {
            "error_code": code,
            "error_message": None,
            "member_epoch": self.epoch if body["member_epoch"] >= 0 else body["member_epoch"],
            "heartbeat_interval_ms": self.interval_ms,
            "assignment": assignment,
        }

    def _find_coordinator(self, _body: Any, _code: int) -> Any:
        return {"coordinators": []}

    def _metadata(self, _body: Any, code: int) -> Any:
        partitions = [{"partition_index": index} for index in range(self._partition_count)]
        topic = {
            "error_code": code, "name": "t", "topic_id": TOPIC_ID, "partitions": partitions,
        }  # fmt: skip
        return {"topics": [topic]}

    def _offset_fetch(self, body: Any, code: int) -> Any:
        partitions = [
            {
                "partition_index": number,
                "committed_offset": self.committed.get(number, -1),
                "error_code": 0,
            }
            for topic in body["groups"][0]["topics"]
            for number in topic["partition_indexes"]
        ]
        topics = [] if code else [{"topic_id": TOPIC_ID, "partitions": partitions}]
        return {"groups": [{"group_id": "g", "error_code": code, "topics": topics}]}

    def _offset_commit(self, body: Any, code: int) -> Any:
        topics = []
        for topic in body["topics"]:
            partitions = []
            for one in topic["partitions"]:
                if not code:
                    self.committed[one["partition_index"]] = one["committed_offset"]
                partitions.append({"partition_index": one["partition_index"], "error_code": code})
            topics.append({"topic_id": topic["topic_id"], "partitions": partitions})
        return {"topics": topics}

    def _list_offsets(self, body: Any, code: int) -> Any:
        topics = []
        for topic in body["topics"]:
            partitions = [
                {
                    "partition_index": one["partition_index"],
                    "error_code": code,
                    "offset": END if one["timestamp"] == -1 else self.start,
                }
                for one in topic["partitions"]
            ]
            topics.append({"name": topic["name"], "partitions": partitions})
        return {"topics": topics}

    def _fetch(self, body: Any, code: int) -> Any:
        records = bytes(build([Record(0, 5, None, b"a"), Record(0, 5, None, b"b")]))
        partitions = [
            {
                "partition_index": one["partition"],
                "error_code": code,
                "records": records if one["fetch_offset"] < END and not code else None,
            }
            for one in body["topics"][0]["partitions"]
        ]
        return {"responses": [{"topic_id": TOPIC_ID, "partitions": partitions}]}
