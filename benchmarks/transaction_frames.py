"""Raw bytes of transactions for the load client, beside `benchmarks.frames`; independent as those.

A transaction of TV2 is Produce 12, which adds its partitions, and EndTxn 5, whose answer has the
epoch of the next one. One of TV1 is AddPartitionsToTxn 3, Produce 11 and EndTxn 3. Frames are built
once. Between transactions only epoch, sequence and checksum of the batches and the epoch in the
other requests are patched. Source of the layouts: the message definitions of Kafka 4.3.
"""

from __future__ import annotations

import struct

import crc32c

from benchmarks import frames
from benchmarks.frames import ACKS_ALL, BATCH_HEAD, BATCH_HEADER_SIZE, LoadError

FIND_COORDINATOR, INIT_PRODUCER_ID, ADD_PARTITIONS, END_TXN = 10, 22, 24, 26
TV1, TV2 = 1, 2
PRODUCE_VERSION = {TV1: 11, TV2: 12}
END_VERSION = {TV1: 3, TV2: 5}
CONCURRENT_TRANSACTIONS = 51
TRANSACTIONAL, CONTROL = 0x10, 0x20
TIMEOUT_MS = 60_000
CRC_AT, ATTRIBUTES_AT, PRODUCER_AT = 17, 21, 43  # in a batch
PRODUCED_BYTES = 33  # a partition in the answer of Produce
BATCH_LENGTH = struct.Struct(">i")
# base sequence -1, one record: the key is (version 0, type), the value (version 0, coordinator 0)
MARKER_RECORD = "20 00 00 00 08 0000 {kind:04x} 0c 0000 00000000 00"


def find_coordinator(transactional_id: str) -> bytes:
    """A FindCoordinator request of key type 1, version 2."""
    key = transactional_id.encode()
    body = struct.pack(">h", len(key)) + key + b"\x01"
    return frames.framed(FIND_COORDINATOR, 2, body, flexible=False)


def found_error(answer: bytes) -> int:
    """The error code of a FindCoordinator answer."""
    return int(struct.unpack_from(">h", answer, 4 + 4 + 4)[0])


def init_producer_id(transactional_id: str) -> bytes:
    """An InitProducerId request of a new instance, version 4."""
    body = frames.compact(transactional_id.encode())
    body += struct.pack(">iqh", TIMEOUT_MS, -1, -1) + b"\x00"
    return frames.framed(INIT_PRODUCER_ID, 4, body, flexible=True)


def inited(answer: bytes) -> tuple[int, int, int]:
    """(error code, producer id, epoch) of an InitProducerId answer."""
    error, producer_id, epoch = struct.unpack_from(">hqh", answer, 4 + 4 + 1 + 4)
    return error, producer_id, epoch


def ended(answer: bytes) -> tuple[int, int, int]:
    """(error code, producer id, epoch) of an EndTxn answer; version 3 has no ids."""
    at = 4 + 4 + 1 + 4
    if len(answer) < at + 2 + 10:
        return int(struct.unpack_from(">h", answer, at)[0]), -1, -1
    error, producer_id, epoch = struct.unpack_from(">hqh", answer, at)
    return error, producer_id, epoch


def control_batch(producer_id: int, epoch: int, timestamp_ms: int, *, is_commit: bool) -> bytes:
    """A marker as a coordinator of epoch 0 writes it, at offset 0."""
    record = bytes.fromhex(MARKER_RECORD.format(kind=is_commit))
    body = frames.BATCH_BODY.pack(
        TRANSACTIONAL | CONTROL, 0, timestamp_ms, timestamp_ms, producer_id, epoch, -1, 1
    )
    body += record
    return BATCH_HEAD.pack(0, len(body) + 9, 0, 2, crc32c.crc32c(body)) + body


def stamp(batch: bytearray, at: int, producer_id: int, epoch: int, sequence: int) -> None:
    """Make the batch at `at` one of a transaction, with a fresh checksum."""
    struct.pack_into(">h", batch, at + ATTRIBUTES_AT, TRANSACTIONAL)
    struct.pack_into(">qhi", batch, at + PRODUCER_AT, producer_id, epoch, sequence)
    end = at + 12 + BATCH_LENGTH.unpack_from(batch, at + 8)[0]
    checksum = crc32c.crc32c(memoryview(batch)[at + ATTRIBUTES_AT : end])
    struct.pack_into(">I", batch, at + CRC_AT, checksum)


