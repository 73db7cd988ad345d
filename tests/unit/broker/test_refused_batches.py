"""What is counted of batches that a Produce refuses."""

import pytest

from broker.refused_batches import count_refused, say_mistimed
from broker.runtime.traffic import Traffic
from protocol.errors import ErrorCode
from protocol.messages.produce import PartitionProduceResponse
from protocol.record_errors import CorruptBatch, RecordBatchTooLarge, RecordsWithoutKey
from protocol.record_walks import Mistimed
from storage.errors import BatchTooLarge, InvalidTimestamp


@pytest.mark.parametrize(
    ("error", "counted"),
    [
        (RecordBatchTooLarge(8, 4), (8, 0, 0)),
        (BatchTooLarge(8, 4), (8, 0, 0)),
        (CorruptBatch(0, "torn"), (0, 1, 0)),
        (RecordsWithoutKey([1], 5), (0, 0, 5)),
        (ValueError(), (0, 0, 0)),
    ],
)
def test_each_batch_is_counted_by_its_reason(
    error: Exception, counted: tuple[int, int, int]
) -> None:
    traffic = Traffic()
    count_refused(traffic, ErrorCode.CORRUPT_MESSAGE, "known", error, memoryview(bytes(8)))
    count_refused(traffic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    found = (traffic.bytes_rejected, traffic.batches_corrupt, traffic.records_without_key)
    assert found == counted
    assert traffic.failed_produces == 2
    assert {name: one.failed_produces for name, one in traffic.topics.items()} == {"known": 1}
    assert traffic.errors == {(0, 2): 1, (0, 3): 1}


def test_mistimed_records_are_named() -> None:
    answer = PartitionProduceResponse(index=0, base_offset=-1)
    say_mistimed(answer, InvalidTimestamp(9, 1, 2), Mistimed(7, [(3, 9)]))
    assert [one.batch_index for one in answer.record_errors] == [3]
    assert "7 records" in (answer.error_message or "")
