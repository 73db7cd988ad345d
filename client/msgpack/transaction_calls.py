"""The requests of a transactional producer in the msgpack dialect, each one attempt.

A function returns if the broker did what was asked. It raises `Again` for an error that passes,
RequestFailed for others, and TransportError without an answer; then the request may or may not have
taken effect, and sending it again is safe: the broker knows batches by their sequence and ends by
their epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from client.codes import code_of, code_text
from client.msgpack.transport import RequestRefused, Topics, Transport, TransportError
from client.places import Place
from client.transactions.epoch import Epoch, GroupMetadata, PartitionBatch
from client.transactions.errors import Again, RequestFailed
from client.transactions.transaction_settings import TransactionSettings
from protocol.errors import ErrorCode
from protocol.messages.describe_transactions import LastEnd
from protocol.messages.find_coordinator import GROUP, TRANSACTION

_APPENDED: Final = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
# Retriable for clients that wait for a topic to be created; here it was there, and is deleted.
_GONE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
_ELSEWHERE: Final = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class TransactionCalls:
    """What a producer asks of a broker on one connection."""

    def __init__(self, transport: Transport, settings: TransactionSettings) -> None:
        self._transport = transport
        self._settings = settings
        self._topics = Topics(transport)

    def forget_topics(self) -> None:
        """Ask again for each topic's id and number of partitions."""
        self._topics.forget()

    async def partition_count(self, topic: str) -> int:
        """Return the number of partitions of a topic, which the broker may create now."""
        _, count = await self._topic(topic)
        return count

    async def initialize(self, epoch: Epoch) -> Epoch:
        """Return the epoch to use from now on; an open transaction is aborted (KIP-360)."""
        timeout_ms = self._settings.timeout_ms
        body = {**epoch._asdict(), "transaction_timeout_ms": timeout_ms}
        answer = await self._call("init_producer_id", body)
        await self._check(
            answer["error_code"], f"InitProducerId of {epoch.transactional_id!r}", _of(epoch)
        )
        return Epoch(epoch.transactional_id, answer["producer_id"], answer["producer_epoch"])

    async def produce(self, epoch: Epoch, batches: dict[Place, PartitionBatch]) -> None:
        """Send batches, and take those that were appended out of `batches`."""
        places: dict[tuple[bytes, int], Place] = {}
        by_topic: dict[bytes, list[dict[str, Any]]] = {}
        for place, batch in batches.items():
            topic_id, _ = await self._topic(place.topic)
            places[topic_id, place.partition] = place
            data = {"index": place.partition, "records": batch.packed}
            by_topic.setdefault(topic_id, []).append(data)
        body = {
            "transactional_id": epoch.transactional_id,
            "acks": -1,
            "timeout_ms": int(self._settings.answer_s * 1000),
            "topic_data": [
                {"topic_id": one, "partition_data": data} for one, data in by_topic.items()
            ],
        }
        answer = await self._call("produce", body)
        refused = []
        for topic in answer["responses"]:
            for one in topic["partition_responses"]:
                place = places[topic["topic_id"], one["index"]]
                if code_of(one["error_code"]) in _APPENDED:
                    batches.pop(place, None)
                else:
                    refused.append((place, one["error_code"], one["error_message"]))
        for place, number, message in sorted(refused, key=lambda one: code_of(one[1]).retriable):
            await self._check(number, f"records for {place}", _of(epoch), message)
        if batches:
            raise Again(f"no answer about {', '.join(map(str, batches))}")

    async def commit_offsets(
        self, epoch: Epoch, group: GroupMetadata, offsets: Mapping[Place, int]
    ) -> None:
        """Set offsets of a group, which take effect when the transaction is committed."""
        by_topic: dict[str, list[dict[str, int]]] = {}
        for place, offset in offsets.items():
            one = {"partition_index": place.partition, "committed_offset": offset}
            by_topic.setdefault(place.topic, []).append(one)
        body = {
            **epoch._asdict(),
            "group_id": group.group_id,
            "generation_id": group.generation_id,
            "member_id": group.member_id,
            "group_instance_id": group.instance_id,
            "topics": [{"name": name, "partitions": found} for name, found in by_topic.items()],
        }
        answer = await self._call("txn_offset_commit", body)
        for topic in answer["topics"]:
            for one in topic["partitions"]:
                what = f"the offset of {Place(topic['name'], one['partition_index'])} for group "
                await self._check(
                    one["error_code"], f"{what}{group.group_id!r}", (GROUP, group.group_id)
                )

    async def end(self, epoch: Epoch, *, committed: bool) -> Epoch:
        """End the transaction; return the epoch for the next one."""
        answer = await self._call("end_txn", {**epoch._asdict(), "committed": committed})
        verb = "commit" if committed else "abort"
        await self._check(answer["error_code"], f"{verb} of {epoch.transactional_id!r}", _of(epoch))
        return Epoch(epoch.transactional_id, answer["producer_id"], answer["producer_epoch"])

    async def last_end(self, transactional_id: str) -> LastEnd | None:
        """Return how the id's last transaction ended, None if the broker does not tell."""
        try:
            body = {"transactional_ids": [transactional_id]}
            answer = await self._call("describe_transactions", body)
        except (TransportError, RequestFailed):
            return None
        (state,) = answer["transaction_states"]
        found = state.get("last_end")
        return None if found is None else LastEnd(**found)

    # -- answers ---------------------------------------------------------------------------------

    async def _topic(self, topic: str) -> tuple[bytes, int]:
        return await self._topics.find(topic, create=True)

    async def _call(self, api: str, body: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return await self._transport.call(api, body)
        except RequestRefused as refused:
            raise RequestFailed(str(refused), ErrorCode.INVALID_REQUEST) from refused

    async def _check(
        self, number: int, what: str, coordinator: tuple[int, str], message: str | None = None
    ) -> None:
        """Raise Again or RequestFailed for an error code; have a missing coordinator created."""
        if not number:
            return
        code = code_of(number)
        text = f"{what}: {code_text(number, message)}"
        if code in _ELSEWHERE:
            kind, key = coordinator
            await self._call("find_coordinator", {"key_type": kind, "coordinator_keys": [key]})
            raise Again(text)
        if code.retriable and code not in _GONE:
            raise Again(text)
        raise RequestFailed(text, number)


def _of(epoch: Epoch) -> tuple[int, str]:
    return TRANSACTION, epoch.transactional_id
