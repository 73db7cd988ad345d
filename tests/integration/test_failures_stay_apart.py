"""One partition fails; only its readers notice: over a socket, on a real directory."""

from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.raw_batches import batch, values_of
from tests.support.raw_client import (
    FETCH,
    FETCH_VERSION,
    RawClient,
    Reader,
    array,
    int8,
    int32,
    int64,
    string,
)
from tests.support.under_test import against_kafka

pytestmark = pytest.mark.skipif(against_kafka(), reason="the file is changed under the broker")

STORAGE_ERROR = 56
MAGIC_AT = 16
MANY = 1 << 20


def fetch_of_two(min_bytes: int) -> bytes:
    """A request for partitions 0 and 1 of "t", from their first offset, that may wait."""
    partitions = array(*(int32(number) + int64(0) + int32(MANY) for number in (0, 1)))
    head = int32(-1) + int32(60_000) + int32(min_bytes) + int32(MANY) + int8(0)
    return head + array(string("t") + partitions)


def answered(answer: Reader) -> dict[int, tuple[int, list[bytes]]]:
    """By partition: error code and values."""
    answer.number(4)
    assert answer.number(4) == 1
    answer.string()
    found = {}
    for _ in range(answer.number(4)):
        partition, error = answer.number(4), answer.number(2)
        answer.take(16)
        for _ in range(max(answer.number(4), 0)):
            answer.take(16)
        found[partition] = error, values_of(answer.sized() or b"")
    return found


def test_a_rotted_batch_affects_only_its_partition(tmp_path: Path) -> None:
    """One fetch waits for many bytes of a log that rots, and of another that gets records.

    The bytes are counted when a flush ends; it, and the others of its round, must still end.
    """
    with BrokerProcess(tmp_path / "data", {}) as broker:
        writer = RawClient(broker.host, broker.port)
        reader = RawClient(broker.host, broker.port)
        with writer, reader:
            assert writer.create_topic("t", partitions=3) == 0
            assert writer.produce("t", batch([b"rots"]), 0).error == 0
            reader.send_request(FETCH, FETCH_VERSION, fetch_of_two(min_bytes=MANY))
            with open(tmp_path / "data" / "t-0" / f"{0:020}.log", "r+b") as file:
                file.seek(MAGIC_AT)
                file.write(b"\x55")
            for partition in (1, 2, 1, 2):
                answer = writer.produce("t", batch([b"sound"]), partition)
                assert answer.error == 0, answer
            frame = Reader(reader.receive_frame())
            frame.number(4)
            found = answered(frame)
            assert found[0] == (STORAGE_ERROR, [])
            assert found[1][0] == 0
            assert set(found[1][1]) <= {b"sound"}, "none, if it was not parked before the rot"
            again = answered(reader.call(FETCH, FETCH_VERSION, fetch_of_two(min_bytes=100)))
            assert again == {0: (STORAGE_ERROR, []), 1: (0, [b"sound"] * 2)}
        assert broker.stop() == 0, "the stop was not clean"