class TransactionFrames:
    """The requests of one producer, and the state that they need: its id, epoch and sequence.

    Each transaction has `requests_each` Produce requests, and each of these a batch of
    `record_count` records for each partition. One of `aborted_each` is aborted; 0: none.
    """

    def __init__(
        self,
        transactional_id: str,
        topic: str,
        partitions: list[int],
        batch: bytes,
        *,
        version: int = TV2,
        requests_each: int = 1,
        aborted_each: int = 0,
    ) -> None:
        self.name = frames.compact(transactional_id.encode())
        self.transactional_id = transactional_id
        self.partitions = partitions
        self.version = version
        self.requests_each = requests_each
        self.producer_id, self.epoch, self.sequence = -1, -1, 0
        self.record_count = struct.unpack_from(">i", batch, BATCH_HEADER_SIZE - 4)[0]
        body = self.name + struct.pack(">hi", ACKS_ALL, 30_000) + b"\x02" + _topic(topic)
        body += frames.unsigned(len(partitions) + 1)
        places = []
        for partition in partitions:
            body += struct.pack(">i", partition) + frames.unsigned(len(batch) + 1)
            places.append(len(body))
            body += batch + b"\x00"
        produce = frames.framed(
            frames.PRODUCE, PRODUCE_VERSION[version], body + b"\x00\x00", flexible=True
        )
        head = len(produce) - len(body) - 2
        self._places = [head + place for place in places]
        self._produces = [bytearray(produce) for _ in range(requests_each)]
        self._errors_at = [
            4 + 4 + 1 + 1 + len(_topic(topic)) + 1 + PRODUCED_BYTES * number + 4
            for number in range(len(partitions))
        ]
        self._aborted_each, self._begun_count = aborted_each, 0
        self._end = self._framed_end()
        self._add = bytearray(self._framed_add(topic, partitions))

    def _framed_end(self) -> bytearray:
        body = self.name + struct.pack(">qhbb", -1, -1, 1, 0)
        return bytearray(frames.framed(END_TXN, END_VERSION[self.version], body, flexible=True))

    def _framed_add(self, topic: str, partitions: list[int]) -> bytes:
        body = self.name + struct.pack(">qh", -1, -1) + b"\x02" + _topic(topic)
        body += frames.unsigned(len(partitions) + 1)
        body += b"".join(struct.pack(">i", partition) for partition in partitions)
        return frames.framed(ADD_PARTITIONS, 3, body + b"\x00\x00", flexible=True)

    def use(self, producer_id: int, epoch: int) -> None:
        """Go on with this producer id and epoch: what EndTxn 5 or InitProducerId answered."""
        if self.version == TV2 or producer_id != self.producer_id:
            self.sequence = 0
        self.producer_id, self.epoch = producer_id, epoch

    def begin(self) -> list[bytearray]:
        """Return the Produce requests of the next transaction."""
        self._begun_count += 1
        for produce in self._produces:
            for place in self._places:
                stamp(produce, place, self.producer_id, self.epoch, self.sequence)
            self.sequence += self.record_count
        return self._produces

    def add(self) -> bytearray:
        """Return the AddPartitionsToTxn request that goes first with TV1."""
        return self._with_ids(self._add)

    def end(self) -> bytearray:
        """Return the EndTxn request."""
        is_abort = self._aborted_each and self._begun_count % self._aborted_each == 0
        self._end[-2] = not is_abort
        return self._with_ids(self._end)

    def _with_ids(self, frame: bytearray) -> bytearray:
        at = 4 + 2 + 2 + 4 + 2 + len(frames.CLIENT_ID) + 1 + len(self.name)
        struct.pack_into(">qh", frame, at, self.producer_id, self.epoch)
        return frame

    def produced_errors(self, answer: bytes) -> list[int]:
        """Return the error codes of a Produce answer."""
        return [int(struct.unpack_from(">h", answer, at)[0]) for at in self._errors_at]

    def added_error(self, answer: bytes) -> int:
        """Return the first error code of an AddPartitionsToTxn answer that is not 0."""
        at = 4 + 4 + 1 + 4 + 1
        size, at = frames.read_unsigned(answer, at)
        at += size - 1
        count, at = frames.read_unsigned(answer, at)
        for number in range(count - 1):
            code = struct.unpack_from(">h", answer, at + 7 * number + 4)[0]
            if code:
                return int(code)
        return 0


def _topic(name: str) -> bytes:
    return frames.compact(name.encode())


def fetch(
    topic: str, partition: int, offset: int, *, isolation: int, wait_ms: int
) -> tuple[bytearray, int]:
    """A Fetch request of this isolation level, of at most 1 MiB; and where its offset stands."""
    frame, offset_at = frames.fetch(topic, partition, offset, 1 << 20, wait_ms)
    # in the body: replica id, wait, bytes at least, bytes at most | isolation
    frame[4 + 2 + 2 + 4 + 2 + len(frames.CLIENT_ID) + 1 + 16] = isolation
    return frame, offset_at


class Fetched:
    """The answer of a fetch of one partition: its end offset, and how many were aborted."""

    def __init__(self, answer: memoryview, topic: str) -> None:
        at = 4 + 4 + 1 + 4
        if any(answer[at : at + 2]):
            raise LoadError(f"Fetch failed as a whole: {bytes(answer[:64]).hex()}")
        at += 2 + 4 + 1 + len(_topic(topic)) + 1 + 4
        if any(answer[at : at + 2]):
            raise LoadError(f"Fetch of {topic} failed: {bytes(answer[:96]).hex()}")
        at += 2 + 8
        self.last_stable_offset = struct.unpack_from(">q", answer, at)[0]
        count, at = frames.read_unsigned(answer, at + 16)
        self.aborted_count = max(0, count - 1)
        at += 17 * self.aborted_count
        size, at = frames.read_unsigned(answer, at + 4)
        self.size = max(0, size - 1)
        self.records = answer[at : at + self.size]

    def next_offset(self) -> int:
        """Return the offset after the last whole batch; -1 without any."""
        at, found = 0, -1
        while at + BATCH_HEADER_SIZE <= self.size:
            base, length = struct.unpack_from(">qi", self.records, at)
            if at + 12 + length > self.size:
                break
            found = base + struct.unpack_from(">i", self.records, at + 23)[0] + 1
            at += 12 + length
        return found
