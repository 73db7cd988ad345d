"""Files shown in Kafka's format, the short format and JSON; the walk past damage."""

import json
import struct

import pytest

from client.files.batches import LogBytes, entries, next_entry_behind, read_entry
from client.files.dump import (
    NotDumpable,
    dump_lines,
    files_in,
    is_metadata,
    is_transaction_state,
    kind_of,
)
from client.files.dump_log import JSON, SHORT, Shown
from client.files.findings import KEPT_MAX, Report
from client.files.metadata_json import camel, control_text, metadata_object
from client.files.texts import as_json, one_line, plural, shown
from protocol.errors import DecodeError
from protocol.kafka.codec import encode_message
from protocol.metadata_records import KRaftVersionRecord, PartitionRecord, TopicRecord
from protocol.record_errors import CorruptBatch
from protocol.records import Record, build
from protocol.transaction_records import (
    TransactionKey,
    TransactionPartitions,
    TransactionValue,
    encode_key,
    encode_value,
)
from storage.files.os_filesystem import OsFileSystem
from tests.support import data_directory

TIME = 1547557716588
TEN = [Record(0, TIME + n, None, b"message_%d" % n, ()) for n in range(10)]


def lines(path, **options):
    complaints = []
    found = list(dump_lines(str(path), Shown(**options), complaints.append))
    return found, complaints


@pytest.fixture
def log(tmp_path):
    """Write batches at offsets 0, 10 and 20; the second uses every feature of records."""
    path = tmp_path / "00000000000000000000.log"
    full = [
        Record(0, TIME, b"k\x1b[31m", b"two\nlines \xff", (("a", b"1"), ("b", None))),
        Record(0, TIME + 1, None, None),
    ]
    path.write_bytes(
        build(TEN)
        + build(full, base_offset=10, producer_id=7, producer_epoch=1, base_sequence=2**31 - 1)
        + build(TEN, base_offset=20, codec=1, timestamp_type=1)
    )
    return path


def test_the_short_format_has_one_line_per_record(log):
    found, complaints = lines(log, form=SHORT, record_count_max=2)
    assert found == [
        f"offset: 0 position: 0 CreateTime: {TIME} payload: message_0",
        f"offset: 1 position: 0 CreateTime: {TIME + 1} payload: message_1",
    ]
    assert complaints == []


def test_kafkas_format_has_a_line_per_batch_too(log):
    found, _ = lines(log, offset_start=10)
    assert found[:2] == [f"Dumping {log}", "Log starting offset: 0"]
    assert found[2].startswith("baseOffset: 10 lastOffset: 11 count: 2 baseSequence: 2147483647")
    assert "lastSequence: 0 producerId: 7" in found[2]
    assert found[3] == (
        f"| offset: 10 CreateTime: {TIME} keySize: 6 valueSize: 11 sequence: 2147483647 "
        "headerKeys: [a,b] key: k\\x1b[31m payload: two\\nlines \ufffd"
    )
    assert found[4] == (
        f"| offset: 11 CreateTime: {TIME + 1} keySize: -1 valueSize: -1 sequence: 0 headerKeys: []"
    )
    assert f"LogAppendTime: {TIME + 9} size:" in found[5]
    assert all(f" LogAppendTime: {TIME + 9} " in line for line in found[6:])


def test_json_has_headers_values_and_bytes(log):
    found = [json.loads(line) for line in lines(log, form=JSON)[0]]
    assert found[0] == {"type": "file", "path": str(log)}
    record = next(one for one in found if one.get("offset") == 10)
    assert record["headers"] == [{"key": "a", "value": "1"}, {"key": "b", "value": None}]
    assert record["value_base64"] == "dHdvCmxpbmVzIP8="
    assert [one["is_valid"] for one in found if one["type"] == "batch"] == [True] * 3


@pytest.mark.parametrize("form", ["kafka", SHORT, JSON])
def test_options_show_less(log, form):
    assert not any("message" in line for line in lines(log, form=form, values=False)[0])
    assert not any("two" in line for line in lines(log, form=form, records=False)[0])


def damaged(log, position, data):
    content = bytearray(log.read_bytes())
    content[position : position + len(data)] = data
    log.write_bytes(content)


def test_an_unreadable_batch_is_reported_and_skipped(log):
    damaged(log, 61, b"\xff\xff\xff\xff")
    found, (complaint,) = lines(log)
    assert "isvalid: false" in found[2]
    assert "position 0 (offsets 0 to 9) cannot be opened" in complaint
    assert sum(line.startswith("| offset: ") for line in found) == 12


def test_bytes_outside_of_batches_are_counted(log):
    size = log.stat().st_size
    log.write_bytes(log.read_bytes() + b"\0" * 30)
    found, (complaint,) = lines(log)
    assert found[-1] == f"Found 30 invalid bytes at the end of {log.name}"
    assert f"from position {size} on" in complaint


