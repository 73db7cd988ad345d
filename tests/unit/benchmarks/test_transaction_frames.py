"""The frames of the load of transactions are what the broker's codec reads and writes."""

import pytest

from benchmarks import frames
from benchmarks import transaction_frames as raw
from benchmarks.transaction_frames import TV1, TV2, Fetched, TransactionFrames
from broker.handlers import HANDLERS
from protocol.dialect import RequestHeader
from protocol.kafka.dialect import KafkaDialect
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from protocol.messages.end_txn import EndTxnResponse
from protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from protocol.messages.init_producer_id import InitProducerIdResponse
from protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from protocol.record_batch import verify_produced
from protocol.records import batches, read_records

DIALECT = KafkaDialect({int(row.api_key): row for row in HANDLERS})
BATCH = frames.record_batch([b"one", b"two"], 1_700_000_000_000)


def read(frame):
    return DIALECT.decode_request(memoryview(bytearray(frame))[4:])


def answer(key, version, response):
    header = RequestHeader(key, version, 1, "bench")
    return b"".join(map(bytes, DIALECT.encode_response(header, response)))


@pytest.mark.parametrize("version", [TV1, TV2])
def test_a_transaction_is_stamped_with_id_epoch_and_sequence(version):
    made = TransactionFrames("an-id", "t", [3, 5], BATCH, version=version, requests_each=2)
    made.use(70, 4)
    produces = [read(frame) for frame in made.begin()]
    sequences = []
    for produce in produces:
        assert produce.body.transactional_id == "an-id"
        (topic,) = produce.body.topic_data
        assert [data.index for data in topic.partition_data] == [3, 5]
        for data in topic.partition_data:
            header = verify_produced(data.records, 1 << 20)  # raises for a wrong CRC
            assert (header.producer_id, header.producer_epoch) == (70, 4)
            assert header.is_transactional
            sequences.append(header.base_sequence)
    assert sequences == [0, 0, 2, 2]
    end, add = read(made.end()), read(made.add())
    assert (end.body.transactional_id, end.body.committed) == ("an-id", True)
    assert (end.body.producer_id, end.body.producer_epoch) == (70, 4)
    assert add.body.v3_and_below_topics[0].partitions == [3, 5]
    assert (add.body.v3_and_below_producer_id, add.body.v3_and_below_producer_epoch) == (70, 4)


def test_sequences_go_on_in_tv1_and_begin_anew_in_tv2():
    for version, expected in ((TV1, 2), (TV2, 0)):
        made = TransactionFrames("an-id", "t", [0], BATCH, version=version)
        made.use(70, 4)
        made.begin()
        made.use(70, 4 + version - 1)
        (frame,) = made.begin()
        data = read(frame).body.topic_data[0].partition_data[0]
        assert verify_produced(data.records, 1 << 20).base_sequence == expected


def test_every_second_transaction_is_aborted():
    made = TransactionFrames("an-id", "t", [0], BATCH, aborted_each=2)
    made.use(70, 4)
    outcomes = []
    for _ in range(4):
        made.begin()
        outcomes.append(read(made.end()).body.committed)
    assert outcomes == [True, False, True, False]


def test_answers_are_read():
    made = TransactionFrames("an-id", "t", [3, 5], BATCH)
    produced = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name="t",
                partition_responses=[
                    PartitionProduceResponse(index=3),
                    PartitionProduceResponse(index=5, error_code=51),
                ],
            )
        ]
    )
    assert made.produced_errors(answer(0, 12, produced)) == [0, 51]
    results = [
        AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=code)
        for number, code in ((3, 0), (5, 48))
    ]
    topic = AddPartitionsToTxnTopicResult(name="t", results_by_partition=results)
    added = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])
    assert made.added_error(answer(24, 3, added)) == 48
    ended = EndTxnResponse(error_code=0, producer_id=70, producer_epoch=5)
    assert raw.ended(answer(26, 5, ended)) == (0, 70, 5)
    assert raw.ended(answer(26, 3, EndTxnResponse(error_code=48)))[0] == 48
    inited = InitProducerIdResponse(producer_id=70, producer_epoch=5)
    assert raw.inited(answer(22, 4, inited)) == (0, 70, 5)


def test_a_fetch_asks_for_its_level_and_its_answer_is_read():
    frame, offset_at = raw.fetch("t", 3, 9, isolation=1, wait_ms=5)
    assert frame[offset_at : offset_at + 8] == (9).to_bytes(8, "big")
    body = read(frame).body
    assert (body.isolation_level, body.topics[0].partitions[0].fetch_offset) == (1, 9)
    aborted = [AbortedTransaction(producer_id=1, first_offset=2)] * 3
    data = PartitionData(
        partition_index=3,
        high_watermark=50,
        last_stable_offset=44,
        aborted_transactions=aborted,
        records=BATCH,
    )
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])
    fetched = Fetched(memoryview(answer(1, 12, response)), "t")
    assert (fetched.last_stable_offset, fetched.aborted_count) == (44, 3)
    assert (bytes(fetched.records), fetched.next_offset()) == (BATCH, 2)


def test_a_marker_is_a_control_batch():
    for is_commit in (False, True):
        marker = raw.control_batch(70, 4, 1_700_000_000_000, is_commit=is_commit)
        assert len(marker) == 78
        ((_, header),) = batches(marker)
        assert header.is_control
        assert (header.producer_id, header.producer_epoch) == (70, 4)
        (record,) = read_records(marker, 0, size_max=1 << 20)
        assert record.key == bytes([0, 0, 0, is_commit])
