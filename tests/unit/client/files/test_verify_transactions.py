"""`verify` on logs with transactions: markers, lists of aborted ones, states of ids."""

import struct

import pytest

from client.files.findings import CACHE, DAMAGE, Report
from client.files.verify_expected import CLEAN, CRASHED, RUNNING, Expected
from client.files.verify_partition import PartitionCheck
from protocol.control_records import Marker, build_marker
from protocol.record_batch import write_crc
from protocol.records import Record, build, stamp
from protocol.transaction_records import TransactionKey, TransactionValue, encode_key, encode_value
from storage.files.os_filesystem import OsFileSystem

NOW = 1_700_000_000_000
KINDS = ("marker", "state", "txnindex")


def data(offset, pid, count=2):
    records = [Record(n, NOW, b"k", b"v", ()) for n in range(count)]
    made = build(records, producer_id=pid, producer_epoch=0, base_sequence=0, transactional=True)
    return placed(offset, made)


def marker(offset, pid, *, commit):
    return placed(offset, build_marker(Marker(pid, 1, is_commit=commit, coordinator_epoch=0), NOW))


def placed(offset, batch):
    stamp(batch, 0, offset, 0)
    return bytes(batch)


def entry(pid, first, last, stable):
    return struct.pack(">hqqqq", 0, pid, first, last, stable)


# Producer 6 aborts offsets 0 to 4, beside producer 7, whose transaction ends in the next segment.
FIRST = [data(0, 6), data(2, 7), marker(4, 6, commit=False), data(5, 6), marker(7, 6, commit=True)]
SECOND = [marker(8, 7, commit=False), marker(9, 9, commit=False), data(10, 9)]
LISTED = [entry(6, 0, 4, 2), entry(7, 2, 8, 9)]


def write(tmp_path, segments, lists, name="t-0"):
    directory = tmp_path / "data" / name
    directory.mkdir(parents=True)
    for base, batches in segments.items():
        (directory / f"{base:020}.log").write_bytes(b"".join(batches))
    for base, entries in lists.items():
        (directory / f"{base:020}.txnindex").write_bytes(b"".join(entries))
    return directory


def found(directory, **expected):
    report = Report()
    PartitionCheck(
        report,
        OsFileSystem(),
        str(directory),
        Expected(**({"ending": CLEAN, "is_compacted": True} | expected)),
        open_records=False,
        progress=lambda _: None,
    ).run()
    return [
        (one.weight, one.kind, one.offset, one.found)
        for one in report.findings
        if one.kind in KINDS
    ]


def test_what_the_lists_say_is_what_the_markers_say(tmp_path):
    whole = {0: LISTED[:1], 8: LISTED[1:]}
    assert found(write(tmp_path, {0: FIRST, 8: SECOND}, whole)) == []


def test_a_lost_list_is_found_after_a_clean_stop(tmp_path):
    directory = write(tmp_path, {0: FIRST, 8: SECOND}, {8: LISTED[1:]})
    ((weight, kind, offset, text),) = found(directory)
    assert (weight, kind, offset) == (CACHE, "txnindex", 4)
    assert text == (
        "no entry for the transaction of producer 6 that begins at offset 0 and is aborted at 4"
    )
    for ending in (CRASHED, RUNNING):
        assert found(directory, ending=ending) == [], "the list may be behind"
        assert found(directory, ending=ending, recovery_point=4) == []
        assert len(found(directory, ending=ending, recovery_point=5)) == 1


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([entry(6, 1, 4, 2)], "offsets 1 to 4, stable 2: expected offsets 0 to 4, stable 2"),
        ([entry(6, 0, 4, 5)], "offsets 0 to 4, stable 5: expected offsets 0 to 4, stable 2"),
        ([LISTED[0], entry(6, 5, 7, 2)], "offset 7, where the log commits one of producer 6"),
        ([entry(9, 0, 4, 2)], "where the log aborts one of producer 6"),
    ],
)
def test_a_wrong_entry_is_found(tmp_path, entries, words):
    first, *_ = found(write(tmp_path, {0: FIRST, 8: SECOND}, {0: entries, 8: LISTED[1:]}))
    assert first[:2] == (CACHE, "txnindex")
    assert words in first[3]


def test_entries_may_outlive_data_that_was_deleted_or_compacted(tmp_path):
    assert found(write(tmp_path, {8: SECOND}, {8: LISTED[1:]})) == []


def test_behind_damage_nothing_is_said_of_what_it_may_have_hidden(tmp_path):
    """The damaged batch is a commit: producer 6 begins anew behind it."""
    broken = bytearray(marker(7, 6, commit=True))
    broken[-1] ^= 1
    behind = [data(8, 6), marker(10, 6, commit=False)]
    directory = write(
        tmp_path, {0: [*FIRST[:4], bytes(broken), *behind]}, {0: [LISTED[0], entry(6, 8, 10, 2)]}
    )
    assert found(directory) == []


def test_a_marker_that_cannot_be_read_is_damage(tmp_path):
    broken = bytearray(marker(2, 6, commit=True))
    broken[61] = 0x7F
    write_crc(broken, 0)
    ((weight, kind, offset, _),) = found(write(tmp_path, {0: [data(0, 6), bytes(broken)]}, {}))
    assert (weight, kind, offset) == (DAMAGE, "marker", 2)


STATE = TransactionValue(
    producer_id=7,
    producer_epoch=0,
    transaction_timeout_ms=60_000,
    transaction_status=0,
    transaction_partitions=None,
    transaction_last_update_timestamp_ms=NOW,
    transaction_start_timestamp_ms=-1,
)


@pytest.mark.parametrize(
    ("value", "is_sound"), [(encode_value(STATE), True), (None, True), (b"\0\7", False)]
)
def test_states_of_transactional_ids_must_be_readable(tmp_path, value, is_sound):
    key = encode_key(TransactionKey(transactional_id="id"))
    batches = [placed(0, build([Record(0, NOW, key, value, ())]))]
    directory = write(tmp_path, {0: batches}, {}, "__transaction_state-3")
    assert [one[:3] for one in found(directory)] == ([] if is_sound else [(DAMAGE, "state", 0)])
    assert found(write(tmp_path / "other", {0: batches}, {}, "t-0")) == []


def test_a_state_without_an_id_is_damage(tmp_path):
    batches = [placed(0, build([Record(0, NOW, None, encode_value(STATE), ())]))]
    directory = write(tmp_path, {0: batches}, {}, "__transaction_state-3")
    assert [one[:2] for one in found(directory)] == [(DAMAGE, "state")]