def test_the_walk_continues_after_damage(log):
    second = len(build(TEN))
    damaged(log, second + 8, b"\x7f\xff\xff\xff")
    file = OsFileSystem().open(str(log), write=False)
    source = LogBytes(file)
    walk = entries(source)
    assert next(walk).base_offset == 0
    with pytest.raises(CorruptBatch) as broken:
        next(walk)
    assert broken.value.position == second
    behind = next_entry_behind(source, second + 1, 10)
    assert read_entry(source, behind).base_offset == 20
    assert next_entry_behind(source, second + 1, 21) is None
    file.close()


def test_every_file_of_a_partition_is_shown(tmp_path):
    data = data_directory.make(tmp_path / "data")
    files = files_in(str(data / "t-0"))
    shown_of = {path: lines(path)[0] for path in files}
    assert all(complaints == [] for complaints in (lines(path)[1] for path in files))
    for suffix, words in (
        (".index", "position: "),
        (".timeindex", "timestamp: "),
        (".snapshot", "producerId: 4000 producerEpoch: 0 coordinatorEpoch: -1"),
        (".producers", "producerId: 4000"),
    ):
        last = [path for path in files if path.endswith(suffix)][-1]
        assert words in shown_of[last][1]
    (metadata,) = [path for path in files_in(str(data / "__cluster_metadata-0")) if ".log" in path]
    assert is_metadata(metadata)
    assert any('"type":"TOPIC_RECORD"' in line for line in lines(metadata, metadata=True)[0])
    some = next(path for path in files if path.endswith(".index"))
    assert json.loads(lines(some, form=JSON)[0][1]).keys() == {"type", "offset", "position"}


ENDING = TransactionValue(
    producer_id=7,
    producer_epoch=32767,
    transaction_timeout_ms=60_000,
    transaction_status=2,
    transaction_partitions=[TransactionPartitions(topic="t", partition_ids=[1, 0])],
    transaction_last_update_timestamp_ms=5,
    transaction_start_timestamp_ms=4,
    next_producer_id=9,
    next_producer_epoch=0,
    client_transaction_version=2,
)
"""The end of the last transaction of a producer id, in which every field is used."""
KEY = encode_key(TransactionKey(transactional_id='a"b'))
OLD = b"\0\0" + encode_message(ENDING, 0)


def state_log(tmp_path, *pairs):
    directory = tmp_path / "__transaction_state-12"
    directory.mkdir()
    path = directory / "00000000000000000000.log"
    path.write_bytes(build([Record(n, TIME, *pair) for n, pair in enumerate(pairs)]))
    assert is_transaction_state(str(path))
    assert not is_transaction_state(str(tmp_path / "__transaction_state" / path.name))
    return path


def test_the_states_of_transactional_ids_are_shown_as_kafka_shows_them(tmp_path):
    """The lines are those of DumpLogSegments --transaction-log-decoder, Kafka 4.3."""
    path = state_log(
        tmp_path, (KEY, encode_value(ENDING)), (KEY, None), (KEY, OLD), (b"\0\5x", b"\0\0")
    )
    found, complaints = lines(path, transactions=True)
    shown = [line[line.index(" key: ") :] for line in found[3:]]
    key = """ key: {"type":"0","data":{"transactionalId":"a\\"b"}} payload: """
    partitions = '"transactionPartitions":[{"topic":"t","partitionIds":[1,0]}]'
    times = '"transactionLastUpdateTimestampMs":5,"transactionStartTimestampMs":4'
    assert shown == [
        (
            f'{key}{{"version":"1","data":{{"producerId":7,"nextProducerId":9,'
            '"producerEpoch":32767,"nextProducerEpoch":0,"transactionTimeoutMs":60000,'
            f'"transactionStatus":2,{partitions},{times},"clientTransactionVersion":2}}}}'
        ),
        f"{key}<DELETE>",
        (
            f'{key}{{"version":"0","data":{{"producerId":7,"producerEpoch":32767,'
            f'"transactionTimeoutMs":60000,"transactionStatus":2,{partitions},{times}}}}}'
        ),
        " key: Unknown record type 5 at offset 3, skipping.",
    ]
    assert complaints == []
    records = [json.loads(line) for line in lines(path, form=JSON, transactions=True)[0]][2:]
    assert records[0]["transaction"]["value"]["data"]["nextProducerId"] == 9
    assert records[1]["transaction"] == {
        "key": {"type": "0", "data": {"transactionalId": 'a"b'}}, "value": None
    }  # fmt: skip
    assert records[3]["transaction"] == {"type": 5}


@pytest.mark.parametrize(
    "pair", [(None, OLD), (b"\0", OLD), (KEY, b""), (KEY, b"\0\7"), (KEY, OLD + b"x")]
)
def test_a_state_that_cannot_be_read_is_reported(tmp_path, pair):
    _, (complaint,) = lines(state_log(tmp_path, pair), transactions=True)
    assert "(offsets 0 to 0) cannot be opened: " in complaint


