"""Aborted and open transactions: from .txnindex, from snapshots, from the batches behind them."""

from __future__ import annotations

import json
import os
import struct

import crc32c
import pytest
from files import offline_rows
from test_segments import batch, write

from pyspark_barnabas.source.transactions import (
    Aborted,
    CommittedOnly,
    Transactions,
    read_snapshot,
    read_transaction_index,
)
from pyspark_barnabas.wire.batches import CONTROL, TRANSACTIONAL, read_batches
from pyspark_barnabas.wire.encode import Producer, Record, build_batch
from pyspark_barnabas.wire.errors import DamagedLog

P, Q = 7, 9
COMMITTED = {"subscribe": "t", "kafka.isolation.level": "read_committed"}


def data(offset, producer, count=2):
    records = [Record(None, b"%d" % (offset + index), 1000) for index in range(count)]
    return bytes(build_batch(records, base_offset=offset, producer=Producer(producer, 0, 0),
                             attributes=TRANSACTIONAL))  # fmt: skip


def marker(offset, producer, *, commit):
    key = struct.pack(">hh", 0, int(commit))
    record = Record(key, struct.pack(">hi", 0, 0), 1000)
    return bytes(build_batch([record], base_offset=offset, producer=Producer(producer, 0, -1),
                             attributes=TRANSACTIONAL | CONTROL))  # fmt: skip


# Offsets 0-1 P, 2-3 Q, 4 P aborts, 5-6 plain, 7 Q commits, 8-9 P, 10 P commits, 11-12 Q, open.
LOG = [
    data(0, P), data(2, Q), marker(4, P, commit=False), batch(5, 2), marker(7, Q, commit=True),
    data(8, P), marker(10, P, commit=True), data(11, Q),
]  # fmt: skip
VISIBLE = [2, 3, 5, 6, 8, 9]


def txnindex(directory, entries, base=0, version=0):
    path = directory / "t-0" / f"{base:020d}.txnindex"
    path.write_bytes(b"".join(struct.pack(">hqqqq", version, *entry) for entry in entries))
    return path


def snapshot(directory, offset, open_at):
    rest = struct.pack(">i", len(open_at))
    for producer_id, first in open_at.items():
        rest += struct.pack(">qhiqiqiq", producer_id, 0, 1, offset - 1, 0, 1000, -1, first)
    path = directory / "t-0" / f"{offset:020d}.snapshot"
    path.write_bytes(struct.pack(">hI", 1, crc32c.crc32c(rest)) + rest)
    return path


def offsets(directory, **options):
    return [offset for (offset,) in offline_rows(directory, ["offset"], **COMMITTED, **options)]


def test_without_any_file_beside_it_the_log_itself_tells(tmp_path):
    write(tmp_path, LOG)
    assert offsets(tmp_path) == VISIBLE
    everything = offline_rows(tmp_path, ["offset"], subscribe="t")
    assert [at for (at,) in everything] == [0, 1, 2, 3, 5, 6, 8, 9, 11, 12]


def test_each_cut_of_the_log_shows_the_same(tmp_path):
    write(tmp_path, LOG)
    for count in range(2, 13):
        assert offsets(tmp_path, maxRecordsPerPartition=str(count)) == VISIBLE
        assert offsets(tmp_path, minPartitions=str(count)) == VISIBLE
    for start in range(12):
        starting = json.dumps({"t": {"0": start}})
        found = offsets(tmp_path, startingOffsets=starting, failOnDataLoss="false")
        assert found == [at for at in VISIBLE if at >= start]


def test_a_transaction_over_two_segments_is_found_by_the_index_of_the_second(tmp_path):
    write(tmp_path, LOG[:2])
    write(tmp_path, LOG[2:6], base=4)
    write(tmp_path, LOG[6:], base=10)
    txnindex(tmp_path, [(P, 0, 4, 2)], base=4)
    snapshot(tmp_path, 10, {P: 8})
    assert offsets(tmp_path) == VISIBLE


def test_what_a_snapshot_knows_as_open_is_closed_behind_it(tmp_path):
    write(tmp_path, LOG[:2])
    write(tmp_path, LOG[2:], base=4)
    snapshot(tmp_path, 4, {P: 0, Q: 2})
    assert offsets(tmp_path) == VISIBLE
    write(tmp_path, LOG[2:3], base=4)  # Q never ends
    assert offsets(tmp_path) == []
    assert offsets(tmp_path, endingOffsets='{"t": {"0": 2}}') == []


@pytest.mark.parametrize("damage", [b"", b"short", "version", "crc", "future"])
def test_a_snapshot_that_is_none_is_passed_over(tmp_path, damage):
    write(tmp_path, LOG)
    path = snapshot(tmp_path, 12, {})
    if damage == "future":
        os.rename(path, path.with_name(f"{99:020d}.snapshot"))
    else:
        whole = bytearray(path.read_bytes())
        if damage == "version":
            whole[1] = 2
        elif damage == "crc":
            whole[-1] ^= 1
        path.write_bytes(whole if isinstance(damage, str) else damage)
        assert read_snapshot(str(path)) is None
    assert offsets(tmp_path) == VISIBLE
    assert read_snapshot(str(tmp_path / "none")) is None


def test_what_lies_behind_a_task_is_not_held_against_it(tmp_path):
    """A task knows the aborted transactions of its offsets; those behind are read with them."""
    log = [data(0, P), marker(2, P, commit=True), data(3, P), marker(5, P, commit=False)]
    write(tmp_path, log)
    for count in (1, 2, 3):
        assert offsets(tmp_path, maxRecordsPerPartition=str(count)) == [0, 1]
    assert offsets(tmp_path, endingOffsets='{"t": {"0": 1}}') == [0]


def test_an_index_that_lacks_a_transaction_is_noticed_at_its_marker(tmp_path):
    write(tmp_path, LOG)
    snapshot(tmp_path, 11, {})  # says that all before it is in the .txnindex, which is missing
    with pytest.raises(DamagedLog, match="offset 4 aborts a transaction of producer 7 that no"):
        offsets(tmp_path)


def test_an_index_entry_that_cannot_be_is_damage(tmp_path):
    write(tmp_path, LOG)
    for entry in [(P, 5, 4, 2), (-1, 0, 4, 2), (P, -1, 4, 2)]:
        path = txnindex(tmp_path, [entry])
        with pytest.raises(DamagedLog, match=f"{path}: version 0, producer .* is no aborted"):
            offsets(tmp_path)
    path = txnindex(tmp_path, [(P, 0, 4, 2)], version=1)
    with pytest.raises(DamagedLog, match="version 1"):
        offsets(tmp_path)


def test_an_entry_cut_short_or_behind_the_end_is_left_out(tmp_path):
    write(tmp_path, LOG)
    path = txnindex(tmp_path, [(P, 0, 4, 2), (P, 90, 99, 90)])
    path.write_bytes(path.read_bytes() + b"\0\0\1")
    found = read_transaction_index(str(path).replace("txnindex", "log"), 13)
    assert found == [Aborted(0, 4, P)]
    assert offsets(tmp_path) == VISIBLE


def test_those_with_records_in_a_range_are_chosen():
    known = Transactions((Aborted(0, 4, P), Aborted(10, 20, P), Aborted(30, 40, Q)), None)
    assert known.within(5, 30) == [(P, 10)]
    assert known.within(20, None) == [(P, 10), (Q, 30)]


def test_a_commit_forgets_what_was_given():
    sight = CommittedOnly([])
    log = b"".join([data(0, P), marker(2, P, commit=True), marker(3, P, commit=False)])
    assert [sight.sees(log, one) for one in read_batches(log)] == [True, False, False]
