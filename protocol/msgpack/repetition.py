"""Produce requests that repeat an earlier one except for their records.

A producer sends the same bytes to a partition again and again: after the correlation id, everything
up to the bin of its batch is equal from request to request. So the meaning of those bytes is kept.
When they come again, followed by one bin and nothing else, no field is read to make the request.

Reading goes from left to right, so what the bytes before a bin mean does not depend on what is in
it. Learnt are only requests that a reader has found good, of one topic and one partition, which end
with the bin. At most KEPT_COUNT_MAX are kept, of KEPT_BYTES_MAX each; then it begins anew.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.msgpack.primitives import BINARY_HEADS, read_binary_size

KEPT_COUNT_MAX: Final = 4096
KEPT_BYTES_MAX: Final = 512

_RECORDS: Final = b"\xa7records"

# Client id, transactional id, acks, timeout, topic id, partition.
_Said: TypeAlias = tuple[str | None, str | None, int, int, bytes, int]
_new = object.__new__  # as in compiled readers: half the time of a dataclass's __init__


class Repetition:
    """The repeated parts of a listener's produce requests, by their bytes."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, _Said] = {}

    def read(
        self, data: bytes, frame: memoryview, position: int
    ) -> tuple[str | None, ProduceRequest] | None:
        """Return client id and body if what stands from `position` on is known, else None.

        `position` is behind the correlation id; `data` is the frame, or its beginning, as bytes.
        Raises one of `GIVES_UP` for a bin that is cut.
        """
        end = data.find(_RECORDS, position) + len(_RECORDS)
        said = self._known.get(data[position:end])
        if said is None or data[end] not in BINARY_HEADS:
            return None
        start, stop = read_binary_size(frame, end)
        if stop != len(frame):
            return None
        partition = _new(PartitionProduceData)
        topic = _new(TopicProduceData)
        request = _new(ProduceRequest)
        (
            client_id,
            request.transactional_id,
            request.acks,
            request.timeout_ms,
            topic.topic_id,
            partition.index,
        ) = said
        partition.records = frame[start:stop]
        topic.name = ""
        topic.partition_data = [partition]
        request.topic_data = [topic]
        return client_id, request

    def learn(
        self,
        data: bytes,
        frame: memoryview,
        position: int,
        client_id: str | None,
        request: ProduceRequest,
    ) -> None:
        """Remember a decoded request and its bytes, so that `read` recognises them."""
        if len(request.topic_data) != 1 or len(request.topic_data[0].partition_data) != 1:
            return
        (topic,) = request.topic_data
        (partition,) = topic.partition_data
        end = data.find(_RECORDS, position) + len(_RECORDS)
        records = partition.records
        if not isinstance(records, memoryview) or records.obj is not frame.obj:
            return  # nil, or a batch made of maps
        if end - position > KEPT_BYTES_MAX or data[end] not in BINARY_HEADS:
            return
        # The name may stand in a client id as well; then these are not the records.
        start, stop = read_binary_size(frame, end)
        if stop != len(frame) or stop - start != len(records):
            return
        if len(self._known) >= KEPT_COUNT_MAX:
            self._known.clear()
        self._known[data[position:end]] = (
            client_id,
            request.transactional_id,
            request.acks,
            request.timeout_ms,
            topic.topic_id,
            partition.index,
        )