@pytest.mark.parametrize(
    "name", ["meta.properties", "x.log", "00000000000000000000.what", "leader-epoch-checkpoint"]
)
def test_a_refused_file_names_the_supported_kinds(tmp_path, name):
    with pytest.raises(NotDumpable, match=r"segment's file \(<20 digits>\.log"):
        kind_of(str(tmp_path / name))


def test_a_missing_path_is_reported_as_missing(tmp_path):
    with pytest.raises(NotDumpable, match="absent: No such file or directory"):
        files_in(str(tmp_path / "absent"))


def test_an_empty_directory_cannot_be_shown(tmp_path):
    with pytest.raises(NotDumpable, match="no segment"):
        files_in(str(tmp_path))


def test_damaged_caches_are_reported(tmp_path):
    for name in ("00000000000000000009.snapshot", "00000000000000000009.producers"):
        (tmp_path / name).write_bytes(b"garbage, and more of it than a head")
        assert len(lines(tmp_path / name)[1]) == 1
    path = tmp_path / "00000000000000000000.txnindex"
    path.write_bytes(struct.pack(">hqqqq", 0, 7, 1, 5, 6) + b"rest")
    found, complaints = lines(path)
    assert found[1] == "version: 0 producerId: 7 firstOffset: 1 lastOffset: 5 lastStableOffset: 6"
    assert "4 bytes at the end" in complaints[0]
    empty = tmp_path / "00000000000000000000.index"
    empty.write_bytes(bytes(80))
    assert lines(empty)[0][1] == f"{empty} is empty."


def framed(record, kind, version):
    return bytes([1, kind, version]) + encode_message(record, version)


def test_metadata_records_are_kafkas_json():
    topic = TopicRecord(name="t", topic_id=bytes(16))
    assert metadata_object(framed(topic, 2, 0)) == {
        "type": "TOPIC_RECORD",
        "version": 0,
        "data": {"name": "t", "topicId": "AAAAAAAAAAAAAAAAAAAAAA"},
    }
    record = PartitionRecord(partition_id=1, topic_id=bytes(16), replicas=[1], leader=1)
    data = metadata_object(framed(record, 3, 0))["data"]
    assert "directories" not in data, "version 0 has none"
    assert "leaderRecoveryState" not in data, "a tagged field at its default"
    assert metadata_object(bytes([1, 11, 0])) == {
        "type": "USER_SCRAM_CREDENTIAL_RECORD",
        "apiKey": 11,
        "version": 0,
    }
    assert camel("is_migrating_zk_broker") == "isMigratingZkBroker"


@pytest.mark.parametrize(
    "value",
    [
        *(None, b"", b"\1", b"\2\2\0", b"\1\2\0", b"\1\2\x63"),
        framed(TopicRecord(name="t", topic_id=bytes(16)), 2, 0) + b"x",
    ],
)
def test_a_value_that_is_no_metadata_record_is_refused(value):
    with pytest.raises(DecodeError):
        metadata_object(value)


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        (0, struct.pack(">hi", 0, 5), " endTxnMarker: ABORT coordinatorEpoch: 5"),
        (1, struct.pack(">hi", 0, 6), " endTxnMarker: COMMIT coordinatorEpoch: 6"),
        (9, b"", " controlType: UNKNOWN(9)"),
        (
            5,
            encode_message(KRaftVersionRecord(kraft_version=1), 0),
            ' KRaftVersion {"version":0,"kRaftVersion":1}',
        ),
    ],
)
def test_control_records_are_shown_as_in_kafka(kind, value, wanted):
    assert control_text(struct.pack(">hh", 0, kind), value) == wanted


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"\0\0", b""),
        (b"\0\0\0\1", b"\0"),
        (b"\0\0\0\2", b""),
        (b"\0\0\0\2", b"\0\x63"),
    ],
)
def test_a_record_that_is_no_control_record_is_refused(key, value):
    with pytest.raises(DecodeError):
        control_text(key, value)


def test_small_texts():
    assert shown(b"a\tb\x07\xc3\xa9\x9b") == "a\tb\\x07é\ufffd"
    assert one_line("a\u2028\x9b") == "a\\u2028\\x9b"
    assert as_json("key", None) == {"key": None}
    assert [plural(1, "file"), plural(2, "batch"), plural(1000, "file")] == [
        "1 file", "2 batches", "1,000 files",
    ]  # fmt: skip


def test_a_report_keeps_the_first_findings():
    report = Report()
    for number in range(KEPT_MAX + 3):
        report.damage("order", "path", str(number), "meaning")
    assert len(report.findings) == KEPT_MAX
    assert report.untold == {("path", "order"): 3}
    assert report.as_json()["not_listed"] == [{"path": "path", "kind": "order", "count": 3}]
